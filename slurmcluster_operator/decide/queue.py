"""The queue in figures, of the whole cluster, each partition and each pool."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypedDict

from slurmcluster_operator.api.pools import Pool
from slurmcluster_operator.api.status import PartitionQueue, Queue
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model.slurm import Job


class Figures(TypedDict):
    """The fields of ``QueueFigures``."""

    running: int
    pending: int
    pending_nodes: int
    oldest_pending: str | None


def queue(cluster: Cluster, jobs: tuple[Job, ...]) -> Queue:
    """Return the figures of all jobs that slurmctld remembers."""
    partitions = tuple(
        PartitionQueue(name=partition.name, **figures(job for job in jobs if partition.name in job.partitions))
        for partition in cluster.spec.partitions
    )
    return Queue(**figures(jobs), partitions=partitions)


def figures(jobs: Iterable[Job]) -> Figures:
    """Count jobs: each task of an array once; nodes and waiting times only of those that more nodes would help."""
    running = pending = nodes = 0
    oldest: datetime | None = None
    for job in jobs:
        if job.running:
            running += 1
        elif job.pending:
            pending += job.tasks
        if job.wants_nodes and not job.configuring:
            nodes += job.node_count * job.tasks
            if job.submitted is not None:
                oldest = min(oldest or job.submitted, job.submitted)
    return Figures(
        running=running,
        pending=pending,
        pending_nodes=nodes,
        oldest_pending=oldest.strftime("%Y-%m-%dT%H:%M:%SZ") if oldest else None,
    )


def waiting_for(cluster: Cluster, pool: Pool, jobs: Iterable[Job]) -> int:
    """Return how many jobs wait that could run on a pool."""
    able = {partition.name for partition in cluster.spec.partitions if pool.name in partition.pools}
    return sum(
        job.tasks for job in jobs if job.wants_nodes and not job.configuring and able.intersection(job.partitions)
    )
