"""Kubernetes nodes that are granted to several clusters: who asks for one, and who has to give one up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from slurmcluster_operator.decide.ownership import ASK_HOLDS, asked
from slurmcluster_operator.decide.sightings import lasted
from slurmcluster_operator.model.actions import Ask
from slurmcluster_operator.model.fleet import KubeNode
from slurmcluster_operator.model.holds import Sighting

TURN: Final = timedelta(minutes=10)
"""How long a cluster may keep a node busy that another one asks for. Then no further job starts there."""
GRACE: Final = timedelta(minutes=2)
"""How long a cluster has a node at least: else two that want the same one would take it from each other for ever, each
before the other's slurmd has begun."""


def asks(nodes: Sequence[KubeNode], fleet: str, unmet: int, now: datetime) -> Iterator[Ask]:
    """Yield the wishes that a cluster writes onto nodes of others, or takes back. ``nodes`` fit what it needs.

    A node is asked for only where its owner has at least two more of the shared ones, or the asker has none: so shares
    come close to each other, nobody starves, and no node goes to and fro between two clusters that are nearly even.
    """
    ours = [node for node in nodes if node.asked_by == fleet]
    if unmet <= 0:
        # One that is free is reserved for this cluster, which may claim it at this moment: that ends the wish as well.
        # Taken back beside the claim, the wish would let the last owner have it again.
        yield from (Ask(node.name, "") for node in ours if node.owner)
        return
    yield from (Ask(node.name, fleet) for node in ours if node.owner != fleet and _fades(node, now))
    yield from (Ask(node.name, "") for node in ours if node.owner == fleet)
    shared = [node for node in nodes if len(node.granted_to) > 1 and node.granted(fleet)]
    mine = sum(node.owner == fleet or (node.asked_by == fleet and asked(node, now)) for node in shared)
    held = Counter(node.owner for node in shared)
    for node in shared:
        fair = mine == 0 or held[node.owner] - mine >= 2  # noqa: PLR2004
        if node.owner not in {"", fleet} and not asked(node, now) and fair:
            yield Ask(node.name, fleet)
            return


def turn_is_over(node: KubeNode, seen: Sighting | None, now: datetime, *, busy: bool) -> bool:
    """Tell whether the owner of a node has to leave it to the cluster that asks for it."""
    return asked(node, now) and lasted(node, seen, now) >= (TURN if busy else GRACE)


def _fades(node: KubeNode, now: datetime) -> bool:
    return node.asked_at is None or abs(now - node.asked_at) > ASK_HOLDS / 2
