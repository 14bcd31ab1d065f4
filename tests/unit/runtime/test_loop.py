"""When a loop looks again, what wakes it, and how little one look asks of slurmrestd."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from slurmcluster_operator.api.status import PoolStatus, Queue, SlurmClusterStatus
from slurmcluster_operator.model.platform import Platform
from slurmcluster_operator.model.slurm import Slurm, Unknown
from slurmcluster_operator.operator import Operator
from slurmcluster_operator.runtime import observe
from slurmcluster_operator.runtime.loop import BUSY, QUIET, WAITING, ClusterLoop, pause
from slurmcluster_operator.settings import Settings
from slurmcluster_operator.slurm.client import SlurmRest
from slurmcluster_operator.slurm.tokens import TokenSource
from tests.builders import NOW, cluster, fleet, pool_json

KUBE: Any = SimpleNamespace()
STARTING = SlurmClusterStatus(
    pools=(PoolStatus(name="h100", min=0, max=2, desired=1, feasible=2, ready=0, starting=1),)
)
PENDING = SlurmClusterStatus(queue=Queue(pending=1, pending_nodes=2))
STILL = SlurmClusterStatus()


@pytest.mark.parametrize(
    ("status", "took", "moving", "seconds"),
    [
        (STARTING, 0.01, False, BUSY),
        (STILL, 0.01, True, BUSY),
        (PENDING, 0.01, False, WAITING),
        (STILL, 0.01, False, QUIET),
        (STARTING, 1.0, False, 2.0),
        (PENDING, 1.5, False, 3.0),
        (STARTING, 60.0, False, QUIET),
    ],
)
def test_the_next_look_comes_as_soon_as_what_is_under_way_needs_it(
    status: SlurmClusterStatus, took: float, *, moving: bool, seconds: float
) -> None:
    assert (BUSY, WAITING, QUIET) == (0.5, 2, 5)
    assert pause(status, took, moving=moving) == seconds


async def test_a_loop_that_waits_looks_at_once_when_it_is_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    world: Any = SimpleNamespace()
    loop = ClusterLoop(KUBE, world, Platform(), "team", "demo")
    looks: list[float] = []

    async def look() -> float:
        looks.append(time.monotonic())
        return QUIET

    monkeypatch.setattr(loop, "_look", look)
    running = asyncio.create_task(loop.run())
    await asyncio.sleep(0.2)
    assert len(looks) == 1
    loop.woken.set()
    await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.wait([running])
    assert len(looks) == 2


@pytest.mark.parametrize(("namespace", "woken"), [("team", {"one", "two"}), ("", {"one", "two", "far"}), ("x", set())])
def test_a_change_wakes_the_loops_of_its_namespace(namespace: str, woken: set[str]) -> None:
    world: Any = SimpleNamespace()
    operator = Operator(Settings.from_environment({}), KUBE, world)
    loops: dict[tuple[str, str], Any] = {
        key: SimpleNamespace(woken=asyncio.Event()) for key in (("team", "one"), ("team", "two"), ("other", "far"))
    }
    operator._loops.update(loops)
    world.wake(namespace)
    assert {name for (_, name), loop in loops.items() if loop.woken.is_set()} == woken


def observing(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[httpx.Request], Coroutine[None, None, httpx.Response]]
) -> tuple[observe.Observer, SlurmRest]:
    """Return an observer of an empty Kubernetes, and a client of a slurmrestd that answers like this."""
    nothing = SimpleNamespace(of=lambda _: (), find=lambda *_: None)
    kinds = ("pods", "stateful_sets", "deployments", "claims", "services")
    world: Any = SimpleNamespace(**dict.fromkeys(kinds, nothing), version=(0, True, ""))
    monkeypatch.setattr(observe, "see", lambda *_: fleet())
    rest = SlurmRest("http://rest", TokenSource(b"0" * 32), httpx.MockTransport(answer))
    return observe.Observer(KUBE, world), rest


async def test_one_look_is_one_poll_of_nodes_and_one_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    connected = {"controller": {"host": "ctld", "port": 0}, "name": "demo"}

    async def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path.replace("/v0.0.45", ""))
        return httpx.Response(
            200, json={"nodes": [{"name": "h100-0", "state": ["IDLE"]}], "jobs": [], "clusters": [connected]}
        )

    observer, rest = observing(monkeypatch, handle)

    async def look() -> bool | None:
        asked.clear()
        slurm = (await observer.observe(cluster(), rest, NOW)).slurm
        assert isinstance(slurm, Slurm)
        return slurm.accounting_connected

    small = ["/slurm/jobs/", "/slurm/nodes/"]
    assert await look() is False
    assert await look() is False, "until slurmdbd knows slurmctld it is asked each time"
    assert sorted(asked) == [*small, "/slurmdb/clusters/"]
    connected["controller"] = {"host": "ctld", "port": 6817}
    assert await look() is True
    assert await look() is True
    assert sorted(asked) == small
    monkeypatch.setattr(observe, "ACCOUNTING", 0.0)
    observer, rest = observing(monkeypatch, handle)
    assert await look() is True
    assert await look() is True
    assert sorted(asked) == [*small, "/slurmdb/clusters/"], "now and then it is asked again"


async def test_a_slurmrestd_that_hangs_holds_no_look_longer_than_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(request: httpx.Request) -> httpx.Response:
        del request
        await asyncio.sleep(60)
        raise AssertionError

    observer, rest = observing(monkeypatch, handle)
    monkeypatch.setattr(observe, "PATIENCE", 0.3)
    for _ in range(3):
        slurm = (await observer.observe(cluster(), rest, NOW)).slurm
        assert isinstance(slurm, Unknown)
        assert slurm.reason == "slurmrestd did not answer within 0 s"


async def test_large_answers_are_waited_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(request: httpx.Request) -> httpx.Response:
        del request
        await asyncio.sleep(0.1)
        return httpx.Response(200, json={"nodes": [], "jobs": []})

    large = cluster(accounting={"enabled": False}, pools=[pool_json(0, 10_000)])
    observer, rest = observing(monkeypatch, handle)
    monkeypatch.setattr(observe, "PATIENCE", 0.05)
    slurm = (await observer.observe(large, rest, NOW)).slurm
    assert isinstance(slurm, Unknown)
    assert "did not answer within" not in slurm.reason, "it has answered, with too few nodes"
