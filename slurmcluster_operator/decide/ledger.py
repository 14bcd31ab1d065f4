"""What is wrong with who is where: seats that must leave their machine, and nodes with two claimants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from slurmcluster_operator.api.status import FleetStatus
from slurmcluster_operator.decide.turns import turn_is_over
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model import names
from slurmcluster_operator.model.fleet import KubeNode
from slurmcluster_operator.model.holds import Sighting
from slurmcluster_operator.model.kube import Pod
from slurmcluster_operator.model.observed import Observed
from slurmcluster_operator.model.slurm import Slurm

NO_NODE: Final = f"{names.DRAIN_PREFIX} its Kubernetes node is gone"
UNGRANTED: Final = f"{names.DRAIN_PREFIX} its Kubernetes node is no longer granted"
TAKEN: Final = f"{names.DRAIN_PREFIX} its Kubernetes node has another owner"
ASKED: Final = f"{names.DRAIN_PREFIX} another cluster asks for its Kubernetes node"
SHARED: Final = f"{names.DRAIN_PREFIX} other work is on its Kubernetes node"
"""Begin the reasons with which a seat is drained that has to leave its machine. Jobs that run there go on."""


@dataclass(frozen=True, slots=True)
class DoubleClaim:
    """A pod where it must not be: a node has two claimants."""

    node: str
    pod: str
    """``namespace/name``."""
    words: str


def leaving(cluster: Cluster, observed: Observed, seen: Mapping[str, Sighting], now: datetime) -> dict[str, str]:
    """Return the seats that must leave their machine once nothing runs there, each with the reason."""
    own, doubtful = cluster.names.fleet, observed.fleet.doubtful
    lost = observed.pods.machines - observed.fleet.known
    found = {}
    for pod in observed.of(names.SLURMD) if doubtful or lost else ():
        node = doubtful.get(pod.node_name)
        if node is not None and (why := _why_leave(own, node, pod, observed, seen, now)):
            found[pod.slurm_node] = why
        elif pod.ready and pod.node_name in lost:
            # Kubernetes ends the pods of a Node that is gone within the minute, with the jobs that run in them.
            found[pod.slurm_node] = NO_NODE
    return found


def _why_leave(
    fleet: str, node: KubeNode, pod: Pod, observed: Observed, seen: Mapping[str, Sighting], now: datetime
) -> str:
    if node.owner not in {"", fleet}:
        return f"{TAKEN}: {node.owner}"
    if not node.granted(fleet):
        return UNGRANTED
    others = observed.fleet.foreign.get(node.name)
    if others:
        return f"{SHARED}: {min(one.title for one in others)}"
    known = observed.slurm.nodes.get(pod.slurm_node) if isinstance(observed.slurm, Slurm) else None
    busy = known is None or known.busy
    return f"{ASKED}: {node.asked_by}" if turn_is_over(node, seen.get(node.name), now, busy=busy) else ""


def double_claims(cluster: Cluster, observed: Observed) -> tuple[DoubleClaim, ...]:
    """Return every pod that is where a slurmd of the cluster is, or may be made any moment."""
    own, suspect = cluster.names.fleet, observed.fleet.suspect
    if not suspect:
        return ()
    there = {pod.node_name: pod for pod in observed.of(names.SLURMD) if pod.node_name}
    return tuple(claim for node in suspect for claim in _on(own, node, there.get(node.name), observed, cluster))


def _on(own: str, node: KubeNode, slurmd: Pod | None, observed: Observed, cluster: Cluster) -> Iterator[DoubleClaim]:
    exclusive = node.owner == own and node.state in {"Owned", "Releasing"}
    if slurmd is None and not exclusive:
        return
    whose = f"node {node.name}, which is {own}'s" if exclusive else f"node {node.name}, where {own} runs a slurmd"
    for pod in observed.fleet.foreign.get(node.name, ()):
        yield DoubleClaim(node.name, pod.title, f"pod {pod.title} runs on {whose}")
    for title in observed.fleet.slurmds.get(node.name, ()):
        yield DoubleClaim(node.name, title, f"slurmd {title} is on {whose}")
    if slurmd is not None and node.owner not in {"", own}:
        title = f"{cluster.names.namespace}/{slurmd.name}"
        yield DoubleClaim(node.name, title, f"slurmd {title} is on node {node.name}, which is {node.owner}'s")


def figures(cluster: Cluster, observed: Observed) -> FleetStatus:
    """Return the cluster's part of the fleet in figures."""
    fleet = observed.fleet
    states = Counter(node.state for node in fleet.owned)
    return FleetStatus(
        granted=len(fleet.granted),
        owned=states["Owned"],
        claiming=states["Claiming"],
        releasing=states["Releasing"],
        foreign=sum(node.name in fleet.foreign for node in fleet.suspect if node.granted(fleet.own)),
        double_claims=len(double_claims(cluster, observed)),
    )
