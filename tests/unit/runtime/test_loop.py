"""When a loop looks again, what wakes it, and how little one look asks of slurmrestd."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from slurmcluster_operator.api.status import PoolStatus, Queue, SlurmClusterStatus
from slurmcluster_operator.model.platform import Platform
from slurmcluster_operator.model.slurm import Slurm
from slurmcluster_operator.operator import Operator
from slurmcluster_operator.runtime import observe
from slurmcluster_operator.runtime.loop import BUSY, QUIET, WAITING, ClusterLoop, pause
from slurmcluster_operator.settings import Settings
from slurmcluster_operator.slurm.client import SlurmRest
from slurmcluster_operator.slurm.tokens import TokenSource
from tests.builders import NOW, cluster, fleet

KUBE: Any = SimpleNamespace()
STARTING = SlurmClusterStatus(
    pools=(PoolStatus(name="h100", min=0, max=2, desired=1, feasible=2, ready=0, starting=1),)
)
PENDING = SlurmClusterStatus(queue=Queue(pending=1, pending_nodes=2))
STILL = SlurmClusterStatus()


@pytest.mark.parametrize(
    ("status", "took", "acted", "seconds"),
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
    status: SlurmClusterStatus, took: float, *, acted: bool, seconds: float
) -> None:
    assert (BUSY, WAITING, QUIET) == (0.5, 2, 5)
    assert pause(status, took, acted=acted) == seconds


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


async def test_one_look_is_one_poll_of_nodes_and_one_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path.removeprefix("/slurm/v0.0.45"))
        return httpx.Response(200, json={"nodes": [{"name": "h100-0", "state": ["IDLE"]}], "jobs": []})

    nothing = SimpleNamespace(of=lambda _: (), find=lambda *_: None)
    kinds = ("pods", "stateful_sets", "deployments", "claims", "services")
    world: Any = SimpleNamespace(**dict.fromkeys(kinds, nothing), version=(0, True, ""))
    monkeypatch.setattr(observe, "see", lambda *_: fleet())
    rest = SlurmRest("http://rest", TokenSource(b"0" * 32), httpx.MockTransport(handle))
    observer = observe.Observer(KUBE, world)
    whole = cluster(accounting={"enabled": False})
    await observer.observe(whole, rest, NOW)
    asked.clear()
    assert isinstance((await observer.observe(whole, rest, NOW)).slurm, Slurm)
    assert sorted(asked) == ["/jobs/", "/nodes/"]
