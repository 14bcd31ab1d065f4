"""The ledger of the fleet: who has each Kubernetes node that is granted or owned, and what is wrong there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from slurmcluster_operator.decide.ledger import double_claims, leaving
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model import names
from slurmcluster_operator.model.fleet import Fleet, ForeignPod, KubeNode, State
from slurmcluster_operator.model.kube import Pod
from slurmcluster_operator.model.names import Names
from slurmcluster_operator.model.observed import Observed, Pods
from slurmcluster_operator.model.slurm import Slurm, Unknown

UNKNOWN: Final = "?"
"""The state of a Slurm node whose slurmctld did not answer."""
ABSENT: Final = "-"
"""The state of a Slurm node of which slurmctld knows nothing."""

AHEAD: Final = timedelta(minutes=1)
"""How far a clock may be ahead before that is told."""

_BASE: Final = ("IDLE", "ALLOCATED", "MIXED", "DOWN", "ERROR", "FUTURE", "UNKNOWN")
"""Slurm's states proper; everything else is a flag beside one of them."""


@dataclass(frozen=True, slots=True)
class Look:
    """The whole fleet, as it was found."""

    nodes: Sequence[KubeNode]
    pods: Sequence[Pod]
    """Pods of ours that are on a node and are not over."""
    foreign: Sequence[ForeignPod]
    clusters: frozenset[str]
    """The SlurmClusters that exist, as ``namespace.name``."""
    misgrants: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """For each Kubernetes node, what is wrong with its grant."""
    slurm: Mapping[str, Slurm | Unknown] = field(default_factory=dict)
    """What the slurmctld of each cluster says, where it was asked."""


@dataclass(frozen=True, slots=True)
class Slurmd:
    """A slurmd pod as the ledger has it."""

    cluster: str
    """``namespace.name``."""
    node: str
    """The Slurm node that it serves."""
    state: str
    """Slurm's own words, as ``IDLE+DRAIN``; or ``UNKNOWN``, or ``ABSENT``."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One Kubernetes node."""

    node: str
    granted_to: tuple[str, ...]
    owner: str
    state: State
    since: datetime | None
    slurmds: tuple[Slurmd, ...]
    foreign: tuple[str, ...]
    """Pods of others that count there, as ``namespace/name``."""
    why: str
    """Why its owner or state last changed, and why it is to be left."""
    double_claims: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    """What else is wrong with it."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that is wrong with it, in words."""
        return (*self.double_claims, *self.faults)

    def concerns(self, namespace: str, cluster: str) -> bool:
        """Tell whether it is granted to, owned by or used by such a SlurmCluster; an empty name fits all."""
        parties = {*self.granted_to, self.owner, *(slurmd.cluster for slurmd in self.slurmds)}
        found = (party.partition(".") for party in parties)
        return not (namespace or cluster) or any(
            namespace in {"", one} and cluster in {"", other} for one, _, other in found
        )


class _Ordered:
    """A look, by Kubernetes node and by cluster."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.foreign: dict[str, list[ForeignPod]] = defaultdict(list)
        self.slurmds: dict[str, list[Pod]] = defaultdict(list)
        self.pods: dict[str, list[Pod]] = defaultdict(list)
        for pod in look.foreign:
            self.foreign[pod.node].append(pod)
        for ours in look.pods:
            if ours.component == names.SLURMD:
                self.slurmds[ours.node_name].append(ours)
                self.pods[_cluster(ours)].append(ours)
            else:
                other = ForeignPod(ours.namespace, ours.name, ours.uid, ours.node_name, deleting=ours.deleting)
                self.foreign[ours.node_name].append(other)
        self.nodes: dict[str, list[KubeNode]] = defaultdict(list)
        for node in look.nodes:
            there = (_cluster(pod) for pod in self.slurmds.get(node.name, ()))
            for party in filter(None, dict.fromkeys((node.owner, *node.granted_to, *there))):
                self.nodes[party].append(node)

    def views(self, now: datetime) -> Iterator[tuple[Cluster, Observed]]:
        """Yield what each cluster that is named anywhere sees, whether it exists or not."""
        for party, nodes in self.nodes.items():
            namespace, _, name = party.partition(".")
            cluster = Cluster.unspecified(Names(namespace, name))  # one that is gone, or invalid, must hide nothing
            others = {node.name: tuple(self._others(node.name, party)) for node in nodes}
            fleet = Fleet(
                nodes,
                {node.name: tuple(self.foreign[node.name]) for node in nodes if node.name in self.foreign},
                {node: titles for node, titles in others.items() if titles},
                own=party,
            )
            slurm = self.look.slurm.get(party, Unknown("not asked", now))
            yield cluster, Observed(Pods(self.pods.get(party, ())), {}, {}, fleet, slurm)

    def _others(self, node: str, party: str) -> Iterator[str]:
        return (f"{pod.namespace}/{pod.name}" for pod in self.slurmds.get(node, ()) if _cluster(pod) != party)


def entries(look: Look, now: datetime) -> tuple[Entry, ...]:
    """Return the ledger, by the nodes' names: those that are granted, carry a mark of ownership, or have a slurmd."""
    ordered = _Ordered(look)
    claims: dict[str, dict[str, None]] = defaultdict(dict)
    leaves: dict[tuple[str, str], str] = {}
    for cluster, observed in ordered.views(now):
        own = cluster.names.fleet
        for claim in double_claims(cluster, observed):
            claims[claim.node][claim.words] = None
        leaves |= {(own, seat): why for seat, why in leaving(cluster, observed, {}, now).items()}
    concerned = (node for node in look.nodes if marked(node) or node.name in ordered.slurmds)
    return tuple(
        replace(_entry(ordered, node, leaves, now), double_claims=tuple(claims.get(node.name, ())))
        for node in sorted(concerned, key=lambda one: one.name)
    )


def confirmed(found: Iterable[Entry], before: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return what was found, with those problems only that an earlier look has found as well.

    Nodes and pods are listed one after the other: a node that changes hands in between looks as if two had it.
    """
    old = {entry.node: {*entry.problems} for entry in before}

    def both(node: str, problems: Iterable[str]) -> tuple[str, ...]:
        return tuple(one for one in problems if one in old.get(node, ()))

    return tuple(
        replace(one, double_claims=both(one.node, one.double_claims), faults=both(one.node, one.faults))
        for one in found
    )


def _entry(ordered: _Ordered, node: KubeNode, leaves: Mapping[tuple[str, str], str], now: datetime) -> Entry:
    pods = sorted(ordered.slurmds.get(node.name, ()), key=lambda pod: (_cluster(pod), pod.name))
    why = [node.why, *(leaves.get((_cluster(pod), pod.slurm_node), "") for pod in pods)]
    if node.since is not None and node.since - now > AHEAD:
        why.append(f"clocks differ: {names.OWNER_SINCE} says {node.since.isoformat()}")
    return Entry(
        node.name,
        node.granted_to,
        node.owner,
        node.state,
        node.since,
        tuple(_slurmd(pod, ordered.look.slurm) for pod in pods),
        tuple(sorted(pod.title for pod in ordered.foreign.get(node.name, ()))),
        "; ".join(words.removeprefix(names.DRAIN_PREFIX).strip() for words in why if words),
        faults=tuple(_faults(node, pods, ordered.look)),
    )


def _faults(node: KubeNode, slurmds: Iterable[Pod], look: Look) -> Iterator[str]:
    yield from look.misgrants.get(node.name, ())
    if names.FLEET_LABEL in node.labels and not node.granted_to:
        yield f"the grant {names.FLEET_LABEL} is empty: it must be NAMESPACE.NAME of a SlurmCluster"
    if node.owner and node.owner not in look.clusters:
        yield f"its owner {node.owner} is no SlurmCluster that exists"
    if node.owner != node.tainted:
        yield f"its label says that {node.owner or 'nobody'} has it, its taint that {node.tainted or 'nobody'} has"
    serves = node.owner if node.state == "Owned" else ""
    if (says := node.labels.get(names.SERVES, "")) != serves:
        yield f"its label {names.SERVES} says {says or 'nobody'}, and should say {serves or 'nobody'}"
    if node.owner and not node.state:
        yield f"it has an owner, and annotation {names.OWNER_STATE} is missing or none of the known ones"
    if node.state and not node.owner:
        yield f"annotation {names.OWNER_STATE} says {node.state}, and it has no owner"
    if not node.owner:
        yield from (f"slurmd {pod.namespace}/{pod.name} is on it, and it has no owner" for pod in slurmds)


def _slurmd(pod: Pod, slurm: Mapping[str, Slurm | Unknown]) -> Slurmd:
    cluster = _cluster(pod)
    answer = slurm.get(cluster)
    if not isinstance(answer, Slurm):
        return Slurmd(cluster, pod.slurm_node, UNKNOWN)
    known = answer.nodes.get(pod.slurm_node)
    return Slurmd(cluster, pod.slurm_node, ABSENT if known is None else _state(known.state))


def _state(flags: frozenset[str]) -> str:
    """Write a state as Slurm does, without what all nodes have in common."""
    return "+".join(sorted(flags - {"CLOUD"}, key=lambda flag: (flag not in _BASE, flag)))


def marked(node: KubeNode) -> bool:
    """Tell whether a node is granted, or carries a mark of ownership."""
    return bool(names.FLEET_LABEL in node.labels or node.holder or node.state)


def _cluster(pod: Pod) -> str:
    return Names(pod.namespace, pod.cluster).fleet
