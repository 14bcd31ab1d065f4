from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slurmcluster_operator.api.status import SlurmClusterStatus
from slurmcluster_operator.decide.plan import make_plan
from slurmcluster_operator.decide.queue import pool_queues, queue
from slurmcluster_operator.decide.status import compute_status
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model.holds import Memory
from slurmcluster_operator.model.observed import Observed
from slurmcluster_operator.model.slurm import Job
from tests.builders import NOW, cluster, healthy, pool_json, slurm, unknown

MORNING = datetime(2026, 1, 2, 8, tzinfo=UTC)


def job(*state: str, **changes: object) -> Job:
    fields: dict[str, object] = {"partitions": ("gpu",), "reason": "Resources", "submitted": MORNING}
    return Job(1, frozenset(state), **(fields | changes))  # type: ignore[arg-type]


def figures(jobs: tuple[Job, ...]) -> dict[str, Any]:
    """Return what the status says of all jobs."""
    found = queue(cluster(), jobs)
    return {name: getattr(found, name) for name in ("running", "pending", "pending_nodes", "oldest_pending")}


def test_an_array_counts_once_for_each_task_and_only_jobs_that_nodes_would_help_wait_for_them() -> None:
    jobs = (
        job("RUNNING"),
        job("RUNNING", "CONFIGURING"),
        job("PENDING", tasks=50, submitted=MORNING + timedelta(hours=1)),
        job("PENDING", node_count=4),
        job("PENDING", reason="Dependency", node_count=9, submitted=MORNING - timedelta(days=1)),
        job("COMPLETING"),
    )
    assert figures(jobs) == {
        "running": 2,
        "pending": 52,
        "pending_nodes": 54,
        "oldest_pending": "2026-01-02T08:00:00Z",
    }


@pytest.mark.parametrize(
    "reason", ["JobHeldUser", "BeginTime", "Dependency", "AssocGrpCpuLimit", "QOSMaxJobsPerUserLimit"]
)
def test_what_no_node_would_help_asks_for_none(reason: str) -> None:
    found = figures((job("PENDING", reason=reason),))
    assert (found["pending"], found["pending_nodes"], found["oldest_pending"]) == (1, 0, None)


def test_each_partition_and_pool_has_its_own_figures() -> None:
    pools = [pool_json(0, 2), pool_json(0, 2) | {"name": "a100"}]
    partitions = [{"name": "gpu", "pools": ["h100", "a100"]}, {"name": "h100", "pools": ["h100"]}]
    whole = cluster(pools=pools, partitions=partitions)
    jobs = (job("PENDING"), job("PENDING", partitions=("h100",)), job("PENDING", partitions=("gpu", "h100")))
    found = queue(whole, jobs)
    assert found.pending == 3
    assert {one.name: one.pending for one in found.partitions} == {"gpu": 2, "h100": 2}
    assert {pool: one["pending"] for pool, one in pool_queues(whole, jobs).items()} == {"h100": 3, "a100": 2}


def test_a_pools_figures_are_of_the_jobs_that_have_its_nodes_or_could() -> None:
    pools = [pool_json(0, 20), pool_json(0, 2) | {"name": "h100-fat"}, pool_json(0, 2) | {"name": "idle"}]
    partitions = [{"name": "gpu", "pools": ["h100", "h100-fat"]}, {"name": "fat", "pools": ["h100-fat"]}]
    whole = cluster(pools=pools, partitions=partitions)
    jobs = (
        job("RUNNING", nodes="h100-[0-3,7-19]"),
        job("RUNNING", "CONFIGURING", nodes="h100-4,h100-fat-[0-1]"),
        job("RUNNING", nodes="gone-0"),
        job("PENDING", tasks=3, node_count=2),
        job("PENDING", partitions=("gpu", "fat"), submitted=MORNING - timedelta(hours=1)),
        job("PENDING", partitions=("fat", "gone"), reason="Dependency", submitted=MORNING - timedelta(days=1)),
    )
    waits = {"pending": 4, "pending_nodes": 7, "oldest_pending": "2026-01-02T07:00:00Z"}
    assert pool_queues(whole, jobs) == {
        "h100": {"running": 2, **waits},
        "h100-fat": {"running": 1, **waits},
        "idle": {"running": 0, "pending": 0, "pending_nodes": 0, "oldest_pending": None},
    }


def test_while_slurm_does_not_say_a_pool_keeps_its_last_figures() -> None:
    whole = cluster()
    jobs = (job("RUNNING", nodes="h100-[0-1]"), job("PENDING", node_count=2))
    known = replace(healthy(), slurm=replace(slurm(**{"h100-0": "IDLE", "h100-1": "IDLE"}), jobs=jobs))
    now = status(whole, known, SlurmClusterStatus())
    assert (now.pools[0].running, now.pools[0].pending, now.pools[0].pending_nodes) == (1, 1, 2)
    later = status(whole, healthy(slurm=unknown()), now)
    fields = ("running", "pending", "pending_nodes", "oldest_pending")
    assert later.pools[0].model_dump(include=set(fields)) == now.pools[0].model_dump(include=set(fields))
    assert status(whole, healthy(slurm=unknown()), SlurmClusterStatus()).pools[0].running == 0


def status(whole: Cluster, observed: Observed, before: SlurmClusterStatus) -> SlurmClusterStatus:
    return compute_status(whole, observed, make_plan(whole, observed, Memory(), NOW), before, [], NOW, 1)
