from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from slurmcluster_operator.decide.queue import figures, queue, waiting_for
from slurmcluster_operator.model.slurm import Job
from tests.builders import cluster, pool_json

MORNING = datetime(2026, 1, 2, 8, tzinfo=UTC)


def job(*state: str, **changes: object) -> Job:
    fields: dict[str, object] = {"partitions": ("gpu",), "reason": "Resources", "submitted": MORNING}
    return Job(1, frozenset(state), **(fields | changes))  # type: ignore[arg-type]


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
    assert figures([job("PENDING", reason=reason)])["pending_nodes"] == 0
    assert figures([job("PENDING", reason=reason)])["oldest_pending"] is None


def test_each_partition_and_pool_has_its_own_figures() -> None:
    pools = [pool_json(0, 2), pool_json(0, 2) | {"name": "a100"}]
    partitions = [{"name": "gpu", "pools": ["h100", "a100"]}, {"name": "h100", "pools": ["h100"]}]
    whole = cluster(pools=pools, partitions=partitions)
    jobs = (job("PENDING"), job("PENDING", partitions=("h100",)), job("PENDING", partitions=("gpu", "h100")))
    found = queue(whole, jobs)
    assert found.pending == 3
    assert {one.name: one.pending for one in found.partitions} == {"gpu": 2, "h100": 2}
    h100, a100 = whole.spec.pools
    assert (waiting_for(whole, h100, jobs), waiting_for(whole, a100, jobs)) == (3, 2)
