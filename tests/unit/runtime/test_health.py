from __future__ import annotations

import asyncio
import time
import urllib.request
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from slurmcluster_operator.api.status import FleetStatus, PoolStatus, Queue, SlurmClusterStatus
from slurmcluster_operator.decide.ledger import DoubleClaim
from slurmcluster_operator.runtime.health import STUCK_SECONDS, HealthServer

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

STATUS = SlurmClusterStatus(
    fleet=FleetStatus(granted=7, owned=4, claiming=2, releasing=1, foreign=3, double_claims=2),
    pools=(
        PoolStatus(
            name="h100",
            min=1,
            max=8,
            desired=5,
            feasible=6,
            ready=4,
            busy=3,
            idle=1,
            drained=2,
            starting=1,
            running=10,
            pending=9,
            pending_nodes=13,
        ),
    ),
    queue=Queue(running=11, pending=12),
)
CLAIMS = frozenset({DoubleClaim("w0", "web/shop-1", "words"), DoubleClaim("w1", "web/shop-2", "other words")})


def loop(age: float = 1, **changes: Any) -> Any:
    fields = {"status": STATUS, "double_claims": CLAIMS, "woken": asyncio.Event()}
    return SimpleNamespace(finished_at=time.monotonic() - age, **(fields | changes))


def server(*, synced: bool = True, enforced: bool = True, **loops: Any) -> HealthServer:
    known = {("team", name): one for name, one in loops.items()}
    return HealthServer(known, lambda: synced, lambda: enforced)


def scrape(answering: HealthServer) -> Samples:
    families = text_string_to_metric_families(answering.check("/metrics").text)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def series(found: Samples, name: str, *without: str) -> dict[tuple[str, ...], float]:
    """Return one metric's numbers by the values of its labels, in the order of their names."""
    return {
        tuple(value for key, value in labels if key not in without): number
        for (metric, labels), number in found.items()
        if metric == name
    }


def test_a_loop_that_turns_is_alive_and_one_that_is_stuck_is_not() -> None:
    assert server(demo=loop(1)).check("/healthz").status == 200
    assert server(demo=loop(STUCK_SECONDS + 1), other=loop(1)).check("/healthz").status == 500
    assert server().check("/healthz").status == 200


def test_ready_means_that_the_first_lists_are_complete() -> None:
    assert server().check("/readyz").status == 200
    assert server(synced=False).check("/readyz").status == 503
    assert server().check("/else").status == 404


def test_slurmctld_wakes_its_own_cluster_and_no_other() -> None:
    mine = loop()
    answering = server(demo=mine)
    assert answering.check("/wake/team/other").status == 404
    assert not mine.woken.is_set()
    assert answering.check("/wake/team/demo").status == 200
    assert mine.woken.is_set()


def test_metrics_are_the_figures_of_the_last_status() -> None:
    found = scrape(server(demo=loop()))
    fleet = {("granted",): 7, ("owned",): 4, ("claiming",): 2, ("releasing",): 1, ("foreign",): 3}
    assert series(found, "slurmcluster_fleet_nodes", "namespace", "cluster") == fleet
    assert series(found, "slurmcluster_fleet_double_claims") == {("demo", "team"): 2}
    each = {("demo", "team", "w0", "web/shop-1"): 1, ("demo", "team", "w1", "web/shop-2"): 1}
    assert series(found, "slurmcluster_fleet_double_claim") == each
    states = {"desired": 5, "feasible": 6, "ready": 4, "busy": 3, "idle": 1, "drained": 2, "starting": 1}
    pools = {("h100", state): number for state, number in states.items()}
    assert series(found, "slurmcluster_nodes", "namespace", "cluster") == pools
    jobs = {("demo", "team", "running"): 11, ("demo", "team", "pending"): 12}
    assert series(found, "slurmcluster_jobs") == jobs
    of_pool = {("h100", "running"): 10, ("h100", "pending"): 9}
    assert series(found, "slurmcluster_pool_jobs", "namespace", "cluster") == of_pool
    assert series(found, "slurmcluster_pool_pending_nodes", "namespace", "cluster") == {("h100",): 13}


@pytest.mark.parametrize("enforced", [True, False])
def test_metrics_tell_whether_admission_is_enforced(*, enforced: bool) -> None:
    assert scrape(server(enforced=enforced))["slurmcluster_fleet_enforced", ()] == enforced


def test_a_cluster_that_is_gone_is_gone_from_the_metrics() -> None:
    loops = {("team", "demo"): loop(), ("team", "other"): loop(double_claims=frozenset())}
    answering = HealthServer(loops, lambda: True, lambda: True)
    assert set(series(scrape(answering), "slurmcluster_fleet_double_claims")) == {("demo", "team"), ("other", "team")}
    del loops["team", "demo"]
    left = scrape(answering)
    assert {dict(labels).get("cluster", "other") for _, labels in left} == {"other"}


def test_a_cluster_that_nobody_has_looked_at_has_no_figures() -> None:
    found = scrape(server(demo=loop(status=None, double_claims=frozenset()), other=loop()))
    assert set(series(found, "slurmcluster_fleet_double_claims")) == {("other", "team")}


def test_one_pod_on_a_node_is_one_series_though_two_things_are_wrong_with_it() -> None:
    twice = frozenset({DoubleClaim("w0", "team/demo-h100-0", "one"), DoubleClaim("w0", "team/demo-h100-0", "two")})
    text = server(demo=loop(double_claims=twice)).check("/metrics").text
    assert text.count("slurmcluster_fleet_double_claim{") == 1


async def test_metrics_are_served_in_the_format_that_prometheus_asks_for(unused_tcp_port: int) -> None:
    serving = asyncio.create_task(server(demo=loop()).serve(unused_tcp_port))
    try:
        await asyncio.sleep(0.05)
        with await asyncio.to_thread(urllib.request.urlopen, f"http://127.0.0.1:{unused_tcp_port}/metrics") as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            text = answer.read().decode()
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
    assert 'slurmcluster_fleet_nodes{cluster="demo",namespace="team",state="owned"} 4.0' in text
