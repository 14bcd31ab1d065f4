"""How many nodes the waiting jobs would fill: for pools whose nodes other work has to leave first."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from slurmcluster_operator.api.pools import Pool
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model.slurm import Job


def demand(cluster: Cluster, pool: Pool, jobs: Iterable[Job]) -> int:
    """Return the nodes of a pool that jobs wait for: enough for the largest, and for all of them side by side.

    Jobs that share nodes count by the largest part of a machine that they ask for.
    """
    able = {partition.name for partition in cluster.partitions if pool.name in partition.pools}
    largest, together = 0, 0.0
    for job in jobs:
        if job.wants_nodes and not job.configuring and able.intersection(job.partitions):
            largest = max(largest, job.node_count)
            together += job.tasks * (job.node_count if job.exclusive else _share(pool, job))
    return max(largest, ceil(together - 1e-9))


def _share(pool: Pool, job: Job) -> float:
    machine = pool.machine
    gpus = job.gpus / machine.gpus.count if machine.gpus else 0.0
    return min(float(job.node_count), max(job.cpus / machine.cpus, gpus)) or float(job.node_count)
