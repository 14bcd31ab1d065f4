"""What one look costs at a size that no test cluster has, but for the network: all that it looks at is in memory.

``python -m benchmarks.scale --profile`` also shows where the time goes.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import io
import pstats
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, TypeVar

import httpx

from benchmarks import simulation
from benchmarks.timeline import Spread, verdict
from hack.console import say, table
from slurmcluster_operator.api.status import SlurmClusterStatus
from slurmcluster_operator.decide.plan import make_plan, resolve
from slurmcluster_operator.decide.status import compute_status
from slurmcluster_operator.kube.client import Kube
from slurmcluster_operator.manifests.build import standing_objects
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model.fleet import KubeNode, Tolerance
from slurmcluster_operator.model.holds import Memory
from slurmcluster_operator.model.kube import Pod
from slurmcluster_operator.model.observed import Observed
from slurmcluster_operator.runtime.enforcement import Enforcement
from slurmcluster_operator.runtime.observe import Observer
from slurmcluster_operator.runtime.world import World
from slurmcluster_operator.slurm.client import SlurmRest
from slurmcluster_operator.slurm.tokens import TokenSource

NODES: Final = 10_000
TICK_GOAL: Final = 150.0
"""Milliseconds."""
_PIECE: Final = 256 * 1024
"""Bytes that asyncio reads from a socket at a time."""

T = TypeVar("T")


@dataclass(frozen=True)
class Timing:
    """How long one part of a look took."""

    part: str
    milliseconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.milliseconds)


def slurmrestd(every: Sequence[simulation.Place]) -> SlurmRest:
    """Return a client whose slurmrestd is in this process."""
    nodes = simulation.encoded({"nodes": [simulation.slurm_node(place) for place in every], "errors": []})
    jobs = simulation.encoded(
        {"jobs": [simulation.slurm_job(*job) for job in simulation.slurm_jobs(every)], "errors": []}
    )

    async def pieces(body: bytes) -> AsyncIterator[bytes]:
        for at in range(0, len(body), _PIECE):
            yield body[at : at + _PIECE]

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        return httpx.Response(200, content=pieces(nodes if "/nodes/" in path else jobs if "/jobs/" in path else b"{}"))

    return SlurmRest("http://slurmrestd", TokenSource(b"k" * 32), httpx.MockTransport(answer))


def observer(cluster: Cluster, every: Sequence[simulation.Place]) -> Observer:
    """Return what looks at the operator's copies of such a cluster's objects."""
    kube = Kube(None)  # it is asked for nothing
    world = World(kube, Tolerance(), Enforcement(kube, (), "", ""))
    world.enforcement.because = ""
    for number, raw in enumerate(simulation.slurmd_pods(cluster, list(every))):
        pod = Pod.from_json(simulation.with_server_fields(raw, number))
        world.pods.items[pod.namespace, pod.name] = pod
    for place in every:
        node = KubeNode.from_json(simulation.kube_node(place))
        world.nodes.items["", node.name] = node
    return Observer(kube, world)


def measure(nodes: int, asked: int, rounds: int, profile: cProfile.Profile | None = None) -> list[Timing]:
    """Time each part of a look on a cluster of so many nodes, ``asked`` of which have just been wanted."""
    cluster = simulation.cluster(nodes)
    every = simulation.places(nodes, asked)
    rest = slurmrestd(every)
    loop = asyncio.new_event_loop()
    now = datetime.now(UTC)
    timings = []

    def timed(part: str, effect: Callable[[], T]) -> T:
        result, taken = _time(effect, rounds, profile)
        timings.append(Timing(part, taken))
        return result

    memory = Memory()
    looking = observer(cluster, every)
    seen = timed("observe, all jobs and nodes", lambda: loop.run_until_complete(looking.observe(cluster, rest, now)))

    def fresh() -> Observed:
        """Return it without what it remembers of itself, which lasts one look."""
        return replace(seen)

    cluster = timed("resolve", lambda: resolve(cluster, fresh(), memory))
    timed("render the standing objects", lambda: standing_objects(cluster))
    plan = timed("plan", lambda: make_plan(cluster, fresh(), memory, now))
    before = SlurmClusterStatus()
    timed("status", lambda: compute_status(cluster, fresh(), plan, before, (), now, 1))
    loop.run_until_complete(rest.close())
    loop.close()
    return timings


def _time(effect: Callable[[], T], rounds: int, profile: cProfile.Profile | None) -> tuple[T, tuple[float, ...]]:
    result = effect()
    taken = []
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        result = effect()
        taken.append((time.process_time() - start) * 1000)
    if profile is not None:
        profile.runcall(effect)
    return result, tuple(taken)


def rows(what: str, timings: Sequence[Timing]) -> list[tuple[str, str, str, str]]:
    """Return rows for a table of results: the whole look beside its goal, then its parts."""
    whole = tuple(sum(parts) for parts in zip(*(timing.milliseconds for timing in timings), strict=True))
    return [
        verdict(what, TICK_GOAL, Spread(whole), "ms"),
        *(verdict(f"  {timing.part}", None, Spread(timing.milliseconds), "ms") for timing in timings),
    ]


def report(nodes: int, rounds: int, profile: cProfile.Profile | None = None) -> list[tuple[str, str, str, str]]:
    """Measure a steady cluster and one that has just been asked for many nodes."""
    asked = nodes // 20
    return [
        *rows(f"a look at {nodes:,} nodes", measure(nodes, 0, rounds, profile)),
        *rows(f"the same, {asked:,} of them to be started", measure(nodes, asked, rounds)),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--rounds", type=int, default=5, help="how often each part is timed")
    parser.add_argument("--profile", action="store_true", help="show the functions that take most of the time")
    options = parser.parse_args(arguments)
    profile = cProfile.Profile() if options.profile else None
    say(table([("what", "goal", "measured", "ok"), *report(options.nodes, options.rounds, profile)]))
    if profile is not None:
        shown = io.StringIO()
        pstats.Stats(profile, stream=shown).sort_stats("tottime").print_stats(30)
        say(shown.getvalue())
    return 0


if __name__ == "__main__":
    sys.exit(main())
