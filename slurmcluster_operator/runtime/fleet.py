"""The fleet as one cluster sees it, and the steps of claims and releases."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from slurmcluster_operator.decide.ownership import Occupants, obstacle
from slurmcluster_operator.kube.client import ConflictError, Kube, TooManyError, path_of
from slurmcluster_operator.manifests import owner
from slurmcluster_operator.manifests.cluster import Cluster, Json
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import Ask, Evict, MarkSeat, Move, Own
from slurmcluster_operator.model.fleet import Fleet, ForeignPod, KubeNode, foreign_pod
from slurmcluster_operator.model.kube import Pod
from slurmcluster_operator.model.names import Names
from slurmcluster_operator.runtime.events import Events
from slurmcluster_operator.runtime.world import World

_REMEMBERED: Final = 30.0
"""Seconds for which a node counts as claimed though the copy of the Node does not show it yet."""

_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "Claiming": ("NodeClaimed", "claimed by"),
    "Owned": ("NodeOwned", "owned by"),
    "Releasing": ("NodeReleasing", "being given back by"),
    "": ("NodeReturned", "given back by"),
}
"""For each step, the Event's reason and how its message begins."""

_log = logging.getLogger(__name__)


def see(world: World, own: Names) -> Fleet:
    """Return the part of the fleet that concerns one cluster."""
    used = {pod.node_name for pod in world.pods.of(own.namespace) if pod.cluster == own.cluster and _is_slurmd(pod)}
    nodes = {
        node.name: node
        for node in world.nodes.items.values()
        if node.granted(own.fleet) or node.name in used or node.marked(own.fleet)
    }
    foreign: dict[str, list[ForeignPod]] = {}
    for pod in world.foreign.items.values():
        if pod.node in nodes:
            foreign.setdefault(pod.node, []).append(pod)
    slurmds: dict[str, list[str]] = {}
    for ours in world.pods.items.values():
        if ours.node_name in nodes and ours.phase not in {"Succeeded", "Failed"}:
            _sort_in(ours, own, foreign, slurmds)
    return Fleet(
        tuple(nodes.values()),
        {node: tuple(pods) for node, pods in foreign.items()},
        {node: tuple(pods) for node, pods in slurmds.items()},
        tuple(world.daemon_sets.items.values()),
        enforced=world.enforcement.on,
        unenforced_because=world.enforcement.because,
        own=own.fleet,
    )


def _is_slurmd(pod: Pod) -> bool:
    return pod.component == names.SLURMD


def _sort_in(pod: Pod, own: Names, foreign: dict[str, list[ForeignPod]], slurmds: dict[str, list[str]]) -> None:
    """Sort in a pod with our labels: a slurmd of another cluster, or a part of Slurm that has no business there."""
    if not _is_slurmd(pod):
        other = ForeignPod(pod.namespace, pod.name, pod.uid, pod.node_name, deleting=pod.deleting)
        foreign.setdefault(pod.node_name, []).append(other)
    elif (pod.namespace, pod.cluster) != (own.namespace, own.cluster):
        slurmds.setdefault(pod.node_name, []).append(f"{pod.namespace}/{pod.name}")


class Step:
    """Takes single steps of claims and releases, each on the Node and its pods as they are at that moment."""

    def __init__(self, kube: Kube, world: World, events: Events) -> None:
        self._kube = kube
        self._world = world
        self._events = events

    async def take(self, own: Names, action: Move) -> bool:
        """Take a step if it may be taken now, and tell whether it was."""
        raw = await self._kube.get("v1", "Node", "", action.node)
        node, now = KubeNode.from_json(raw), datetime.now(UTC)
        here = await self._occupants(own, action.node) if action.to in {"Owned", ""} else None
        enforced = self._world.enforcement.on
        if why_not := obstacle(action.to, own.fleet, node, here, action.seen, now, enforced=enforced):
            _log.info("node %s: not %s %s: %s", action.node, _WORDS[action.to][1], own.fleet, why_not)
            return False
        patch = owner.node_patch(raw, own.fleet, action.to, action.why, now)
        try:
            await self._kube.merge("v1", "Node", "", action.node, patch)
        except ConflictError:
            return False  # somebody has changed the Node since: the next look sees what it is now
        reason, words = _WORDS[action.to]
        message = f"{words} SlurmCluster {own.fleet}: {action.why}"
        await self._events.post_on_node(action.node, node.uid, reason, message)
        return True

    async def _occupants(self, own: Names, node: str) -> Occupants:
        """Look at a node's pods as they are at this moment, and at the cluster's pods that may be bound to it next.

        These come first: one that is bound in between is then seen on the node.
        """
        slurmd = f"{names.MANAGED_BY}={names.MANAGER},{names.INSTANCE}={own.cluster},{names.COMPONENT}={names.SLURMD}"
        unbound = await self._kube.list(
            path_of("v1", "Pod", own.namespace), {"fieldSelector": "spec.nodeName=", "labelSelector": slurmd}
        )
        there = await self._kube.list(path_of("v1", "Pod"), {"fieldSelector": f"spec.nodeName={node}"})
        foreign: dict[str, list[ForeignPod]] = {}
        slurmds: dict[str, list[str]] = {}
        ours = [pod.name for pod in map(Pod.from_json, unbound) if pod.machine == node]
        for raw in there:
            if raw["metadata"].get("labels", {}).get(names.MANAGED_BY) != names.MANAGER:
                if (pod := foreign_pod(raw, self._world.tolerance)) is not None:
                    foreign.setdefault(node, []).append(pod)
                continue
            labelled = Pod.from_json(raw)
            if _is_slurmd(labelled) and (labelled.namespace, labelled.cluster) == (own.namespace, own.cluster):
                ours.append(labelled.name)
            elif labelled.phase not in {"Succeeded", "Failed"}:
                _sort_in(labelled, own, foreign, slurmds)
        return Occupants(foreign.get(node, ()), ours, slurmds.get(node, ()))


class Steward:
    """Carries out what one cluster's plan has for Kubernetes nodes."""

    def __init__(self, kube: Kube, world: World, events: Events) -> None:
        self._kube = kube
        self._world = world
        self._events = events
        self._step = Step(kube, world, events)
        self._claimed: dict[str, float] = {}
        """Nodes that were claimed lately, and when."""
        self._used: tuple[int, frozenset[str]] = (-1, frozenset())
        self._indexed: tuple[Any, Json] = (None, {})
        """The last index, and what it was made from: in most looks nothing of that has changed."""
        self._held: dict[str, str] = {}
        """Pods (by uid) that may not be evicted now, with the API server's words: told once, not on every look."""

    def index(self, cluster: Cluster, fleet: Fleet, actions: Sequence[Own]) -> Json:
        """Return what admission must know before the actions are carried out."""
        now = time.monotonic()
        self._claimed = {node: since for node, since in self._claimed.items() if now - since < _REMEMBERED}
        claims = {action.node for action in actions if isinstance(action, Move) and action.to == "Claiming"}
        parts = (fleet.marked, self._in_use(cluster.names), claims | self._claimed.keys())
        pools = tuple(pool.name for pool in cluster.pools)
        about = (parts, fleet.daemon_sets, pools)
        if about != self._indexed[0]:
            self._indexed = about, owner.index(cluster, frozenset().union(*parts), fleet.daemon_sets)
        return self._indexed[1]

    def _in_use(self, own: Names) -> frozenset[str]:
        """Return the nodes on which slurmd pods of the cluster are, or for which they were made, at this moment."""
        pods = self._world.pods
        if pods.changes != self._used[0]:
            mine = (pod for pod in pods.of(own.namespace) if pod.cluster == own.cluster and _is_slurmd(pod))
            self._used = pods.changes, frozenset(pod.machine for pod in mine if pod.machine)
        return self._used[1]

    async def carry_out(self, cluster: Cluster, action: Own) -> None:
        """Carry out one action. What the world as it is now does not allow is left to the next look."""
        match action:
            case Move():
                await self._move(cluster, action)
            case MarkSeat():
                await self._mark(action.node, {names.SEAT: action.seat})
            case Ask():
                stamp = f"{action.by} {datetime.now(UTC).isoformat()}" if action.by else None
                await self._mark(action.node, {names.ASKED_BY: stamp})
            case Evict():
                await self._evict(cluster, action)

    async def _move(self, cluster: Cluster, action: Move) -> None:
        if not await self._step.take(cluster.names, action):
            return
        if action.to == "Claiming":
            self._claimed[action.node] = time.monotonic()
        elif not action.to:
            self._claimed.pop(action.node, None)

    async def _mark(self, node: str, annotations: Mapping[str, Any]) -> None:
        await self._kube.merge("v1", "Node", "", node, {"metadata": {"annotations": dict(annotations)}})

    async def _evict(self, cluster: Cluster, action: Evict) -> None:
        """Ask once more on every look: a PodDisruptionBudget may allow tomorrow what it refuses now."""
        try:
            await self._kube.evict(owner.eviction(action.namespace, action.name, action.uid))
        except TooManyError as error:
            if self._held.get(action.uid) != str(error):
                self._held[action.uid] = str(error)
                await self._events.post(
                    cluster, "PodStays", f"pod {action.namespace}/{action.name} stays on node {action.node}: {error}"
                )
            return
        self._held.pop(action.uid, None)
        message = f"pod {action.namespace}/{action.name} was asked to leave node {action.node}: {action.why}"
        await self._events.post(cluster, "PodEvicted", message)
