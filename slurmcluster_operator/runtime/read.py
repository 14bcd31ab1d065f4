"""From slurmrestd's records to what decisions read."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from slurmcluster_operator.model.slurm import Job, SlurmNode
from slurmcluster_operator.slurm import wire

_ENDED: Final = frozenset({"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"})
_RANGE: Final = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


def to_nodes(nodes: Iterable[wire.Node]) -> dict[str, SlurmNode]:
    """Return the nodes by name."""
    names = ((sys.intern(node.name), node) for node in nodes)
    return {name: SlurmNode(name, _flags(node.state), node.reason) for name, node in names}


def to_jobs(jobs: Iterable[wire.Job]) -> tuple[Job, ...]:
    """Return the jobs that are not over; those that are still being cleaned up are not."""
    return tuple(_job(job) for job in jobs if "COMPLETING" in job.job_state or _ENDED.isdisjoint(job.job_state))


def partitions_of(jobs: Iterable[wire.Job]) -> frozenset[str]:
    """Return the partitions that records of jobs name."""
    return frozenset(name for listed in {job.partition for job in jobs} for name in listed.split(",") if name)


def hosts_of(jobs: Iterable[wire.Job]) -> frozenset[str]:
    """Return the host lists that records of jobs hold."""
    return frozenset(job.nodes for job in jobs if job.nodes)


def _job(job: wire.Job) -> Job:
    submitted = job.submit_time.value
    cpus, gpus = _asked(job.tres_req_str)
    return Job(
        id=job.job_id,
        state=_flags(job.job_state),
        reason=job.state_reason,
        partitions=tuple(filter(None, job.partition.split(","))),
        nodes=job.nodes,
        node_count=max(1, job.node_count.value),
        submitted=datetime.fromtimestamp(submitted, UTC) if submitted else None,
        tasks=_tasks(job.array_task_string),
        requeues=job.batch_flag and job.requeue,
        comment=job.admin_comment,
        cpus=cpus,
        gpus=gpus,
    )


@functools.lru_cache(maxsize=1024)
def _asked(tres: str) -> tuple[int, int]:
    """Return the cores and GPUs in ``cpu=2,mem=1G,node=1,gres/gpu=2``. Thousands of jobs ask for the same."""
    asked = dict(part.partition("=")[::2] for part in tres.split(","))
    return _count(asked.get("cpu", "")), _count(asked.get("gres/gpu", ""))


def _count(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _tasks(text: str) -> int:
    """Count the tasks in ``0-49%8`` or ``1,3,5-9:2``; a job that is no array is one."""
    if not text:
        return 1
    ranges = (match.groups() for match in _RANGE.finditer(text.partition("%")[0]))
    counts = [len(range(int(first), int(last or first) + 1, int(step or 1))) for first, last, step in ranges]
    return sum(counts) or 1


@functools.lru_cache(maxsize=1024)
def _flags(state: tuple[str, ...]) -> frozenset[str]:
    """Thousands of nodes share a handful of states."""
    return frozenset(state)
