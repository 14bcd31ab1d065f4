"""Clusters that share machines, each with the operator's whole loop and a small Slurm, minute by minute.

Nothing goes wrong here. It is looked at who has which machine when everybody always wants more than there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import Any, cast
from unittest import mock

from slurmcluster_operator.decide.plan import make_plan, resolve
from slurmcluster_operator.kube.client import ConflictError, Kube
from slurmcluster_operator.manifests.cluster import Json
from slurmcluster_operator.model import names
from slurmcluster_operator.model.holds import Memory
from slurmcluster_operator.model.names import Names
from slurmcluster_operator.model.observed import Observed, Pods
from slurmcluster_operator.model.slurm import Job, Slurm, SlurmNode
from slurmcluster_operator.runtime import fleet as runtime
from slurmcluster_operator.runtime.events import Events
from slurmcluster_operator.runtime.execute import Executor
from slurmcluster_operator.runtime.world import World
from slurmcluster_operator.slurm.client import SlurmRest
from tests.builders import NOW, PARTS, cluster, container, pod
from tests.property.explorer_objects import fits, node_json, selects
from tests.property.explorer_operator import seen
from tests.property.explorer_state import Machine

TICK = 10
"""Seconds between two looks."""
JOB = 180
"""Seconds that a job takes. There is always a further one."""
IDLE = 30
"""Seconds after which slurmctld powers down a node of an elastic pool that nobody uses."""


class Kubernetes:
    """An API server, with a scheduler and kubelets that take a moment."""

    def __init__(self, machines: int, grant: str) -> None:
        self.now = NOW
        bare = (Machine(f"n{number}", frozenset({(names.FLEET_LABEL, grant)})) for number in range(1, machines + 1))
        self.nodes: dict[str, Json] = {machine.name: _merged({}, node_json(machine)) for machine in bare}
        self.pods: dict[tuple[str, str], Json] = {}

    async def get(self, api_version: str, kind: str, namespace: str, name: str) -> Json:
        return self.nodes[name]

    async def list(self, path: str, query: Mapping[str, str]) -> list[Json]:
        return [raw for raw in self.pods.values() if selects(raw, path, query)]

    async def apply(self, manifest: Json) -> Json:
        return {"metadata": {"resourceVersion": "1", "generation": 1}}

    async def merge(self, api_version: str, kind: str, namespace: str, name: str, patch: Json) -> Json:
        if kind != "Node":
            return {}  # an annotation that makes kubelets look
        node = self.nodes[name]
        version = node["metadata"]["resourceVersion"]
        if patch["metadata"].get("resourceVersion", version) != version:
            raise ConflictError(409, "has changed")
        self.nodes[name] = _merged(node, patch)
        self.nodes[name]["metadata"]["resourceVersion"] = str(int(version) + 1)
        return self.nodes[name]

    async def create(self, manifest: Json) -> Json:
        if manifest["kind"] == "Pod":
            metadata = manifest["metadata"]
            stamps = {"uid": f"uid-{self.now.timestamp()}", "creationTimestamp": self.now.isoformat()}
            self.pods[metadata["namespace"], metadata["name"]] = _merged(_merged({}, manifest), {"metadata": stamps})
        return manifest

    async def delete(self, api_version: str, kind: str, namespace: str, name: str, *, uid: str) -> None:
        self.pods[namespace, name]["metadata"]["deletionTimestamp"] = self.now.isoformat()

    def seen(self) -> World:
        """Return what an operator sees."""
        return seen(self.nodes.values(), self.pods.values(), enforced=True)

    def runs(self, namespace: str, name: str) -> bool:
        """Tell whether a pod runs."""
        return "status" in self.pods.get((namespace, name), ())

    def serves(self, name: str) -> str:
        """Return the cluster whose slurmd runs on a machine; empty if none does."""
        there = [raw for raw in self.pods.values() if raw["spec"].get("nodeName") == name and "status" in raw]
        assert len(there) <= 1, there
        return next((f"{raw['metadata']['namespace']}.slurm" for raw in there), "")

    def go_on(self) -> None:
        """Let the scheduler and the kubelets do their work."""
        self.pods = {key: raw for key, raw in self.pods.items() if "deletionTimestamp" not in raw["metadata"]}
        for raw in self.pods.values():
            if raw["spec"].get("nodeName"):
                raw.setdefault("status", self._running())
            else:
                taken = {other["spec"].get("nodeName") for other in self.pods.values()}
                fitting = (name for name, node in self.nodes.items() if fits(raw["spec"], _machine(node)))
                raw["spec"]["nodeName"] = next((name for name in fitting if name not in taken), "")

    def _running(self) -> Json:
        since = self.now.isoformat()
        return {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
            "containerStatuses": [{"name": "slurmd", "ready": True, "state": {"running": {"startedAt": since}}}],
        }


@dataclass
class Seat:
    """A node as slurmctld has it."""

    up: bool = False
    down: bool = False
    reason: str = ""
    """Why it is drained or down."""
    job: bool = False
    """Whether a job has it, running or waiting for it to come up."""
    since: datetime = NOW
    """When its job got it or began to run, or the last one ended."""

    def flags(self) -> set[str]:
        """Return its state in Slurm's words."""
        power = set() if self.up else {"POWERING_UP"} if self.job else {"POWERED_DOWN"}
        return {
            "CLOUD",
            "DOWN" if self.down else "ALLOCATED" if self.job else "IDLE",
            *power,
            *({"DRAIN"} if self.reason and not self.down else ()),
        }


class Team:
    """A cluster that never has machines enough: its Slurm, and the operator's loop for it.

    In a pool of a fixed size jobs go to nodes that are up. In an elastic one they get nodes that are off too.
    """

    def __init__(self, kubernetes: Kubernetes, fleet: str, pool: Json) -> None:
        self.fleet = fleet
        self._cluster = replace(cluster(pools=[pool]), names=Names(*fleet.split(".")))
        self._elastic = pool.get("sharing") == "Elastic"
        self._seats = {f"h100-{number}": Seat() for number in range(pool["nodes"]["max"])}
        self._kubernetes = kubernetes
        self._memory = Memory()
        kube = cast("Kube", kubernetes)
        self._executor = Executor(kube, kubernetes.seen(), Events(kube))

    async def look(self) -> None:
        """Let the operator look once and act."""
        world, own = self._kubernetes.seen(), self._cluster.names
        parts = (pod(part, name, containers=tuple(map(container, ones))) for part, (name, ones) in PARTS.items())
        observed = Observed(
            pods=Pods((*parts, *world.pods.of(own.namespace))),
            workloads={},
            claims={},
            fleet=runtime.see(world, own),
            slurm=self._answer(),
        )
        whole = resolve(self._cluster, observed, self._memory)
        plan = make_plan(whole, observed, self._memory, self._kubernetes.now)
        self._memory = plan.memory
        outcome = await self._executor.act(whole, observed.fleet, plan.actions, cast("SlurmRest", self))
        assert not outcome.errors, outcome.errors

    async def update_nodes(self, nodes: tuple[str, ...], states: list[str], reason: str = "") -> None:
        """Do as slurmctld does. A job whose node does not come up goes back to the queue."""
        for seat in (self._seats[name] for name in nodes):
            match states:
                case ["DRAIN"]:
                    seat.reason, seat.job = reason, seat.job and seat.up
                case ["UNDRAIN"] | ["RESUME"]:
                    seat.reason, seat.down = "", False
                case ["DOWN"]:
                    seat.reason, seat.down, seat.job = reason, True, False
                case ["POWER_DOWN"]:
                    seat.up, seat.reason = False, seat.reason if seat.down else ""
                case other:
                    raise AssertionError(other)

    async def comment(self, job: int, text: str) -> None:
        """Take a comment."""

    def go_on(self) -> None:
        """Let jobs end and start, and nodes register and be powered down."""
        now = self._kubernetes.now
        for name, seat in self._seats.items():
            runs = self._kubernetes.runs(self._cluster.names.namespace, self._cluster.names.pod(name))
            assert runs or not (seat.up and seat.job), f"{self.fleet}: {name} is gone under its job"
            registers = runs and not seat.up and (seat.job or not self._elastic)
            seat.up = runs and (seat.up or registers)
            age = (now - seat.since).total_seconds()
            if registers:
                seat.since = now
            elif seat.up and seat.job and age >= JOB:
                seat.job, seat.since = False, now
            elif self._elastic and not seat.job and age > IDLE:
                seat.up = False
            if not (seat.job or seat.reason or seat.down) and (seat.up or self._elastic):
                seat.job, seat.since = True, now

    def _answer(self) -> Slurm:
        nodes = {name: SlurmNode(name, frozenset(seat.flags()), seat.reason) for name, seat in self._seats.items()}
        jobs = [Job(1, frozenset({"PENDING"}), tasks=len(self._seats), partitions=("gpu",))]
        for number, (name, seat) in enumerate(self._seats.items(), 2):
            if seat.job:
                state = {"RUNNING"} if seat.up else {"RUNNING", "CONFIGURING"}
                jobs.append(Job(number, frozenset(state), nodes=name, partitions=("gpu",)))
        return Slurm(nodes=nodes, jobs=tuple(jobs))


async def share(machines: int, minutes: int, pools: Mapping[str, Json]) -> list[tuple[str, ...]]:
    """Let clusters share machines that are granted to all of them. Return who owned each, look by look."""
    kubernetes = Kubernetes(machines, "_".join(pools))
    teams = [Team(kubernetes, fleet, pool) for fleet, pool in pools.items()]
    history = []

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return kubernetes.now

    with mock.patch.object(runtime, "datetime", Clock):
        for _ in range(minutes * 60 // TICK):
            kubernetes.now += timedelta(seconds=TICK)
            kubernetes.go_on()
            for team in teams:
                team.go_on()
                await team.look()
                await team.look()  # where something was done, the next look comes at once
            history.append(tuple(map(kubernetes.serves, kubernetes.nodes)))
    return history


def _merged(json: Any, patch: Any) -> Any:
    """Return JSON after a merge patch."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(json) if isinstance(json, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def _machine(node: Json) -> Machine:
    metadata = node["metadata"]
    taints = tuple((one["key"], one.get("value", ""), one["effect"]) for one in node["spec"].get("taints", ()))
    return Machine(metadata["name"], frozenset(metadata["labels"].items()), taints=taints)
