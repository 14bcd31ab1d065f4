"""Which seats Slurm is offered: no more than there are Kubernetes nodes for, unless an autoscaler adds machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from slurmcluster_operator.decide.fit import fitting, kind
from slurmcluster_operator.decide.seats import Seat, Seats, complete
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model import names
from slurmcluster_operator.model.holds import Hold
from slurmcluster_operator.model.observed import Observed

NO_MACHINE: Final = f"{names.DRAIN_PREFIX} no Kubernetes node for it"
"""The reason of seats that are closed for want of machines. Without a count, which would change it ever again."""
HELD: Final = f"{names.DRAIN_PREFIX} cannot be started now"
"""Begins the reason of seats that are closed because starts of their pool fail."""


Feasible = Mapping[str, int]
"""For each pool, how many Kubernetes nodes are granted to this cluster, work, fit the pool, and are nobody else's."""


def feasible_nodes(cluster: Cluster, observed: Observed) -> Feasible:
    """Count the Kubernetes nodes that each pool could use."""
    # Pools of one kind of machine, of which there are often several, are counted once.
    kinds = {kind(pool): pool for pool in cluster.pools}
    counts = {found: len(fitting(observed.fleet.usable, pool)) for found, pool in kinds.items()}
    return {pool.name: counts[kind(pool)] for pool in cluster.pools}


def closed_seats(
    cluster: Cluster,
    seats: Seats,
    machines: Mapping[str, tuple[str, ...]],
    holds: Mapping[str, Hold],
    now: datetime,
) -> dict[str, str]:
    """Return the powered-down seats on which no job should be placed, each with the reason that ``sinfo -R`` shows.

    A seat that is up or on its way is never closed. Of the others, as many stay open as there are Kubernetes nodes
    for: those that Slurm was offered before come first, so that the choice does not wander. ``machines`` are, for each
    pool, the Kubernetes nodes on which a further seat would find its place.
    """
    closed: dict[str, str] = {}
    for pool in cluster.pools:
        if not complete(seats[pool.name]):
            continue
        moving = [seat for seat in seats[pool.name] if not seat.settled]
        resting = [seat for seat in moving if _rests(seat)]
        hold = holds.get(pool.name)
        if hold is not None and now < hold.until:
            closed.update(dict.fromkeys((seat.name for seat in resting), f"{HELD}: {hold.words}"))
        elif pool.capacity == "Fixed":
            waiting = sum(seat.taken and not (seat.pod and seat.pod.machine) for seat in moving)
            room = max(0, len(machines[pool.name]) - waiting)
            closed.update(dict.fromkeys((seat.name for seat in _last(resting, room)), NO_MACHINE))
    return closed


def _rests(seat: Seat) -> bool:
    """Whether the seat is free to be closed: known to Slurm, powered down, no pod there and none wanted."""
    node = seat.slurm
    return not seat.taken and not seat.beyond and node is not None and node.off and not node.has("DOWN")


def _last(resting: Sequence[Seat], room: int) -> list[Seat]:
    """Return the seats for which there is no room. A person's drained seats take none."""
    usable = [seat for seat in resting if seat.slurm is not None and not seat.slurm.drained_by_others]
    usable.sort(key=lambda seat: (seat.slurm is not None and seat.slurm.drained_by_us, seat.ordinal))
    return usable[room:]
