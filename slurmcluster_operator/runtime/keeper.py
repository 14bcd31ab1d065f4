"""Nodes of SlurmClusters that are no longer there, and grants that name none: what no cluster's loop looks after."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Final

from slurmcluster_operator.api.group import API_VERSION, KIND
from slurmcluster_operator.decide.sightings import sight_nodes
from slurmcluster_operator.kube.client import ApiError, Kube, NotFoundError
from slurmcluster_operator.manifests import owner
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import Move
from slurmcluster_operator.model.fleet import KubeNode, State
from slurmcluster_operator.model.holds import Sighting
from slurmcluster_operator.model.names import Names
from slurmcluster_operator.runtime.events import Events
from slurmcluster_operator.runtime.fleet import Step
from slurmcluster_operator.runtime.world import World

EVERY: Final = 5.0
"""Seconds between two looks."""
SOON: Final = 0.5
"""Seconds to the next look after one that took a step: there may be another one to take."""
GONE: Final = "its SlurmCluster has been deleted"

_log = logging.getLogger(__name__)


class Keeper:
    """Gives back the nodes of deleted clusters once their slurmd pods are gone, and tells of grants to nobody."""

    def __init__(self, kube: Kube, world: World, events: Events, namespace: str) -> None:
        self._kube = kube
        self._world = world
        self._events = events
        self._namespace = namespace
        self._step = Step(kube, world, events)
        self._told: frozenset[tuple[str, str]] = frozenset()
        """(node, words) of the grants that were told of."""
        self._seen: dict[str, Sighting] = {}
        """Since when releases have stood."""

    async def run(self) -> None:
        """Look for ever."""
        await self._world.synced()
        while True:
            moved = False
            try:
                moved = await self.look()
            except (ApiError, OSError, TimeoutError) as error:
                _log.warning("keeper of the fleet: %s", error or type(error).__name__)
            await asyncio.sleep(SOON if moved else EVERY)

    async def look(self) -> bool:
        """Look once, and tell whether a node is a step further on its way back."""
        known = {f"{namespace}.{name}" for namespace, name in self._world.clusters.items}
        nodes = tuple(self._world.nodes.items.values())
        left = [node for node in nodes if node.holder not in {"", *known}]
        self._seen = sight_nodes(left, self._seen, datetime.now(UTC))
        moved = False
        for node in left:
            if (own := to_names(node.holder)) and await self._deleted(own):
                move = Move(node.name, _way_back(node), GONE, self._seen.get(node.name))
                moved |= await self._step.take(own, move)
        await self._tell({(node.name, words): node for node in nodes for words in grant_problems(node, known)})
        await self._clear_indexes(known)
        return moved

    async def _deleted(self, own: Names) -> bool:
        """Ask the API server itself: the copy may be old."""
        try:
            await self._kube.get(API_VERSION, KIND, own.namespace, own.cluster)
        except NotFoundError:
            return True
        return False

    async def _clear_indexes(self, known: set[str]) -> None:
        """Let admission forget the nodes that deleted clusters have given back, and those clusters with their last."""
        held: dict[str, set[str]] = {}
        for node in self._world.nodes.items.values():
            held.setdefault(node.holder, set()).add(node.name)
        for namespace, name in list(self._world.config_maps.items):
            fleet = name.removeprefix(owner.INDEX_PREFIX)
            ours = namespace == self._namespace and name.startswith(owner.INDEX_PREFIX)
            if ours and fleet not in known and (own := to_names(fleet)) and await self._deleted(own):
                await self._clear_index(name, held.get(fleet, set()))

    async def _clear_index(self, name: str, held: set[str]) -> None:
        found = await self._kube.get("v1", "ConfigMap", self._namespace, name)
        if names.FLEET_INDEX not in found["metadata"].get("labels", {}):
            return
        if not held:
            await self._kube.delete("v1", "ConfigMap", self._namespace, name, uid=found["metadata"]["uid"])
        elif patch := owner.index_patch(found, held):
            await self._kube.merge("v1", "ConfigMap", self._namespace, name, patch)

    async def _tell(self, problems: dict[tuple[str, str], KubeNode]) -> None:
        for (name, words), node in problems.items():
            if (name, words) not in self._told:
                await self._events.post_on_node(name, node.uid, "GrantToNobody", words, "Warning")
        self._told = frozenset(problems)


def _way_back(node: KubeNode) -> State:
    """Return the next step of giving a node back."""
    if not node.owner:
        return "Claiming"  # only other marks are left: with its label again it is given back like any other
    return "Releasing" if node.state == "Owned" else ""


def to_names(fleet: str) -> Names | None:
    """Read ``namespace.name``; None if it is not of that form."""
    namespace, _, cluster = fleet.partition(".")
    return Names(namespace, cluster) if namespace and cluster else None


def grant_problems(node: KubeNode, known: set[str]) -> list[str]:
    """Say what is wrong with a node's grant. ``known`` are the clusters that exist."""
    form = "it must be NAMESPACE.NAME of a SlurmCluster, several of them joined by _"
    return [
        f"the grant {names.FLEET_LABEL}={node.grant} names no SlurmCluster: "
        + (f"there is none of name {fleet.replace('.', '/', 1)}" if to_names(fleet) else form)
        for fleet in node.granted_to
        if fleet not in known
    ]
