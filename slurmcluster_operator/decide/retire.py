"""Pools and partitions that the spec no longer has: slurm.conf keeps them until nothing refers to them.

slurmctld ends the jobs of a partition that vanishes, and loses a node that vanishes together with its job.
"""

from __future__ import annotations

from collections.abc import Iterator

from slurmcluster_operator.api.pools import NodeCount, Partition, Pool
from slurmcluster_operator.manifests.cluster import Cluster, Queues
from slurmcluster_operator.model import names
from slurmcluster_operator.model.observed import Observed
from slurmcluster_operator.model.slurm import Slurm

_NOTHING = NodeCount.model_construct(min=0, max=0, warm=0, max_starting=None)
"""A pool that goes: each of its seats is one too many, and empties as its job ends."""


def retired(cluster: Cluster, observed: Observed, before: Queues) -> Queues:
    """Return what slurm.conf had before, the spec no longer has, and pods or jobs still have."""
    pools = {pool.name for pool in cluster.spec.pools}
    partitions = {partition.name for partition in cluster.spec.partitions}
    kept = tuple(
        pool.model_copy(update={"nodes": _NOTHING})
        for pool in before.pools
        if pool.name not in pools and cluster.sizes.get(pool.name) and _pool_in_use(pool, observed)
    )
    known = {pool.name for pool in (*cluster.spec.pools, *kept)}
    return Queues(
        pools=kept,
        partitions=tuple(
            _closed(partition, known)
            for partition in before.partitions
            if partition.name not in partitions and _partition_in_use(partition, observed)
        ),
    )


def retiring(cluster: Cluster, observed: Observed) -> Iterator[str]:
    """Say what is kept although the spec no longer has it, and until when."""
    for pool in cluster.retired.pools:
        pods = sum(pod.pool == pool.name for pod in observed.of(names.SLURMD))
        yield f"pool {pool.name} is no longer in spec.pools; it takes no jobs, and goes when its {pods} pods are idle"
    for partition in cluster.retired.partitions:
        yield (
            f"partition {partition.name} is no longer in spec.partitions; it takes and starts no jobs, and goes when"
            f" slurmctld has forgotten its last one (squeue -p {partition.name} -t all)"
        )


def _pool_in_use(pool: Pool, observed: Observed) -> bool:
    if any(pod.pool == pool.name for pod in observed.of(names.SLURMD)):
        return True
    slurm = observed.slurm
    # Nobody says that no job is there.
    if not isinstance(slurm, Slurm) or slurm.jobs is None:
        return True
    return any(f"{pool.name}-" in hosts for hosts in slurm.job_hosts)


def _partition_in_use(partition: Partition, observed: Observed) -> bool:
    slurm = observed.slurm
    return not isinstance(slurm, Slurm) or slurm.jobs is None or partition.name in slurm.job_partitions


def _closed(partition: Partition, known: set[str]) -> Partition:
    pools = tuple(name for name in partition.pools if name in known)
    return partition.model_copy(update={"pools": pools, "state": "INACTIVE", "default": False})
