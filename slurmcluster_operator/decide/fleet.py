"""Which Kubernetes nodes a cluster should have, which of its seats gets which, and what is wrong with that now.

Each step goes by ``decide.ownership``; here is decided which steps are wanted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from slurmcluster_operator.api.pools import Pool
from slurmcluster_operator.api.values import seconds
from slurmcluster_operator.decide.demand import demand
from slurmcluster_operator.decide.fit import fits, fitting, kind, misfit, of_kind, tolerates
from slurmcluster_operator.decide.ownership import asked, obstacle, occupied, settled
from slurmcluster_operator.decide.seats import Seat, Seats
from slurmcluster_operator.decide.sightings import lasted
from slurmcluster_operator.decide.turns import asks, turn_is_over
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model.actions import Evict, MarkSeat, Move, Own
from slurmcluster_operator.model.fleet import ForeignPod, KubeNode, State
from slurmcluster_operator.model.holds import Memory
from slurmcluster_operator.model.observed import Observed

TOPOLOGY: Final = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "network.topology.nvidia.com/core",
    "network.topology.nvidia.com/spine",
    "network.topology.nvidia.com/leaf",
    "network.topology.nvidia.com/accelerator",
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
)
"""Labels that tell which machines are close to each other, from coarse to fine: neighbours are used together."""

KEPT_OUT: Final = timedelta(minutes=5)
"""How long a node is left alone whose other work could not be made to leave, if that does not end before."""

EVICTIONS: Final = 10
"""Pods of others that one look asks to leave."""


@dataclass(frozen=True, slots=True)
class Machines:
    """What a look makes of the fleet."""

    moves: tuple[Own, ...] = ()
    """Steps of claims and releases, and what goes with them."""
    chosen: Mapping[str, str] = field(default_factory=dict)
    """For seats that need a machine, the Kubernetes node that they get now."""
    open: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each pool, the nodes on which a seat that is powered up now would find its place."""
    waiting: Mapping[str, str] = field(default_factory=dict)
    """Seats that have to wait for a machine, each with the reason."""
    shared: Mapping[str, str] = field(default_factory=dict)
    """For each pool, which nodes run other work or do not fit, in words; empty where there is none."""
    empty: Mapping[str, datetime] = field(default_factory=dict)
    """Nodes of the cluster on which no slurmd is, and since when."""
    kept_out: Mapping[str, datetime] = field(default_factory=dict)
    """Nodes that are left to others until a time."""


class _Survey:
    """The cluster's part of the fleet, looked at once, and dealt out to its pools one after the other."""

    def __init__(self, cluster: Cluster, observed: Observed, seats: Seats, memory: Memory, now: datetime) -> None:
        self.cluster, self.observed, self.seats, self.now = cluster, observed, seats, now
        self.own, self.fleet, self.seen = cluster.names.fleet, observed.fleet, memory.nodes
        self.taken = observed.pods.machines
        kept_out = memory.kept_out.items()
        self.kept_out = {node: until for node, until in kept_out if now < until and node in self.fleet.foreign}
        # Nothing is to be decided about the cluster's own with a slurmd: most of them.
        vacant = sorted(self.fleet.alone.keys() - self.taken)
        self.loose = [*self.fleet.others, *(self.fleet.alone[name] for name in vacant)]
        self.contested = self.fleet.contested
        self.empty = {
            node.name: min(now, memory.empty.get(node.name, now))
            for node in self.loose
            if node.owner == self.own and node.name not in self.taken
        }
        self.jobs = [job for job in observed.jobs or () if job.wants_nodes and not job.configuring]
        self._of_kind: dict[Hashable, frozenset[str]] = {}
        self.dealt: set[str] = set()
        self.open: dict[str, tuple[str, ...]] = {}
        self.chosen: dict[str, str] = {}
        self.waiting: dict[str, str] = {}
        self.moves: list[Own] = []
        usable = [node for node in self.loose if node.ready and node.schedulable and node.granted(self.own)]
        usable.sort(key=_place)
        self.held = [node for node in usable if node.owner == self.own and node.name not in self.taken]
        self.able = {node.name: node for node in self.held if self.serves(node)}
        self.free = [node for node in usable if not node.owner and self.claimable(node)]

    def claimable(self, node: KubeNode) -> bool:
        """Tell whether the rules let the cluster claim it."""
        seen = self.seen.get(node.name)
        return not obstacle("Claiming", self.own, node, None, seen, self.now, enforced=self.fleet.enforced)

    def settled(self, node: KubeNode) -> bool:
        """Tell whether its claim may take its next step."""
        return settled(node, self.seen.get(node.name), self.now, enforced=self.fleet.enforced)

    def returnable(self, node: KubeNode) -> bool:
        """Tell whether it has been let go of for long enough."""
        return settled(node, self.seen.get(node.name), self.now, enforced=False)

    def turn_is_over(self, node: KubeNode, *, busy: bool) -> bool:
        """Tell whether it must be left to another cluster."""
        return turn_is_over(node, self.seen.get(node.name), self.now, busy=busy)

    def move(self, node: KubeNode, to: State, why: str) -> Move:
        """Return the step of a claim."""
        return Move(node.name, to, why, self.seen.get(node.name))

    def foreign(self, node: KubeNode) -> tuple[ForeignPod, ...]:
        """Return the work of others on a node."""
        return self.fleet.foreign.get(node.name, ())

    def empty_of_others(self, node: KubeNode) -> bool:
        """Tell whether nobody else runs there."""
        return node.name not in self.fleet.foreign and node.name not in self.fleet.slurmds

    def ownable(self, node: KubeNode) -> bool:
        """Tell whether a node that is being claimed can become the cluster's alone: a grant may have been withdrawn."""
        claimed = node.state == "Claiming" and node.granted(self.own)
        return claimed and self.settled(node) and self.empty_of_others(node)

    def serves(self, node: KubeNode) -> bool:
        """Tell whether a slurmd can be made there now."""
        ours = node.state == "Owned" and node.intact(self.own)
        return ours and self.empty_of_others(node) and not self.turn_is_over(node, busy=False)

    def on_its_way(self, node: KubeNode) -> bool:
        """Tell whether a node of the cluster's can become its own alone: also one that was about to be given back."""
        if node.tainted != self.own:
            return False
        if node.state == "Claiming":
            return not self.turn_is_over(node, busy=True)
        return node.state == "Releasing" and not asked(node, self.now)

    def comes(self, node: KubeNode, pool: Pool) -> bool:
        """Tell whether a node that is not the cluster's alone yet would soon be, if a seat needed it."""
        if node.name in self.kept_out or node.name in self.fleet.slurmds:
            return False
        return not self.foreign(node) or (pool.sharing == "Elastic" and self.evictable(node, pool))

    def evictable(self, node: KubeNode, pool: Pool) -> bool:
        """Tell whether the pool's policy lets every pod of others there be asked to leave."""
        rule = pool.reclaim
        return rule.policy == "Evict" and all(pod.priority < rule.below_priority for pod in self.foreign(node))

    def demand(self, pool: Pool) -> int:
        """Return how many nodes of the pool the waiting jobs would fill."""
        return demand(self.cluster, pool, self.jobs)

    def of_kind(self, pool: Pool) -> frozenset[str]:
        """Return the names of the machines about which something is to be decided and that are of the pool's kind."""
        key = kind(pool)
        if key not in self._of_kind:
            self._of_kind[key] = frozenset(node.name for node in of_kind(self.loose, pool))
        return self._of_kind[key]

    def deal(self, pool: Pool, candidates: Iterable[KubeNode], count: int) -> list[KubeNode]:
        """Take the first few of the candidates that fit the pool and that no other pool has been dealt."""
        fitting = (node for node in candidates if node.name not in self.dealt and fits(node, pool))
        taken = [node for _, node in zip(range(max(0, count)), fitting, strict=False)]
        self.dealt.update(node.name for node in taken)
        return taken


def plan_fleet(cluster: Cluster, observed: Observed, seats: Seats, memory: Memory, now: datetime) -> Machines:
    """Decide on every Kubernetes node that is granted to the cluster or that it has."""
    survey = _Survey(cluster, observed, seats, memory, now)
    survey.open = {pool.name: _open(survey, pool) for pool in cluster.pools}
    for pool in cluster.pools:
        _serve(survey, pool)
    survey.moves += _mend(survey)
    survey.moves += _give_back(survey)
    unfit = _unfit(survey)
    shared = {
        pool.name: "; ".join(filter(None, (_shared_words(survey, pool), _unfit_words(unfit, pool))))
        for pool in cluster.pools
    }
    return Machines(
        tuple(survey.moves), survey.chosen, survey.open, survey.waiting, shared, survey.empty, survey.kept_out
    )


def _open(survey: _Survey, pool: Pool) -> tuple[str, ...]:
    owned = [
        node
        for node in survey.held
        if node.name in survey.able or (survey.on_its_way(node) and survey.comes(node, pool))
    ]
    free = [node for node in survey.free if survey.comes(node, pool) and node.name not in survey.taken]
    return tuple(node.name for node in fitting((*owned, *free), pool))


def _serve(survey: _Survey, pool: Pool) -> None:
    """Find machines for the pool's seats, and claim what is missing."""
    places = survey.seats[pool.name]
    homeless = [seat for seat in places if (seat.wanted if seat.pod is None else not seat.pod.machine)]
    homeless.sort(key=lambda seat: seat.given_up)  # machines are kept for these, but given to the others first
    ready = survey.deal(pool, _near(survey, pool, homeless), len(homeless))
    _seat(survey, [seat for seat in homeless if seat.due], ready)
    needed = len(homeless) - len(ready)
    have = sum(seat.pod is not None and bool(seat.pod.machine) for seat in places) + len(ready)
    wanted = max(needed, _target(survey, pool, have + needed) - have)
    wanted -= len(survey.deal(pool, _near(survey, pool, ()), wanted))
    coming = _claim(survey, pool, wanted, needed)
    _advance(survey, pool, coming)
    words = _wait_words(survey, pool, coming)
    # A seat may be given the machine that it had before those that stand before it.
    without = [seat for seat in homeless if seat.name not in survey.chosen]
    kept = len(ready) - (len(homeless) - len(without))
    survey.waiting.update({seat.name: words for seat in without[kept:] if seat.pod is None})
    if contested := fitting(survey.contested, pool):
        survey.moves += asks(contested, survey.own, _unmet(survey, pool), survey.now)


def _target(survey: _Survey, pool: Pool, used: int) -> int:
    """Return how many machines the pool should have, given those that it uses or needs at once."""
    if pool in survey.cluster.retired.pools:
        return used
    if pool.sharing == "Exclusive":
        return pool.nodes.max
    return min(pool.nodes.max, used + _reserve(survey, pool))


def _near(survey: _Survey, pool: Pool, homeless: Sequence[Seat]) -> Iterator[KubeNode]:
    """Yield the machines that can serve now: first those that these seats had, last those of other pools' seats."""
    names = {seat.name for seat in homeless}

    def distance(node: KubeNode) -> int:
        last = node.last_seat(survey.own)
        return 0 if last in names else 1 if not last else 2 if last.rpartition("-")[0] == pool.name else 3

    yield from sorted(survey.able.values(), key=distance)


def _seat(survey: _Survey, homeless: Sequence[Seat], ready: Sequence[KubeNode]) -> None:
    """Give each seat a machine: the one that it had before, if it can."""
    left = {node.name: node for node in ready}
    had = {node.last_seat(survey.own): node.name for node in ready}
    sticky = [seat for seat in homeless if seat.name in had]
    for seat in sticky:
        survey.chosen[seat.name] = had[seat.name]
        del left[had[seat.name]]
    others = [seat for seat in homeless if seat.name not in survey.chosen]
    for seat, name in zip(others, tuple(left), strict=False):
        survey.chosen[seat.name] = name
        survey.moves.append(MarkSeat(name, f"{survey.own}/{seat.name}"))


def _unmet(survey: _Survey, pool: Pool) -> int:
    """Return how many more machines the pool's seats and jobs could use than it can get."""
    here = sum(name.rpartition("-")[0] == pool.name for name in survey.waiting)
    return max(0, here + survey.demand(pool) - len(survey.open[pool.name]))


def _reserve(survey: _Survey, pool: Pool) -> int:
    """Return the nodes that an Elastic pool gets ready for jobs that Slurm cannot place yet.

    Where Slurm is offered nodes that others can be made to leave, its own choice is the signal, and none are reserved.
    """
    return 0 if pool.reclaim.policy == "Evict" else survey.demand(pool)


def _claim(survey: _Survey, pool: Pool, wanted: int, needed: int) -> list[KubeNode]:
    """Return the nodes that the pool is getting; claim those that are free. Where nobody else runs comes first.

    ``needed`` are wanted by seats now: others are asked to leave only for these, and waited for otherwise.
    """
    begun = [node for node in survey.held if survey.on_its_way(node)]
    free = [node for node in survey.free if node.name not in survey.kept_out and node.name not in survey.fleet.slurmds]
    vacant = [node for node in (*begun, *free) if survey.empty_of_others(node)]
    coming = survey.deal(pool, vacant, wanted)
    patient = pool.sharing == "Exclusive" or pool.reclaim.policy == "WhenEmpty"
    busy = [node for node in (*begun, *free) if survey.foreign(node) and (patient or survey.evictable(node, pool))]
    busy.sort(key=lambda node: (not node.owner, len(survey.foreign(node))))
    coming += survey.deal(pool, busy, (wanted if patient else needed) - len(coming))
    why = f"pool {pool.name} has it for itself" if pool.sharing == "Exclusive" else f"pool {pool.name} needs it"
    survey.moves += [survey.move(node, "Claiming", why) for node in coming if not node.owner]
    return coming


def _advance(survey: _Survey, pool: Pool, coming: Iterable[KubeNode]) -> None:
    """Take claims further: to ownership once nobody else is there, or ask those who are to leave."""
    rule = pool.reclaim
    for node in (one for one in coming if one.owner):
        if survey.empty_of_others(node):
            if survey.settled(node):
                survey.moves.append(survey.move(node, "Owned", f"nobody else runs there; for pool {pool.name}"))
        elif rule.policy == "Evict" and survey.evictable(node, pool):
            waited = lasted(node, survey.seen.get(node.name), survey.now)
            late = pool.sharing == "Elastic" and waited > timedelta(seconds=seconds(rule.deadline))
            if late and survey.returnable(node):
                survey.kept_out[node.name] = survey.now + KEPT_OUT
                why = f"within {rule.deadline} it did not become empty: {occupied(survey.foreign(node))}"
                survey.moves.append(survey.move(node, "", why))
                continue
            why = f"{survey.own} needs the node for pool {pool.name}"
            survey.moves += [
                Evict(pod.namespace, pod.name, pod.uid, node.name, why)
                for pod in survey.foreign(node)[:EVICTIONS]
                if not pod.deleting
            ]


def _wait_words(survey: _Survey, pool: Pool, claimed: Sequence[KubeNode]) -> str:
    busy = [node for node in claimed if survey.foreign(node)]
    if busy:
        return f"its Kubernetes node {busy[0].name} is being emptied: {occupied(survey.foreign(busy[0]))}"
    if claimed:
        return "a Kubernetes node is being claimed for it"
    left = fitting((node for node in survey.free if node.name in survey.kept_out and survey.foreign(node)), pool)
    if left:
        return f"Kubernetes node {left[0].name} did not become empty for it: {occupied(survey.foreign(left[0]))}"
    return "there is no Kubernetes node for it"


def _shared_words(survey: _Survey, pool: Pool) -> str:
    busy = fitting((node for node in (*survey.held, *survey.free) if survey.foreign(node)), pool)
    if not busy:
        return ""
    first = f"{busy[0].name}: {occupied(survey.foreign(busy[0]))}"
    return f"{len(busy)} {'runs' if len(busy) == 1 else 'run'} other work ({first})"


def _unfit(survey: _Survey) -> list[KubeNode]:
    """Return the machines that the cluster could have, and that fit none of its pools."""
    left = [*survey.held, *survey.free]
    for pool in {kind(pool): pool for pool in survey.cluster.pools}.values():
        taken = {node.name for node in fitting(left, pool)}
        left = [node for node in left if node.name not in taken]
    return left


def _unfit_words(unfit: Sequence[KubeNode], pool: Pool) -> str:
    """Say which machines the pool would have, were it not for their GPUs or taints."""
    why = {node.name: words for node in unfit if (words := misfit(node, pool))}
    if not why:
        return ""
    name, words = next(iter(why.items()))
    return f"{len(why)} granted {'does' if len(why) == 1 else 'do'} not fit ({name} {words})"


def _mend(survey: _Survey) -> Iterator[Move]:
    """Yield claims on nodes that have a slurmd of the cluster, or its label, without being properly claimed."""
    for node in survey.loose:
        there = node.name in survey.taken
        mine = node.owner == survey.own
        stray = not node.owner and (there or node.marked(survey.own))
        if stray or (mine and not node.intact(survey.own)):
            if survey.claimable(node):
                survey.dealt.add(node.name)
                yield survey.move(node, "Claiming", "its slurmd is there" if there else "it has marks of its owner")
        elif mine and there and survey.ownable(node):
            yield survey.move(node, "Owned", "its slurmd is there, and nobody else runs there")


def _give_back(survey: _Survey) -> Iterator[Move]:
    """Yield the steps of releases: what no pool has been dealt, and what is no longer the cluster's to have."""
    for node in survey.loose:
        if node.owner != survey.own or node.name in survey.taken or node.name in survey.dealt:
            continue
        why = _surplus(survey, node)
        if node.state == "Owned":
            if why:
                yield survey.move(node, "Releasing", why)
        elif (why or node.state == "Releasing") and survey.returnable(node):
            yield survey.move(node, "", why or node.why)


def _surplus(survey: _Survey, node: KubeNode) -> str:
    """Say why an empty node that no pool uses goes back; empty if it stays."""
    if not node.granted(survey.own):
        return "its grant was withdrawn"
    if asked(node, survey.now):
        return f"{node.asked_by} asks for it"
    fitting = [pool for pool in survey.cluster.spec.pools if node.name in survey.of_kind(pool)]
    # Machines that have just joined, or are short of something, have taints for a while: as if they were cordoned.
    barred = bool(fitting) and not any(tolerates(pool, node.taints) for pool in fitting)
    if not node.ready or not node.schedulable or barred:
        return ""
    if not fitting:
        return "no pool can use it"
    if node.state == "Claiming":
        return "it is no longer needed"
    waits = [timedelta(seconds=seconds(pool.return_after)) for pool in fitting if pool.sharing == "Elastic"]
    idle = survey.now - survey.empty[node.name]
    return "no job has needed it lately" if idle >= max(waits, default=timedelta()) else ""


def _place(node: KubeNode) -> tuple[str, ...]:
    return (*(node.labels.get(label, "") for label in TOPOLOGY), node.name)
