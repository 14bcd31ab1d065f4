"""The queue in figures, of the whole cluster, each partition and each pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import TypedDict

from slurmcluster_operator.api.status import PartitionQueue, Queue
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model.hostlist import stems
from slurmcluster_operator.model.slurm import Job


class Figures(TypedDict):
    """The fields of ``QueueFigures``, which ``PoolStatus`` has as well."""

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


def pool_queues(cluster: Cluster, jobs: Iterable[Job]) -> dict[str, Figures]:
    """Return each pool's figures: running are the jobs that have a node of it, pending those that wait for one.

    A job whose nodes, or whose partitions, are of several pools counts in each.
    """
    running: Counter[str] = Counter()
    waiting: dict[str, list[Job]] = {pool.name: [] for pool in cluster.spec.pools}
    of_partition = {partition.name: partition.pools for partition in cluster.spec.partitions}
    for job in jobs:
        if job.running:
            running.update(stems(job.nodes))
        elif job.wants_nodes:
            for pool in {pool for name in job.partitions for pool in of_partition.get(name, ())}:
                waiting[pool].append(job)
    found = {pool: figures(several) for pool, several in waiting.items()}
    for pool, each in found.items():
        each["running"] = running[pool]
    return found
