"""Pools: what each lacks, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from slurmcluster_operator.api.pools import Pool
from slurmcluster_operator.decide.capacity import NO_MACHINE, Feasible
from slurmcluster_operator.decide.nodes import startable
from slurmcluster_operator.decide.pods import pod_problem, stays
from slurmcluster_operator.decide.seats import Seat, Seats
from slurmcluster_operator.decide.starts import held, start_problem
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model import names
from slurmcluster_operator.model.holds import Hold, Memory
from slurmcluster_operator.model.observed import Observed

TOO_FEW: Final = "TooFewNodes"
"""The reason of a pool for whose minimum there are not enough Kubernetes nodes."""


def orphaned_pools(cluster: Cluster, observed: Observed) -> list[str]:
    """Return the pools that nobody knows any more while their pods are still there.

    A slurm.conf without their nodes would lose the jobs that run on them.
    """
    known = {pool.name for pool in cluster.pools}
    return sorted({pod.pool for pod in observed.of(names.SLURMD)} - known)


def pool_problem(
    cluster: Cluster, feasible: Feasible, pool: Pool, places: Sequence[Seat], memory: Memory
) -> tuple[str, str] | None:
    """Say why a pool has fewer usable nodes than its minimum, or None if it has them."""
    usable = sum(seat.up for seat in places)
    if usable >= pool.nodes.min:
        return None
    fit = feasible[pool.name]
    if fit < pool.nodes.min:
        return TOO_FEW, (
            f"pool {pool.name}: {usable} of {pool.nodes.min} nodes ready; {fit} Kubernetes nodes are granted"
            f" ({names.FLEET_LABEL}={cluster.names.fleet}), ready and fit"
        )
    reasons = [_missing(seat, memory) for seat in places if seat.taken and not seat.up]
    reason, message = min(reasons, key=lambda one: one[0] == "Starting")
    return reason, f"pool {pool.name}: {usable} of {pool.nodes.min} nodes ready; {message}"


def pool_words(
    pool: str, seats: Seats, memory: Memory, closed: Mapping[str, str], shared: Mapping[str, str], now: datetime
) -> str:
    """Say why a pool cannot start as many nodes as its maximum; empty if it can."""
    places = seats[pool]
    hold = held(places[0], {pool: memory.holds[pool]} if pool in memory.holds else {}, now)
    if hold is not None:
        return f"pool {pool} cannot start nodes: {hold_words(hold)}"
    without = sum(closed.get(seat.name) == NO_MACHINE for seat in places)
    if without:
        return f"pool {pool}: there are Kubernetes nodes for {len(places) - without} of its {len(places)} nodes now" + (
            f"; {shared[pool]}" if shared.get(pool) else ""
        )
    return ""


def pool_reasons(
    cluster: Cluster,
    feasible: Feasible,
    seats: Seats,
    memory: Memory,
    closed: Mapping[str, str],
    shared: Mapping[str, str],
    now: datetime,
) -> dict[str, str]:
    """Return, for each pool, what the status says of nodes that are missing; empty where all is well."""
    reasons = {}
    for pool in cluster.spec.pools:
        problem = pool_problem(cluster, feasible, pool, seats[pool.name], memory)
        if problem:
            words = "; ".join(filter(None, (problem[1], shared[pool.name] if problem[0] == TOO_FEW else "")))
        else:
            words = pool_words(pool.name, seats, memory, closed, shared, now)
        reasons[pool.name] = words or _seat_words(seats[pool.name], memory, now)
    return reasons


def hold_words(hold: Hold) -> str:
    """Say what failed, how often, and when it is tried again."""
    times = "" if hold.failures == 1 else f"{hold.failures} times in a row; "
    return f"{hold.words} ({times}tried again at {hold.until:%H:%M:%S} UTC)"


def stuck(seats: Seats, memory: Memory, closed: Mapping[str, str], now: datetime) -> dict[str, str]:
    """Return the pools that start no node now, each with those of its nodes whose starts have failed, in words."""
    holds = {name: hold for name, hold in memory.holds.items() if not hold.pool_wide and now < hold.until}
    found = {}
    for pool, places in seats.items() if holds else ():
        if not any(seat.name not in closed and (startable(seat) or seat.comes_free) for seat in places):
            kept = [seat.name for seat in places if seat.name in holds]
            found[pool] = _first_few([f"{name}: {hold_words(holds[name])}" for name in kept])
    return found


def _seat_words(places: Sequence[Seat], memory: Memory, now: datetime) -> str:
    """Say what is wrong with the first few seats that do not come up, or do not come down."""
    words = []
    for seat in places:
        if seat.settled and not memory.holds:
            continue
        hold = memory.holds.get(seat.name)
        if hold is not None and now < hold.until:
            words.append(f"{seat.name}: {hold_words(hold)}")
        elif seat.taken and (problem := start_problem(seat, memory)):
            words.append(f"{seat.name}: {problem[1]}")
        elif still := stays(seat.pod, now):
            words.append(f"{seat.name}: {still}")
    return _first_few(words)


def _first_few(words: Sequence[str]) -> str:
    return "; ".join(words[:3]) + (f"; and {len(words) - 3} more" if len(words) > 3 else "")  # noqa: PLR2004


def _missing(seat: Seat, memory: Memory) -> tuple[str, str]:
    """Say why a seat cannot be used."""
    if seat.pod is None:
        hold = memory.holds.get(seat.name) or memory.holds.get(seat.pool.name)
        homeless = memory.homeless.get(seat.name)
        if hold is not None and seat.given_up:
            return hold.problem, f"{seat.name}: {hold_words(hold)}"
        return ("NoMachine", f"{seat.name}: {homeless[0]}") if homeless else ("Starting", f"{seat.name} has no pod yet")
    if not seat.pod.ready or seat.pod.deleting:
        return pod_problem(seat.pod)
    if seat.slurm is None:
        return "NotRegistered", f"slurmctld does not know {seat.name} yet"
    flags = "+".join(sorted(seat.slurm.state))
    return "NotUsable", f"{seat.name} is {flags}" + (f" ({seat.slurm.reason})" if seat.slurm.reason else "")
