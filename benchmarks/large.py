"""The operator as a real process, on a real API server with thousands of nodes that are only written there."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from kubernetes.aio import client as kube_client
from kubernetes.aio import config as kube_config

from benchmarks import simulation
from benchmarks.apiserver import api_server, log_lines, program
from benchmarks.machines import Unpacked, unpack
from benchmarks.simulator import Kubelets, Slurm
from benchmarks.start import CannotMeasureError
from benchmarks.timeline import Spread, verdict
from hack import local
from hack.console import Steps, say, table
from hack.local import BuildFailedError
from hack.shell import capture
from hack.together import end_on_terminate
from slurmcluster_operator.kube.client import Kube
from slurmcluster_operator.model.platform import Platform
from slurmcluster_operator.runtime import secrets

NODES: Final = 10_000
TICK_GOAL: Final = 150.0
MEMORY_GOAL: Final = 150.0
FIRST_PLAN_GOAL: Final = 3.0
STARTS: Final = 3
SETTLE: Final = 10.0
"""Seconds for the API server to come to rest: it has just been told of 20,000 objects."""

_AT_ONCE: Final = 32
_LOOK: Final = re.compile(r"^(\S+ \S+) .*look took (\d+) ms: (.*)$")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_MIB: Final = 1024 * 1024


@dataclass(frozen=True)
class Look:
    """One look, as the operator logged it."""

    ended: float
    """Seconds since the epoch."""
    milliseconds: float
    parts: dict[str, float]

    @classmethod
    def from_line(cls, line: str) -> Look:
        """Read ``2030-01-02 03:04:05,678 DEBUG …: look took 60 ms: observe 10 ms, plan 50 ms``."""
        match = _LOOK.match(line)
        if match is None:
            raise CannotMeasureError(f"not a line about a look: {line}")
        ended = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
        words = (part.split() for part in match[3].split(", "))
        return cls(ended, float(match[2]), {name: float(value) for name, value, _ in words})

    @property
    def planned(self) -> float:
        """When its plan was there, in seconds since the epoch."""
        after = sum(value for name, value in self.parts.items() if name not in {"observe", "plan"})
        return self.ended - after / 1000

    @property
    def deciding(self) -> float:
        """Milliseconds but for the wait for answers and for the API server."""
        return sum(value for name, value in self.parts.items() if name in {"plan", "status"})


@dataclass(frozen=True)
class Process:
    """The operator's process."""

    pid: int
    log: Path
    started: float

    @property
    def memory(self) -> float:
        """Resident memory in MiB."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE / _MIB

    @property
    def peak(self) -> float:
        """The most that it ever was."""
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        return int(found[1]) / 1024 if found else 0.0

    @property
    def processor(self) -> float:
        """Seconds of processor time."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def looks(self, since: float = 0.0) -> list[Look]:
        """Return the looks that ended after a time."""
        looks = [Look.from_line(line) for line in log_lines(self.log, "look took")]
        return [look for look in looks if look.ended > since]


async def connect(kubeconfig: Path) -> Kube:
    """Connect to another API server than the environment's."""
    configuration = kube_client.Configuration()
    await kube_config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    return Kube(kube_client.ApiClient(configuration))


async def seed(kube: Kube, every: Sequence[simulation.Place]) -> None:
    """Write the nodes, the pods, the SlurmCluster and its keys: an operator that starts finds all of it."""
    created = await kube.create(simulation.manifest(len(every)))
    cluster = replace(simulation.cluster(len(every)), uid=created["metadata"]["uid"])
    await secrets.ensure(kube, cluster)
    await _all(kube.create(simulation.kube_node(place)) for place in every)
    pods = [*simulation.part_pods(cluster), *simulation.slurmd_pods(cluster, list(every))]
    await _all(_pod(kube, pod) for pod in pods)


async def _pod(kube: Kube, pod: simulation.Json) -> None:
    status = pod.pop("status")
    await kube.create(pod)
    metadata = pod["metadata"]
    patch = {"status": status}
    await kube.merge("v1", "Pod", metadata["namespace"], metadata["name"], patch, subresource="status")


async def _all(effects: Iterable[Awaitable[Any]]) -> None:
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(effect: Awaitable[Any]) -> None:
        async with limit:
            await effect

    await asyncio.gather(*(one(effect) for effect in effects))


@asynccontextmanager
async def operator(image: Unpacked, kubeconfig: Path, proxy: str, log: Path) -> AsyncIterator[Process]:
    """Run the operator for as long as the block lasts: the one of the image, with the Python of the image."""
    env = {
        **image.env,
        "KUBECONFIG": image.put(kubeconfig),
        "SLURMCLUSTER_REST_PROXY": proxy,
        "SLURMCLUSTER_LOG_LEVEL": "DEBUG",
        "SLURMCLUSTER_HEALTH_PORT": "0",
    }
    with program(log, *image.in_it(), env=env) as process:
        yield Process(process.pid, log, time.time())


async def until(what: str, probe: Callable[[], object], seconds: float) -> float:
    """Wait until something is so; return the seconds that it took."""
    start = time.monotonic()
    while not probe():
        if time.monotonic() - start > seconds:
            raise CannotMeasureError(f"not within {seconds:.0f} s: {what}")
        await asyncio.sleep(0.05)
    return time.monotonic() - start


async def measure(programs: Path, folder: Path, nodes: int, steps: Steps) -> list[tuple[str, str, str, str]]:
    """Run everything; return rows for a table of results."""
    slurm = Slurm(simulation.places(nodes))
    with tempfile.TemporaryDirectory() as files, api_server(programs, folder) as kubeconfig:
        with steps.step("Unpack the operator's image"):
            image = unpack(local.archive("operator"), Path(files) / "operator")
        kubectl = (str(programs / "kubectl"), f"--kubeconfig={kubeconfig}")
        for namespace in (simulation.NAMESPACE, Platform().operator_namespace):
            capture([*kubectl, "create", "namespace", namespace])
        capture([*kubectl, "apply", "--server-side", f"--filename={local.ROOT / 'crds'}"])
        capture([*kubectl, "wait", "--for=condition=Established", "customresourcedefinition", "--all"])
        async with await connect(kubeconfig) as kube:
            with steps.step(f"Write {nodes:,} nodes and their pods"):
                await seed(kube, list(slurm.places.values()))
            return await _observe(kube, image, kubeconfig, slurm, steps)


async def _observe(
    kube: Kube, image: Unpacked, kubeconfig: Path, slurm: Slurm, steps: Steps
) -> list[tuple[str, str, str, str]]:
    kubelets = Kubelets(kube, slurm)
    following = asyncio.create_task(kubelets.pods.run())
    await kubelets.pods.synced.wait()
    asked = len(slurm.places) // 20
    log = kubeconfig.with_name("operator.log")
    async with slurm.served() as proxy, AsyncExitStack() as running:
        with steps.step(f"Start the operator {STARTS} times"):
            await asyncio.sleep(SETTLE)
            starts, spent = [], []
            for _ in range(STARTS):
                await running.aclose()
                process = await running.enter_async_context(operator(image, kubeconfig, proxy, log))
                await until("the first look", process.looks, 120)
                starts.append(process.looks()[0].planned - process.started)
                spent.append(process.processor)
        with steps.step("Watch it for 30 s while nothing changes"):
            await asyncio.sleep(15)  # the first looks write what is not there yet
            quiet = await _window(process, 30)
        with steps.step("Watch it for 30 s while nodes change all the time"):
            churn = asyncio.create_task(_churn(slurm))
            busy = await _window(process, 30)
            churn.cancel()
        steady = process.memory
        with steps.step(f"Let slurmctld ask for {asked:,} nodes at once"):
            since = time.time()
            slurm.change([replace(place, condition="ASKED") for place in slurm.in_condition("OFF")[:asked]])
            started = await until(f"{asked} nodes run", lambda: not slurm.in_condition("ASKED"), 180)
            storm = process.looks(since)
        peak = process.peak
    following.cancel()
    posted = sum(1 for update in slurm.updates if "/node" in update["path"])
    say(f"    changes of nodes that the operator asked slurmctld for: {posted}")
    return [
        verdict("start to first plan", FIRST_PLAN_GOAL, Spread(tuple(starts)), "s"),
        verdict("  processor until the end of the first look", None, Spread(tuple(spent)), "s"),
        *_rows("nothing changes", quiet),
        *_rows("nodes change all the time", busy),
        # Its length is that of making the pods.
        *_look_rows(f"{asked:,} nodes to start", storm, goal=None),
        verdict(f"{asked:,} nodes asked for -> all run", None, Spread((started,)), "s"),
        verdict("memory, steady", MEMORY_GOAL, Spread((steady,)), "MiB"),
        verdict("memory, at most", MEMORY_GOAL, Spread((peak,)), "MiB"),
    ]


@dataclass(frozen=True)
class Window:
    """What happened in a while."""

    looks: list[Look]
    millicores: float


async def _window(process: Process, seconds: float) -> Window:
    since, before = time.time(), process.processor
    await asyncio.sleep(seconds)
    return Window(process.looks(since), (process.processor - before) / seconds * 1000)


async def _churn(slurm: Slurm) -> None:
    """Let jobs come and go: each second, twenty busy nodes become idle and twenty idle ones busy."""
    while True:
        await asyncio.sleep(1)
        idle, busy = slurm.in_condition("IDLE")[:20], slurm.in_condition("ALLOCATED")[:20]
        slurm.change([replace(place, condition="ALLOCATED") for place in idle])
        slurm.change([replace(place, condition="IDLE") for place in busy])
        slurm.make_answers()


def _rows(what: str, window: Window) -> list[tuple[str, str, str, str]]:
    return [
        *_look_rows(what, window.looks),
        verdict("  processor", None, Spread((window.millicores,)), "millicores"),
    ]


def _look_rows(what: str, looks: Sequence[Look], goal: float | None = TICK_GOAL) -> list[tuple[str, str, str, str]]:
    if not looks:
        raise CannotMeasureError(f"{what}: the operator did not look")
    parts = list(looks[0].parts)
    return [
        verdict(f"one look, {what}", goal, Spread(tuple(look.milliseconds for look in looks)), "ms"),
        *(verdict(f"  {part}", None, Spread(tuple(look.parts[part] for look in looks)), "ms") for part in parts),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--keep", type=Path, help="a new folder in which the logs stay")
    options = parser.parse_args(arguments)
    end_on_terminate()
    steps = Steps()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=options.keep is None)
        try:
            local.build()
            rows = asyncio.run(measure(local.programs(), folder.absolute(), options.nodes, steps))
        except (BuildFailedError, CannotMeasureError) as error:
            say(f"\ncannot measure: {error}")
            return 1
    say("\n" + table([("what", "goal", "measured", "ok"), *rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
