"""How many nodes the waiting jobs would fill: for pools whose nodes other work has to leave first."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from slurmcluster_operator.api.pools import Pool
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model.slurm import Job


def demand(cluster: Cluster, pool: Pool, jobs: Iterable[Job]) -> int:
    """Return the nodes of a pool that jobs wait for: enough for the largest, and for all of them side by side.

    ``jobs`` are those that wait for nodes.
    Jobs count by the largest part of a machine that they ask for, and by whole machines in exclusive partitions. What
    sbatch's ``--exclusive`` asks for beyond that slurmrestd does not tell: such jobs get their nodes one after another.
    """
    able = {partition.name: partition for partition in cluster.partitions if pool.name in partition.pools}
    largest, together = 0, 0.0
    for job in jobs:
        chosen = [able[name] for name in job.partitions if name in able]
        if chosen:
            largest = max(largest, job.node_count)
            whole = all(partition.over_subscribe == "EXCLUSIVE" for partition in chosen)
            together += job.tasks * (job.node_count if whole else _share(pool, job))
    return max(largest, ceil(together - 1e-9))


def _share(pool: Pool, job: Job) -> float:
    machine = pool.machine
    gpus = job.gpus / machine.gpus.count if machine.gpus else 0.0
    return min(float(job.node_count), max(job.cpus / machine.cpus, gpus)) or float(job.node_count)
