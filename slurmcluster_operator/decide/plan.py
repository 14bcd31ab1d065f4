"""The whole plan of one look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from slurmcluster_operator.decide import nodes
from slurmcluster_operator.decide.capacity import Feasible, closed_seats, feasible_nodes
from slurmcluster_operator.decide.comments import comments
from slurmcluster_operator.decide.fleet import plan_fleet
from slurmcluster_operator.decide.gangs import find_gangs, requests
from slurmcluster_operator.decide.ledger import leaving
from slurmcluster_operator.decide.refresh import nudge, refresh
from slurmcluster_operator.decide.retire import retired
from slurmcluster_operator.decide.seats import Seats, find_seats, pool_sizes
from slurmcluster_operator.decide.sightings import sight_nodes
from slurmcluster_operator.decide.starts import failures, give_ups, recoveries, update_holds, update_homeless
from slurmcluster_operator.manifests.build import content_hash
from slurmcluster_operator.manifests.cluster import NO_QUEUES, Cluster, Queues
from slurmcluster_operator.model.actions import Action
from slurmcluster_operator.model.holds import Memory
from slurmcluster_operator.model.observed import Observed


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, and what to remember."""

    actions: tuple[Action, ...]
    memory: Memory
    seats: Seats
    feasible: Feasible
    closed: dict[str, str]
    """Seats that Slurm is not offered, with the reason."""
    shared: Mapping[str, str]
    """For each pool, which Kubernetes nodes run other work or do not fit, in words; empty where there is none."""


def resolve(cluster: Cluster, observed: Observed, memory: Memory, before: Queues = NO_QUEUES) -> Cluster:
    """Return the cluster with all that slurm.conf must have because pods or jobs have it, though the spec does not.

    ``before`` is what it had until now. While slurmctld does not answer, jobs may have any of that.
    """
    sizes = pool_sizes(observed)
    if observed.jobs is None:
        had = {pool.name: pool.nodes.max for pool in before.pools}
        every = (sizes, memory.sizes, had)
        sizes = {pool: max(one.get(pool, 0) for one in every) for pool in {*sizes, *memory.sizes, *had}}
    sized = replace(cluster, sizes=sizes)
    return replace(sized, retired=retired(sized, observed, before))


def make_plan(cluster: Cluster, observed: Observed, memory: Memory, now: datetime) -> Plan:
    """Return all actions of one look, in the order in which they are carried out."""
    memory = replace(
        memory,
        nodes=sight_nodes(observed.fleet.nodes, memory.nodes, now),
        slurmctld=nodes.sight_slurmctld(observed, memory.slurmctld, now),
    )
    seats = find_seats(cluster, observed, leaving(cluster, observed, memory.nodes, now))
    machines = plan_fleet(cluster, observed, seats, memory, now)
    memory = replace(
        memory,
        empty=machines.empty,
        kept_out=machines.kept_out,
        homeless=update_homeless(machines.waiting, memory.homeless, now),
    )
    failed = tuple(failures(seats, memory, now))
    memory = replace(memory, holds=update_holds(cluster, seats, failed, memory.holds, now), sizes=cluster.sizes)
    feasible = feasible_nodes(cluster, observed)
    closed = closed_seats(cluster, seats, machines.open, memory.holds, now)
    content = content_hash(cluster)
    gangs = find_gangs(cluster, observed, seats)
    wanted = {node: gang.name for gang in gangs for node in gang.nodes}
    created = tuple(nodes.creations(cluster, seats, content, wanted, machines.chosen))
    actions: Iterable[Action] = (
        *refresh(observed, content),
        *nudge(observed, now),
        *nodes.replace_broken(observed),
        *machines.moves,
        *nodes.drains(seats, closed),
        *give_ups(failed, observed),
        *recoveries(seats, memory.holds, machines.open, now),
        *nodes.vanished(seats),
        *nodes.unanswered(seats),
        *nodes.headroom(seats, closed),
        *created,
        *requests(cluster, gangs, frozenset(action.node for action in created)),
        *nodes.deletions(cluster, observed, seats, memory, now),
        *comments(cluster, seats, observed.jobs or (), memory, closed, machines.shared, now),
    )
    return Plan(tuple(actions), memory, seats, feasible, closed, machines.shared)
