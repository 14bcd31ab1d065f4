"""The protocol by which a cluster gets and gives back a Kubernetes node: what each step needs, and what it writes.

A step is decided on copies that may be old. It is carried out on the Node and the pods as they are at that moment, by
a write that fails if the Node has changed since it was read: ``obstacle`` is asked again, and has the last word.

free → Claiming → Owned → Releasing → free. A claim that comes to nothing goes back to free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from slurmcluster_operator.decide.sightings import lasted, stood
from slurmcluster_operator.model.fleet import Fleet, ForeignPod, KubeNode, State
from slurmcluster_operator.model.holds import Sighting

SETTLE: Final = timedelta(seconds=1)
"""How long a claim or a release has stood before what runs there is counted: a scheduler may have chosen the node for a
pod of others, or for a slurmd, a moment before."""
SETTLE_UNENFORCED: Final = timedelta(seconds=5)
"""The same where no admission policy refuses the late ones."""
RESERVED: Final = timedelta(seconds=60)
"""How long a node that was given up for another cluster is left to it."""
ASK_HOLDS: Final = timedelta(minutes=10)
"""How long a cluster's word that it wants a node counts. It says so again while it does."""


@dataclass(frozen=True, slots=True)
class Occupants:
    """The pods on one node, from one consistent list that was asked for after the Node was read."""

    foreign: Sequence[ForeignPod] = ()
    ours: Sequence[str] = ()
    """Slurmd pods of the cluster that are there, or were made for it, ending or not."""
    others: Sequence[str] = ()
    """Slurmd pods of other clusters, as ``namespace/name``."""


def obstacle(
    to: State,
    fleet: str,
    node: KubeNode,
    here: Occupants | None,
    seen: Sighting | None,
    now: datetime,
    *,
    enforced: bool,
) -> str:
    """Say why a cluster may not take a step with a node; empty if it may.

    ``here`` and ``seen``, since when the node has been as it is, are needed for the steps to Owned and to free; without
    them these are refused. ``enforced`` tells whether admission refuses what would come late.
    """
    match to:
        case "Claiming":
            return _no_claim(fleet, node, seen, now)
        case "Owned":
            return _no_ownership(fleet, node, here) or _unsettled(node, seen, now, enforced=enforced)
        case "Releasing":
            return "" if node.owner == fleet and node.state == "Owned" else f"it is not {fleet}'s alone"
        case "":
            # Admission keeps late pods of others off, but not a slurmd of the cluster's own.
            return _no_return(fleet, node, here) or _unsettled(node, seen, now, enforced=False)


def asked(node: KubeNode, now: datetime) -> bool:
    """Tell whether another cluster, to which the node is granted as well, asks for it."""
    if node.asked_by in {"", node.owner} or not node.granted(node.asked_by):
        return False
    return node.asked_at is not None and abs(now - node.asked_at) < ASK_HOLDS


def reserved(fleet: str, node: KubeNode, seen: Sighting | None, now: datetime) -> bool:
    """Tell whether a free node has lately been given up for another cluster."""
    return node.asked_by != fleet and asked(node, now) and lasted(node, seen, now) < RESERVED


def settled(node: KubeNode, seen: Sighting | None, now: datetime, *, enforced: bool) -> bool:
    """Tell whether a claim or release has been seen for long enough for its last look at the node's pods."""
    return stood(node, seen, now) >= (SETTLE if enforced else SETTLE_UNENFORCED)


def settling(fleet: Fleet, seen: Mapping[str, Sighting], now: datetime) -> bool:
    """Tell whether a claim or release of the cluster only has to stand a moment longer before its next step."""
    return any(
        node.owner == fleet.own
        and node.state in {"Claiming", "Releasing"}
        and not settled(node, seen.get(node.name), now, enforced=fleet.enforced and node.state == "Claiming")
        for node in fleet.others
    )


def _no_claim(fleet: str, node: KubeNode, seen: Sighting | None, now: datetime) -> str:
    # Marks that somebody has taken half of off are put back whatever the grant: only then can all of them be taken off.
    if not node.granted(fleet) and not node.marked(fleet):
        return f"it is not granted to {fleet}"
    if node.owner not in {"", fleet} or node.tainted not in {"", fleet}:
        return f"{node.holder} has it"
    if not node.owner and reserved(fleet, node, seen, now):
        return f"it was given up for {node.asked_by}"
    return ""


def _unsettled(node: KubeNode, seen: Sighting | None, now: datetime, *, enforced: bool) -> str:
    return "" if settled(node, seen, now, enforced=enforced) else f"it has been {node.state or 'so'} only now"


def _no_ownership(fleet: str, node: KubeNode, here: Occupants | None) -> str:
    if not _holds(fleet, node) or not node.state:
        return f"it is not {fleet}'s"
    if not node.granted(fleet):
        return f"it is not granted to {fleet}"
    if here is None:
        return "nobody has looked at its pods"
    if here.foreign or here.others:
        return occupied(here.foreign, here.others)
    return ""


def _no_return(fleet: str, node: KubeNode, here: Occupants | None) -> str:
    if node.owner != fleet or node.state == "Owned":
        return f"it is not being given back by {fleet}"
    if here is None:
        return "nobody has looked at its pods"
    return f"pod {', '.join(here.ours)} is still there" if here.ours else ""


def _holds(fleet: str, node: KubeNode) -> bool:
    return node.owner == fleet and node.tainted == fleet


def occupied(foreign: Sequence[ForeignPod], others: Sequence[str] = ()) -> str:
    """Say who else runs on a node."""
    titles = sorted({*(pod.title for pod in foreign), *others})
    more = f" and {len(titles) - 3} more" if len(titles) > 3 else ""  # noqa: PLR2004
    return f"{', '.join(titles[:3])}{more} {'runs' if len(titles) == 1 else 'run'} there"
