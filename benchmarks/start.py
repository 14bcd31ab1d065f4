"""From ``kubectl apply`` to the first job's end, everything switched on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.timeline import Timeline
from hack import demo, local, ssh
from hack.console import INDENT, say, seconds
from hack.kube import Kubectl
from hack.shell import CommandError
from slurmcluster_operator.api.group import API_VERSION, KIND
from slurmcluster_operator.kube.client import Kube, path_of
from slurmcluster_operator.kube.reflector import Reflector

LIMIT: Final = 180.0
"""Seconds after which a start counts as failed."""
_USER: Final = "alice"
_VOLUMES: Final = 3

# The job tells itself when it starts; the clock is the same on all nodes of one machine.
_JOB: Final = """\
set -e
job=$(sbatch --parsable --output=started.out --wrap='date +%s.%N')
until [ "$(squeue -h -t all -j "$job" -o %T)" = COMPLETED ]; do sleep 0.1; done
date +%s.%N
cat started.out
"""

Json = dict[str, Any]


class CannotMeasureError(Exception):
    """The start did not come to its end."""


@dataclass(frozen=True)
class Start:
    """One cluster, made anew in a namespace of its own."""

    kubectl: Kubectl
    example: Json
    nodes: Sequence[str]
    key: Path

    @property
    def name(self) -> str:
        """The SlurmCluster's name."""
        return str(self.example["metadata"]["name"])

    def prepare(self) -> None:
        """Make what has to be there before: namespace, keys, granted nodes."""
        namespace = self.kubectl.namespace
        self.kubectl.apply(*demo.namespace_and_keys(namespace, self.key.with_suffix(".pub").read_text()))
        for node in self.nodes:
            self.kubectl.text("label", "node", node, f"slurmcluster.dev/fleet={namespace}.{self.name}", "--overwrite")

    async def measure(self, kube: Kube) -> dict[str, float]:
        """Apply the example, run a job as soon as the cluster is Ready; return when what was reached."""
        manifest = {**self.example, "metadata": {"name": self.name, "namespace": self.kubectl.namespace}}
        timeline = Timeline(_VOLUMES, sum(pool["nodes"]["min"] for pool in self.example["spec"]["pools"]))
        is_ready = asyncio.Event()
        start = time.time()

        def look(world: _World) -> None:
            timeline.look(time.time() - start, world.claims, world.pods, world.cluster)
            if "Ready" in timeline.marks:
                is_ready.set()

        async with _World.followed(kube, self.kubectl.namespace, look):
            start = time.time()
            await asyncio.to_thread(self.kubectl.text, "apply", "-f", "-", stdin=json.dumps(manifest))
            try:
                async with asyncio.timeout(LIMIT):
                    await is_ready.wait()
                    ended, began = await asyncio.to_thread(self._job)
            except TimeoutError:
                seen = ", ".join(f"{stage} after {spent:.1f} s" for stage, spent in timeline.marks.items())
                raise CannotMeasureError(f"no job ran within {LIMIT:.0f} s; reached: {seen or 'nothing'}") from None
        return {**timeline.marks, "first job RUNNING": began - start, "first job COMPLETED": ended - start}

    def _job(self) -> tuple[float, float]:
        address = self.kubectl.get("slc", self.name)["status"]["endpoints"]["login"]
        host, port = ssh.split_address(address)
        known = self.key.with_name("known_hosts.benchmark")
        known.write_text(ssh.known_hosts(host, port, demo.host_keys(self.kubectl, self.name)))
        output = ssh.Login(host, port, self.key, known).quietly(_USER, "bash -s", stdin=_JOB)
        ended, began = output.split()
        return float(ended), float(began)

    def remove(self) -> float:
        """Delete cluster, namespace and volumes; return the seconds it took until all were gone."""
        start = time.monotonic()
        self.kubectl.text("delete", "slc", self.name, "--timeout=120s")
        self.kubectl.text("delete", "namespace", self.kubectl.namespace, "--timeout=120s")
        return time.monotonic() - start


class _World:
    """The namespace's objects, as they are now."""

    def __init__(self, kube: Kube, namespace: str, look: Callable[[_World], None]) -> None:
        def follow(api_version: str, kind: str) -> Reflector[Mapping[str, Any]]:
            path = path_of(api_version, kind, namespace)
            return Reflector(kube, path, lambda raw: raw, lambda *_: look(self))

        self._claims = follow("v1", "PersistentVolumeClaim")
        self._pods = follow("v1", "Pod")
        self._clusters = follow(API_VERSION, KIND)

    @property
    def claims(self) -> list[Mapping[str, Any]]:
        """All claims."""
        return list(self._claims.items.values())

    @property
    def pods(self) -> list[Mapping[str, Any]]:
        """All pods."""
        return list(self._pods.items.values())

    @property
    def cluster(self) -> Mapping[str, Any] | None:
        """The SlurmCluster."""
        return next(iter(self._clusters.items.values()), None)

    @classmethod
    @asynccontextmanager
    async def followed(cls, kube: Kube, namespace: str, look: Callable[[_World], None]) -> AsyncIterator[_World]:
        """Follow the namespace for as long as the block lasts."""
        world = cls(kube, namespace, look)
        reflectors = (world._claims, world._pods, world._clusters)
        tasks = [asyncio.create_task(one.run()) for one in reflectors]
        try:
            await asyncio.gather(*(one.synced.wait() for one in reflectors))
            yield world
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with contextlib.suppress(asyncio.CancelledError):
                    await task


async def starts(
    kubectl: Kubectl, example: Json, nodes: Sequence[str], runs: int
) -> tuple[list[dict[str, float]], Start]:
    """Start the example several times, each time from nothing; the last one stays, and is returned."""
    key = ssh.make_key(local.demo_folder())
    measured = []
    start: Start | None = None
    async with await Kube.connect() as kube:
        for number in range(1, runs + 1):
            if start is not None:
                say(f"{INDENT}removed in {seconds(start.remove())}")
            start = Start(Kubectl(kubectl.env, f"slurm-benchmark-{number}"), example, nodes, key)
            start.prepare()
            try:
                measured.append(await start.measure(kube))
            except (CommandError, CannotMeasureError):
                start.kubectl.show("get", "slc,pods", "-o", "wide")
                start.remove()
                raise
            say(f"{INDENT}run {number}: the first job ended after {seconds(measured[-1]['first job COMPLETED'])}")
    if start is None:
        raise CannotMeasureError("at least one run is needed")
    return measured, start
