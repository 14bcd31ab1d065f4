"""What the users of a job are told when Kubernetes is why it waits: ``AdminComment`` in ``scontrol show job``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Final

from slurmcluster_operator.decide.pools import pool_words, stuck
from slurmcluster_operator.decide.seats import Seat, Seats, unsettled
from slurmcluster_operator.decide.starts import start_problem
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model.actions import CommentJob
from slurmcluster_operator.model.holds import Memory
from slurmcluster_operator.model.hostlist import expand
from slurmcluster_operator.model.names import DRAIN_PREFIX
from slurmcluster_operator.model.slurm import Job

AT_ONCE: Final = 20
"""Comments of one look: each is a call to slurmctld."""

_Words = tuple[Mapping[str, str], Mapping[str, str]]
"""By pool: why it cannot start as many nodes as its maximum; and if it can start none, which of its nodes are held."""


def comments(
    cluster: Cluster,
    seats: Seats,
    jobs: tuple[Job, ...],
    memory: Memory,
    closed: Mapping[str, str],
    shared: Mapping[str, str],
    now: datetime,
) -> Iterator[CommentJob]:
    """Yield the comments that differ from what jobs carry. A person's comment is left alone."""
    said = ((pool.name, pool_words(pool.name, seats, memory, closed, shared, now)) for pool in cluster.pools)
    pools = {pool: text for pool, text in said if text}
    held = stuck(seats, memory, closed, now)
    yield from islice(_changes(cluster, seats, jobs, memory, (pools, held)), AT_ONCE)


def _changes(
    cluster: Cluster, seats: Seats, jobs: tuple[Job, ...], memory: Memory, words_of: _Words
) -> Iterator[CommentJob]:
    known = {seat.name: seat for seat in unsettled(seats) if seat.taken}
    for job in jobs:
        ours = job.comment.startswith(DRAIN_PREFIX)
        if (job.comment and not ours) or not (job.pending or job.running):
            continue
        words = _starting(job, known, memory) if job.configuring else _waiting(cluster, job, words_of)
        text = f"{DRAIN_PREFIX} {words}" if words else ""
        if text != job.comment and (text or ours):
            yield CommentJob(job.id, text)


def _starting(job: Job, known: Mapping[str, Seat], memory: Memory) -> str:
    found = (start_problem(known[node], memory) for node in expand(job.nodes) if node in known)
    return "; ".join(list(dict.fromkeys(problem[1] for problem in found if problem))[:3])


def _waiting(cluster: Cluster, job: Job, words_of: _Words) -> str:
    pools, held = words_of
    if not (pools or held) or not job.wants_nodes or job.reason == "Priority":
        return ""
    able = dict.fromkeys(pool for one in cluster.partitions if one.name in job.partitions for pool in one.pools)
    # Nodes that are held matter only where no pool starts another.
    kinds = words_of if all(pool in held for pool in able) else (pools,)
    return "; ".join(known[pool] for pool in able for known in kinds if known.get(pool))
