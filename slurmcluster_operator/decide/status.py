"""The status, computed whole on every look and written only when it differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from slurmcluster_operator.api.pools import Pool
from slurmcluster_operator.api.status import Endpoints, PoolStatus, SlurmClusterStatus
from slurmcluster_operator.decide import ledger
from slurmcluster_operator.decide.conditions import Verdict, consistent, judge, to_conditions
from slurmcluster_operator.decide.plan import Plan
from slurmcluster_operator.decide.pools import pool_reasons
from slurmcluster_operator.decide.queue import NO_FIGURES, Figures, pool_queues, queue
from slurmcluster_operator.decide.seats import Seat
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model import names
from slurmcluster_operator.model.observed import Observed
from slurmcluster_operator.model.slurm import SlurmNode


def compute_status(
    cluster: Cluster,
    observed: Observed,
    plan: Plan,
    before: SlurmClusterStatus,
    errors: Sequence[str],
    now: datetime,
    generation: int,
) -> SlurmClusterStatus:
    """Return the status that tells what was seen. What is unknown now keeps its last known figures."""
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    jobs = observed.jobs
    conditions = to_conditions(
        judge(cluster, observed, plan.seats, plan.feasible, plan.memory, errors), before.conditions, stamp, generation
    )
    reasons = pool_reasons(cluster, plan.feasible, plan.seats, plan.memory, plan.closed, plan.shared, now)
    queues = {pool.name: _last(pool) for pool in before.pools} if jobs is None else pool_queues(cluster, jobs)
    pools = tuple(
        _pool(
            pool,
            plan.seats[pool.name],
            reason=reasons[pool.name],
            feasible=plan.feasible[pool.name],
            queue=queues.get(pool.name) or NO_FIGURES,
        )
        for pool in cluster.spec.pools
    )
    rest = f"http://{cluster.names.part(names.RESTAPI)}.{cluster.names.namespace}:{names.SLURMRESTD_PORT}"
    return SlurmClusterStatus(
        observed_generation=generation,
        nodes=f"{sum(pool.ready for pool in pools)}/{sum(pool.desired for pool in pools)}",
        busy=sum(pool.busy for pool in pools),
        drained=sum(pool.drained for pool in pools),
        conditions=conditions,
        endpoints=Endpoints(login=observed.login_address, rest=rest),
        pools=pools,
        queue=before.queue if jobs is None else queue(cluster, jobs),
        fleet=ledger.figures(cluster, observed),
    )


def invalid_status(
    cluster: Cluster, observed: Observed, problem: str, before: SlurmClusterStatus, now: datetime, generation: int
) -> SlurmClusterStatus:
    """Return the status of a cluster whose spec cannot be read: what is wrong, and its fleet, as was seen now."""
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    invalid = Verdict("False", "Invalid", problem)
    verdicts = {"Ready": invalid, "SpecValid": invalid, "FleetConsistent": consistent(cluster, observed)}
    known = to_conditions(verdicts, before.conditions, stamp, generation)
    kept = tuple(one for one in before.conditions if one.type not in verdicts)
    return before.model_copy(
        update={
            "observed_generation": generation,
            "conditions": (*known, *kept),
            "fleet": ledger.figures(cluster, observed),
        }
    )


def _last(pool: PoolStatus) -> Figures:
    return Figures(
        running=pool.running,
        pending=pool.pending,
        pending_nodes=pool.pending_nodes,
        oldest_pending=pool.oldest_pending,
    )


def _pool(pool: Pool, places: Sequence[Seat], *, reason: str, feasible: int, queue: Figures) -> PoolStatus:
    here = [seat for seat in places if seat.taken]
    states = Counter(seat.slurm.state for seat in here if seat.slurm is not None and seat.pod is not None)
    known = [(SlurmNode("", state), count) for state, count in states.items()]  # thousands share a handful of states
    return PoolStatus(
        name=pool.name,
        min=pool.nodes.min,
        max=pool.nodes.max,
        desired=sum(seat.wanted or (seat.pod is not None and not seat.pod.deleting) for seat in here),
        feasible=feasible,
        ready=sum(seat.up for seat in here),
        busy=sum(count for node, count in known if node.busy and not node.starting),
        idle=sum(count for node, count in known if node.usable and not node.busy),
        drained=sum(count for node, count in known if node.has("DRAIN")),
        starting=sum(seat.starting or (seat.asked_for and seat.pod is None) for seat in here),
        reason=reason,
        **queue,
    )
