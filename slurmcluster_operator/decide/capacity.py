"""Which seats Slurm is offered: no more than there are Kubernetes nodes for, unless an autoscaler adds machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from slurmcluster_operator.api.pools import Pool
from slurmcluster_operator.decide.seats import Seat, Seats, complete
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model import names
from slurmcluster_operator.model.holds import Hold
from slurmcluster_operator.model.kube import KubeNode
from slurmcluster_operator.model.observed import Observed

NO_MACHINE: Final = f"{names.DRAIN_PREFIX} no Kubernetes node for it"
"""The reason of seats that are closed for want of machines. Without a count, which would change it ever again."""
HELD: Final = f"{names.DRAIN_PREFIX} cannot be started now"
"""Begins the reason of seats that are closed because starts of their pool fail."""


Feasible = Mapping[str, tuple[str, ...]]
"""For each pool, the Kubernetes nodes that are granted to this cluster, work, and fit the pool."""


def feasible_nodes(cluster: Cluster, observed: Observed) -> Feasible:
    """Return the Kubernetes nodes that each pool could use."""
    fleet = cluster.names.fleet
    granted = [
        node
        for node in observed.kube_nodes
        if node.ready and node.schedulable and node.labels.get(names.FLEET_LABEL) == fleet
    ]
    return {pool.name: tuple(node.name for node in granted if _fits(node, pool)) for pool in cluster.pools}


def closed_seats(
    cluster: Cluster,
    observed: Observed,
    seats: Seats,
    feasible: Feasible,
    holds: Mapping[str, Hold],
    now: datetime,
) -> dict[str, str]:
    """Return the powered-down seats on which no job should be placed, each with the reason that ``sinfo -R`` shows.

    A seat that is up or on its way is never closed. Of the others, as many stay open as there are Kubernetes nodes
    for: those that Slurm was offered before come first, so that the choice does not wander.
    """
    occupied = {pod.node_name for pod in observed.of(names.SLURMD) if pod.node_name}
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
            waiting = sum(seat.taken and not (seat.pod and seat.pod.node_name) for seat in moving)
            room = max(0, sum(node not in occupied for node in feasible[pool.name]) - waiting)
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


def _fits(node: KubeNode, pool: Pool) -> bool:
    gpus = pool.machine.gpus
    return (not pool.node_selector or pool.node_selector.items() <= node.labels.items()) and (
        gpus is None or int(node.allocatable.get(gpus.resource, "0")) >= gpus.count
    )
