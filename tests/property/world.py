"""A small model of Kubernetes and Slurm around the planner: what they do with its actions, second by second.

It follows what was seen of the real ones: docs/architecture.md, "How nodes start and stop".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Any

from slurmcluster_operator.decide.ownership import Occupants, obstacle
from slurmcluster_operator.decide.seats import FAILED
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import (
    Action,
    CommentJob,
    CreatePod,
    DeletePod,
    Drain,
    Evict,
    GiveUp,
    MarkSeat,
    Move,
    PowerDown,
    PowerUp,
    Resume,
    Undrain,
)
from slurmcluster_operator.model.fleet import ForeignPod, KubeNode
from slurmcluster_operator.model.kube import Pod
from slurmcluster_operator.model.observed import Observed, Pods
from slurmcluster_operator.model.slurm import Job, Slurm, SlurmNode, Unknown
from tests.builders import NOW, PARTS, container, fleet, free_node, pod, slurmd_pod, starting

OWN = "team.demo"
SUSPEND_TIME = 15
SETTLE = 5
BOOT = 2
AUTOSCALE = 4
"""Seconds after which an autoscaler adds a machine for a pod that has none."""
LEAVE = 3
"""Seconds that evicted work of others takes to end."""
PRIORITY = 10
"""Others' work of this priority, or less, may be asked to leave by some pools."""


def ordinal(node: str) -> int:
    """Return a Slurm node's place in its pool."""
    return int(node.rpartition("-")[2])


PARTS_PODS = tuple(pod(part, name, containers=tuple(map(container, ones))) for part, (name, ones) in PARTS.items())


@dataclass
class Seat:
    """The pod of one Slurm node."""

    created: int
    meant_for: str = ""
    machine: str = ""
    deleting: int | None = None

    def runs(self, now: int) -> bool:
        """Whether its slurmd serves."""
        return bool(self.machine) and now - self.created >= BOOT

    def registers(self, now: int) -> bool:
        """Whether its slurmd has reached slurmctld: some do as soon as they serve, some a second or two later."""
        return self.runs(now - self.created % 3)


@dataclass
class Node:
    """A node as slurmctld has it."""

    flags: set[str] = field(default_factory=lambda: {"IDLE", "CLOUD", "POWERED_DOWN"})
    reason: str = ""
    idle_since: int = 0
    powering_since: int = 0
    slurmd: int = -1
    """When the slurmd that it last heard of was created."""


@dataclass
class Work:
    """A job: how many nodes it wants, for how long, and which it has."""

    id: int
    size: int
    seconds: int
    nodes: tuple[str, ...] = ()
    began: int | None = None
    done: bool = False
    lost: bool = False
    comment: str = ""


@dataclass
class Other:
    """A pod of others that runs on a machine."""

    id: int
    machine: str
    ends: int
    priority: int
    protected: bool
    """Whether a PodDisruptionBudget keeps it."""
    deleting: bool = False

    @property
    def pod(self) -> ForeignPod:
        """What the operator sees of it."""
        name = f"other-{self.id}"
        return ForeignPod("apps", name, str(self.id), self.machine, self.priority, gpus=True, deleting=self.deleting)


class World:
    """Everything outside the operator."""

    def __init__(self, cluster: Cluster, machines: int) -> None:
        self.cluster = cluster
        self.pool = cluster.spec.pools[0]
        self.now = 0
        self.machines = {name: self._joined(name) for name in (f"w{number}" for number in range(machines))}
        self.nodes = {f"{self.pool.name}-{number}": Node() for number in range(self.pool.nodes.max)}
        self.pods: dict[str, Seat] = {}
        self.jobs: list[Work] = []
        self.others: list[Other] = []
        self.created: list[tuple[int, str]] = []
        self.granted: dict[str, int] = {}
        """When a job last got each node, or a person last changed the sizes of the pool."""
        self.stopped: dict[str, tuple[int, int]] = {}
        """When the running pod of each node was last deleted, and when slurmctld had powered it down."""

    # What the operator sees

    def observe(self, answer: Slurm | Unknown | None = None) -> Observed:
        """Return a look, with another answer of slurmrestd if given."""
        return Observed(
            pods=Pods((*PARTS_PODS, *(self._pod(name, seat) for name, seat in self.pods.items()))),
            workloads={},
            claims={},
            fleet=fleet(*(node for _, node in sorted(self.machines.items())), foreign=self._foreign()),
            slurm=answer or self.answer(),
        )

    def _foreign(self) -> dict[str, tuple[ForeignPod, ...]]:
        found: dict[str, tuple[ForeignPod, ...]] = {}
        for other in self.others:
            found[other.machine] = (*found.get(other.machine, ()), other.pod)
        return found

    def answer(self) -> Slurm:
        """Return what slurmrestd says."""
        nodes = {name: SlurmNode(name, frozenset(node.flags), node.reason) for name, node in self.nodes.items()}
        jobs = tuple(self._job(job) for job in self.jobs if not job.done)
        return Slurm(nodes=nodes, jobs=jobs)

    def _pod(self, name: str, seat: Seat) -> Pod:
        since = NOW + timedelta(seconds=seat.created)
        changes: dict[str, Any] = {"created": since, "node_name": seat.machine, "deleting": seat.deleting is not None}
        if seat.runs(self.now):
            return slurmd_pod(name, self.cluster, **changes, ready_since=since + timedelta(seconds=BOOT))
        lost = "" if seat.machine else "0 nodes are available"
        pod = slurmd_pod(name, self.cluster, **{**starting(), **changes, "unschedulable": lost})
        return replace(pod, annotations={**pod.annotations, names.MACHINE: seat.meant_for})

    def _job(self, job: Work) -> Job:
        state = {"RUNNING"} if job.began is not None else {"RUNNING", "CONFIGURING"} if job.nodes else {"PENDING"}
        nodes = ",".join(job.nodes)
        return Job(job.id, frozenset(state), nodes=nodes, node_count=job.size, partitions=("gpu",), comment=job.comment)

    def starting(self) -> int:
        """Return how many pods are on their way up."""
        return sum(seat.deleting is None and not seat.runs(self.now) for seat in self.pods.values())

    def asked_again(self) -> int:
        """Return how many pods serve while slurmctld is powering their nodes up: they count as starting as well."""
        flags = (self.nodes[name].flags for name, seat in self.pods.items() if seat.runs(self.now))
        return sum("POWERING_UP" in one or {"ALLOCATED", "POWERED_DOWN"} <= one for one in flags)

    def missing(self) -> set[str]:
        """Return the nodes of the minimum that have no pod."""
        return {name for name in self.nodes if ordinal(name) < self.pool.nodes.min and name not in self.pods}

    def given_up(self) -> set[str]:
        """Return the nodes that are DOWN because the operator has given their start up."""
        found = self.nodes.items()
        return {name for name, node in found if "DOWN" in node.flags and node.reason.startswith(FAILED)}

    def vacant(self) -> Iterator[KubeNode]:
        """Yield the machines that are the cluster's alone and for which no pod is meant."""
        taken = {name for seat in self.pods.values() for name in (seat.machine, seat.meant_for)}
        return (node for node in self.machines.values() if node.state == "Owned" and node.name not in taken)

    # What the operator does

    def carry_out(self, actions: tuple[Action, ...]) -> None:
        """Apply a plan."""
        for action in actions:
            match action:
                case CreatePod(node=name, manifest=manifest):
                    self._create(name, manifest["metadata"]["annotations"].get(names.MACHINE, ""))
                case DeletePod(name=name):
                    self._delete(name.removeprefix("demo-"))
                case Drain() | Undrain() | PowerUp() | PowerDown() | GiveUp() | Resume():
                    for name in action.nodes:
                        self._tell(name, self.nodes[name], action)
                case Move() | MarkSeat() if action.node in self.machines:
                    self._mark(action)
                case Evict(uid=uid):
                    self._evict(uid)
                case CommentJob(job=number, text=text):
                    self.jobs[number - 1].comment = text
                case _:
                    pass

    def reconfigure(self, cluster: Cluster) -> None:
        """Let slurmctld read the slurm.conf of a cluster: it has other nodes now, or suspends others."""
        pool = cluster.spec.pools[0]
        listed = [f"{pool.name}-{number}" for number in range(cluster.size(pool))]
        if pool.nodes != self.pool.nodes:
            self.granted = dict.fromkeys(listed, self.now)
        self.cluster, self.pool = cluster, pool
        for name in self.nodes.keys() - set(listed):
            assert name not in self.pods, f"{name} left slurm.conf before its pod"
            assert not any(name in job.nodes and not job.done for job in self.jobs), f"{name} was lost with its job"
        self.nodes = {name: self.nodes.get(name) or Node() for name in listed}

    def fill(self, size: int) -> None:
        """Let machines join until there are so many."""
        for name in (f"w{number}" for number in range(size)):
            self.machines.setdefault(name, self._joined(name))

    def _joined(self, name: str) -> KubeNode:
        return free_node(name, since=NOW + timedelta(seconds=self.now))

    def _mark(self, action: Move | MarkSeat) -> None:
        node, now = self.machines[action.node], NOW + timedelta(seconds=self.now)
        if isinstance(action, MarkSeat):
            self.machines[node.name] = replace(node, seat=action.seat)
            return
        ours = tuple(name for name, seat in self.pods.items() if node.name in {seat.machine, seat.meant_for})
        here = Occupants(self._foreign().get(node.name, ()), ours)
        if obstacle(action.to, OWN, node, here, action.seen, now, enforced=True):
            return
        owner = OWN if action.to else ""
        labels = {key: value for key, value in node.labels.items() if key != names.SERVES}
        if action.to == "Owned":
            labels[names.SERVES] = OWN
        moved = replace(node, owner=owner, tainted=owner, state=action.to, since=now, why=action.why)
        self.machines[node.name] = replace(moved, labels=labels)

    def _evict(self, uid: str) -> None:
        other = next(one for one in self.others if one.id == int(uid))
        rule = self.pool.reclaim
        assert rule.policy == "Evict", f"{other} was asked to leave"
        assert other.priority < rule.below_priority, f"{other} was asked to leave"
        assert self.machines[other.machine].owner == OWN, f"{other} was asked to leave a node that is not claimed"
        if not (other.protected or other.deleting):
            other.deleting = True
            other.ends = min(other.ends, self.now + LEAVE)

    def _create(self, name: str, machine: str) -> None:
        assert name not in self.pods, f"{name} was made twice"
        at, decided = self.stopped.get(name, (-SUSPEND_TIME, 0))
        if self.now - at < SUSPEND_TIME and ordinal(name) >= self.pool.nodes.min:
            asked = max(self.granted.values(), default=-1) if self.pool.nodes.warm else self.granted.get(name, -1)
            assert asked >= decided, f"{name} was stopped and started again for nobody"
        self.pods[name] = Seat(self.now, machine)
        self.created.append((self.now, name))

    def _tell(self, name: str, node: Node, action: Drain | Undrain | PowerUp | PowerDown | GiveUp | Resume) -> None:
        match action:
            case Drain(reason=reason):
                self._drain(name, reason)
            case Undrain():
                assert node.reason.startswith(names.DRAIN_PREFIX), "a person's drain was lifted"
                node.flags.discard("DRAIN")
                node.reason = ""
            case PowerUp() if "POWERED_DOWN" in node.flags:
                self._power_up(name)
            case PowerDown():
                assert not self._has_drain_of_person(name), "a person's drain was lifted by powering down"
                node.flags.add("POWER_DOWN")
            case GiveUp(reason=reason):
                self._give_up(name, reason)
            case Resume():
                assert {"DOWN", "POWERED_DOWN"} <= node.flags
                node.flags = {"IDLE", "CLOUD", "POWERED_DOWN"}
                node.reason = ""

    def _delete(self, name: str) -> None:
        at_work = [job.id for job in self.jobs if job.began is not None and not job.done and name in job.nodes]
        assert not at_work, f"the pod of {name} was deleted under job {at_work}"
        seat, node = self.pods[name], self.nodes[name]
        if seat.runs(self.now):
            if ordinal(name) < self.pool.nodes.min:
                # Down, or off since: its slurmd serves nobody, nor one that registered before the node was quite off.
                # Being powered up, slurmctld waits for another one.
                in_vain = "POWERED_DOWN" in node.flags and node.slurmd == seat.created
                useless = in_vain or node.flags & {"DOWN", "POWERING_UP"} or node.powering_since > seat.created
                assert useless, f"{name} of the minimum was taken away"
            self.stopped[name] = (self.now, node.powering_since)
        seat.deleting = self.now

    def _drain(self, name: str, reason: str) -> None:
        node = self.nodes[name]
        assert not self._has_drain_of_person(name), "a person's reason was overwritten"
        node.flags.add("DRAIN")
        node.reason = reason
        if "POWERING_UP" in node.flags:
            self._requeue(name)

    def _give_up(self, name: str, reason: str) -> None:
        self._requeue(name)
        node = self.nodes[name]
        node.flags -= {"IDLE", "ALLOCATED"}
        node.flags.add("DOWN")
        node.reason = reason

    def _has_drain_of_person(self, name: str) -> bool:
        node = self.nodes[name]
        return "DRAIN" in node.flags and not node.reason.startswith(names.DRAIN_PREFIX)

    # What goes on by itself

    def submit(self, size: int, seconds: int) -> None:
        """Submit a job."""
        self.jobs.append(Work(len(self.jobs) + 1, size, seconds))

    def join_or_leave(self, chance: Random) -> None:
        """Let a machine join, or one leave on which nothing is."""
        free = sorted(self.machines.keys() - {seat.machine for seat in self.pods.values()})
        if free and chance.random() < 0.5:
            gone = chance.choice(free)
            del self.machines[gone]
            self.others = [other for other in self.others if other.machine != gone]
        elif len(self.machines) < self.pool.nodes.max:
            self._join()

    def come(self, chance: Random) -> None:
        """Let a pod of others start on a machine that nobody has, if there is one."""
        free = sorted(node.name for node in self.machines.values() if not node.tainted)
        if free:
            ends, priority = self.now + chance.randint(1, 60), chance.choice([0, PRIORITY])
            number = max((other.id for other in self.others), default=0) + 1
            self.others.append(Other(number, chance.choice(free), ends, priority, chance.random() < 0.3))

    def _join(self) -> None:
        name = next(f"w{number}" for number in range(99) if f"w{number}" not in self.machines)
        self.machines[name] = self._joined(name)

    def step(self) -> None:
        """Let a second pass."""
        self.now += 1
        self._kubernetes()
        for name in self.nodes:
            self._register(name)
        self._schedule()
        self._run()
        for name in self.nodes:
            self._save_power(name)

    def _kubernetes(self) -> None:
        self.others = [other for other in self.others if self.now < other.ends]
        for name, seat in list(self.pods.items()):
            if seat.deleting is not None and self.now > seat.deleting:
                del self.pods[name]
        for seat in self.pods.values():
            node = self.machines.get(seat.meant_for) if seat.meant_for else next(self.vacant(), None)
            if not seat.machine and node is not None and node.labels.get(names.SERVES) == OWN:
                others = [other for other in self.pods.values() if other.machine == node.name]
                assert not others, f"two slurmds on {node.name}"
                assert node.name not in self._foreign(), f"{node.name} is claimed twice"
                seat.machine = node.name
                seat.created = self.now
        waits = [seat for seat in self.pods.values() if not (seat.machine or seat.meant_for)]
        if any(self.now - seat.created >= AUTOSCALE for seat in waits) and len(self.machines) < self.pool.nodes.max:
            self._join()

    def _register(self, name: str) -> None:
        seat, node = self.pods.get(name), self.nodes[name]
        if seat is None or seat.deleting is not None or not seat.registers(self.now) or node.slurmd == seat.created:
            return
        node.slurmd = seat.created
        if not node.flags & {"DOWN", "POWERING_DOWN"}:
            node.flags -= {"POWERED_DOWN", "POWERING_UP"}
            node.idle_since = self.now

    def _schedule(self) -> None:
        for job in self.jobs:
            if job.done or job.nodes:
                continue
            free = [name for name, node in self.nodes.items() if self._takes_jobs(node)]
            if len(free) >= job.size:
                job.nodes = tuple(sorted(free, key=lambda name: "POWERED_DOWN" in self.nodes[name].flags)[: job.size])
                for name in job.nodes:
                    self.nodes[name].flags -= {"IDLE"}
                    self.nodes[name].flags |= {"ALLOCATED"}
                    self.granted[name] = self.now

    @staticmethod
    def _takes_jobs(node: Node) -> bool:
        return "IDLE" in node.flags and not node.flags & {"DRAIN", "DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP"}

    def _run(self) -> None:
        for job in self.jobs:
            if job.done or not job.nodes:
                continue
            up = all(
                not self.nodes[name].flags & {"POWERED_DOWN", "POWERING_UP", "POWERING_DOWN"} for name in job.nodes
            )
            if job.began is None and up:
                job.began = self.now
            if job.began is not None:
                job.lost |= any(name not in self.pods for name in job.nodes)
                if self.now - job.began >= job.seconds:
                    job.done = True
                    for name in job.nodes:
                        self._free(name)

    def _free(self, name: str) -> None:
        node = self.nodes[name]
        node.flags.discard("ALLOCATED")
        if "DOWN" not in node.flags:
            node.flags.add("IDLE")
        node.idle_since = self.now

    def _requeue(self, name: str) -> None:
        for job in self.jobs:
            if name in job.nodes and job.began is None:
                for other in job.nodes:
                    self._free(other)
                job.nodes = ()

    def _power_up(self, name: str) -> None:
        node = self.nodes[name]
        node.flags -= {"POWERED_DOWN"}
        node.flags |= {"POWERING_UP"}
        # slurmctld waits for a slurmd that starts from now on.
        node.slurmd = max(node.slurmd, -1)

    def _save_power(self, name: str) -> None:
        node = self.nodes[name]
        if {"ALLOCATED", "POWERED_DOWN"} <= node.flags:
            self._power_up(name)
        if "POWERING_DOWN" in node.flags and self.now - node.powering_since > SETTLE:
            node.flags -= {"POWERING_DOWN"}
            node.flags |= {"POWERED_DOWN"}
        elif self._may_sleep(name):
            if "POWER_DOWN" in node.flags:
                node.flags -= {"POWER_DOWN", "DRAIN"}
            node.flags -= {"POWERING_UP"}
            node.flags |= {"POWERING_DOWN"}
            node.powering_since = self.now

    def _may_sleep(self, name: str) -> bool:
        node = self.nodes[name]
        if node.flags & {"ALLOCATED", "POWERED_DOWN", "POWERING_DOWN"}:
            return False
        if "POWER_DOWN" in node.flags:
            return True
        if "POWERING_UP" in node.flags or self.now - node.idle_since <= SUSPEND_TIME:
            return False
        return ordinal(name) >= self.pool.nodes.min and name not in self._kept_warm()

    def _kept_warm(self) -> list[str]:
        idle = [name for name, node in self.nodes.items() if node.flags == {"IDLE", "CLOUD"}]
        return idle[: self.pool.nodes.warm]
