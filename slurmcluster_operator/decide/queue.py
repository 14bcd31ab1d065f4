"""The queue in figures, of the whole cluster, each partition and each pool."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple, TypedDict

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
    all_of_them = _Sum()
    partitions = {partition.name: _Sum() for partition in cluster.spec.partitions}
    for job in jobs:
        share = _share(job)
        all_of_them.add(share)
        for name in job.partitions:
            if name in partitions:
                partitions[name].add(share)
    each = tuple(PartitionQueue(name=name, **found.figures) for name, found in partitions.items())
    return Queue(**all_of_them.figures, partitions=each)


class _Share(NamedTuple):
    """What one job adds to the figures: each task of an array counts."""

    running: int
    pending: int
    nodes: int
    waits_since: datetime | None


def _share(job: Job) -> _Share:
    """Count one job; nodes and waiting time only if more nodes would help it."""
    if job.running:
        return _RUNNING
    waits = job.wants_nodes
    nodes = job.node_count * job.tasks if waits else 0
    return _Share(0, job.tasks if job.pending else 0, nodes, job.submitted if waits else None)


_RUNNING: Final = _Share(1, 0, 0, None)


class _Sum:
    """The figures of several jobs."""

    def __init__(self) -> None:
        self.running = self.pending = self.nodes = 0
        self.oldest: datetime | None = None

    def add(self, share: _Share) -> None:
        """Count a job in."""
        self.running += share.running
        self.pending += share.pending
        self.nodes += share.nodes
        since = share.waits_since
        if since is not None and (self.oldest is None or since < self.oldest):
            self.oldest = since

    @property
    def figures(self) -> Figures:
        """What the status says."""
        return Figures(
            running=self.running,
            pending=self.pending,
            pending_nodes=self.nodes,
            oldest_pending=self.oldest.strftime("%Y-%m-%dT%H:%M:%SZ") if self.oldest else None,
        )


NO_FIGURES: Final = _Sum().figures
"""Those of no job."""


def pool_queues(cluster: Cluster, jobs: Iterable[Job]) -> dict[str, Figures]:
    """Return each pool's figures: running are the jobs that have a node of it, pending those that wait for one.

    A job whose nodes, or whose partitions, are of several pools counts in each.
    """
    found = {pool.name: _Sum() for pool in cluster.spec.pools}
    of_partition = {partition.name: partition.pools for partition in cluster.spec.partitions}
    for job in jobs:
        if job.running:
            pools = stems(job.nodes)
        elif job.wants_nodes:
            pools = frozenset(pool for name in job.partitions for pool in of_partition.get(name, ()))
        else:
            continue
        share = _share(job)
        for pool in pools:
            if pool in found:
                found[pool].add(share)
    return {pool: each.figures for pool, each in found.items()}
