"""The status, computed whole on every tick and written only when it differs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from slurmcluster_operator.api.pools import Pool
from slurmcluster_operator.api.status import Endpoints, PoolStatus, Queue, SlurmClusterStatus
from slurmcluster_operator.decide.conditions import feasible_nodes, judge, pool_problem, to_conditions
from slurmcluster_operator.decide.nodes import seats
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model import names
from slurmcluster_operator.model.observed import Observed
from slurmcluster_operator.model.slurm import Slurm


def compute_status(
    cluster: Cluster,
    observed: Observed,
    before: SlurmClusterStatus,
    errors: Sequence[str],
    now: datetime,
    generation: int,
) -> SlurmClusterStatus:
    """Return the status that tells what was seen. What is unknown now keeps its last known figures."""
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = to_conditions(judge(cluster, observed, errors), before.conditions, stamp, generation)
    pools = tuple(_pool(cluster, observed, pool) for pool in cluster.spec.pools)
    queue = before.queue
    if isinstance(observed.slurm, Slurm):
        queue = Queue(running=observed.slurm.running, pending=observed.slurm.pending)
    rest = f"http://{cluster.names.part(names.RESTAPI)}.{cluster.names.namespace}:{names.SLURMRESTD_PORT}"
    return SlurmClusterStatus(
        observed_generation=generation,
        nodes=f"{sum(pool.ready for pool in pools)}/{sum(pool.desired for pool in pools)}",
        busy=sum(pool.busy for pool in pools),
        drained=sum(pool.drained for pool in pools),
        conditions=conditions,
        endpoints=Endpoints(login=observed.login_address, rest=rest),
        pools=pools,
        queue=queue,
    )


def _pool(cluster: Cluster, observed: Observed, pool: Pool) -> PoolStatus:
    places = seats(cluster, observed, pool)
    known = [seat.slurm for seat in places if seat.slurm is not None and seat.pod is not None]
    problem = pool_problem(cluster, observed, pool)
    return PoolStatus(
        name=pool.name,
        min=pool.nodes.min,
        max=pool.nodes.max,
        desired=pool.nodes.min,
        feasible=len(feasible_nodes(cluster, observed, pool)),
        ready=sum(1 for seat in places if seat.pod and seat.pod.ready and seat.slurm and seat.slurm.usable),
        busy=sum(node.busy for node in known),
        idle=sum(node.usable and not node.busy for node in known),
        drained=sum(node.has("DRAIN") for node in known),
        starting=sum(1 for seat in places if seat.pod and not seat.pod.ready and not seat.pod.deleting),
        reason=problem[1] if problem else "",
    )
