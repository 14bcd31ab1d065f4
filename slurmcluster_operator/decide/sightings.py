"""How long things have been as they are, by this process's own clock: stamps of other machines may be wrong.

A process that has just begun knows of nothing how long it has been so, and waits once more where that matters.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime, timedelta

from slurmcluster_operator.model.fleet import KubeNode
from slurmcluster_operator.model.holds import Sighting


def sight(what: Hashable, before: Sighting | None, now: datetime) -> Sighting:
    """Return since when something has been seen as it is now. A clock that was ahead makes that young, never old."""
    known = before is not None and before.what == what
    return Sighting(what, min(now, before.first) if before and known else now)


def sight_nodes(nodes: Iterable[KubeNode], before: Mapping[str, Sighting], now: datetime) -> dict[str, Sighting]:
    """Do the same for nodes of which it matters: those with a step under way, and those that somebody asks for."""
    return {
        node.name: sight(node.step, before.get(node.name), now)
        for node in nodes
        if node.asked_by or (node.owner and node.state != "Owned")
    }


def stood(node: KubeNode, seen: Sighting | None, now: datetime) -> timedelta:
    """Return how long this process has seen a claim in its state: never longer than it has been in it."""
    return now - seen.first if seen is not None and seen.what == node.step else timedelta()


def lasted(node: KubeNode, seen: Sighting | None, now: datetime) -> timedelta:
    """Return how long a claim has been in its state, as far as one can tell: where minutes matter, not safety."""
    return max(node.age(now), stood(node, seen, now))
