"""What the operator of a simulated cluster talks to: slurmrestd, and kubelets that start what it makes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from aiohttp import web

from benchmarks import simulation
from benchmarks.simulation import Json, Place
from slurmcluster_operator.kube.client import Kube, NotFoundError, path_of
from slurmcluster_operator.kube.reflector import Reflector
from slurmcluster_operator.model import names
from slurmcluster_operator.model.hostlist import expand

_START_SECONDS: Final = 1.0
"""How long a pod takes to run once it has been made."""
_AT_ONCE: Final = 32
_PIECE: Final = 1024 * 1024


class Slurm:
    """Answers for slurmrestd. Its clients reach it as their HTTP proxy, whatever address they ask for."""

    def __init__(self, every: Iterable[Place]) -> None:
        self.places = {place.name: place for place in every}
        self.updates: list[Json] = []
        """What was posted, with the path: changes of nodes, comments on jobs."""
        self._records: dict[str, bytes] = {}
        self._changed = 0.0
        self._bodies: dict[str, bytes] = {}
        self.change(self.places.values())

    def change(self, places: Iterable[Place]) -> None:
        """Let nodes be in these conditions from now on."""
        for place in places:
            self.places[place.name] = place
            self._records[place.name] = simulation.encoded(simulation.slurm_node(place))
        self._changed = time.time()
        self._bodies.clear()

    def _update(self, path: str, body: Json) -> None:
        """Take a change of nodes as slurmctld would, as far as drains go."""
        self.updates.append({"path": path, "body": body})
        drains = {"DRAIN", "UNDRAIN", "RESUME"} & set(body.get("state", ()))
        if not drains or "/node" not in path:
            return
        listed = body.get("name") or path.rsplit("/", 1)[-1]
        reason = body.get("reason", "") if "DRAIN" in drains else ""
        known = (self.places[name] for name in expand(listed) if name in self.places)
        self.change([replace(place, drained=reason) for place in known])

    def in_condition(self, condition: str) -> list[Place]:
        """Return the nodes in a condition."""
        return [place for place in self.places.values() if place.condition == condition]

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Serve for as long as the block lasts; yield the address."""
        runner = web.ServerRunner(web.Server(self._answer), shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            host, port = runner.addresses[0]
            yield f"http://{host}:{port}"
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "POST":
            self._update(request.path, json.loads(await request.read() or b"{}"))
            return web.json_response({"errors": []})
        kind = request.path.rstrip("/").rsplit("/", 1)[-1]
        if kind not in {"nodes", "jobs"}:
            return web.json_response({"errors": [], "pings": [{"responding": True}], "clusters": []})
        # As slurmctld does: a second's doubt is a change.
        if int(request.query.get("update_time", 0)) - 1 >= int(self._changed):
            return _not_changed(kind)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        records = memoryview(self._body(kind))
        now = {"set": True, "infinite": False, "number": int(time.time())}
        rest = simulation.encoded({"last_update": now, "errors": []})
        ends = f'{{"{kind}":['.encode(), b"]," + rest[1:]
        response.content_length = sum(map(len, (*ends, records)))
        await response.prepare(request)
        # Piece by piece: one is read while the next is sent.
        await response.write(ends[0])
        for at in range(0, len(records), _PIECE):
            await response.write(records[at : at + _PIECE])
        await response.write(ends[1])
        return response

    def make_answers(self) -> None:
        """Make the large answers before they are asked for: the time that takes is nobody's but the simulation's."""
        for kind in ("nodes", "jobs"):
            self._body(kind)

    def _body(self, kind: str) -> bytes:
        if kind not in self._bodies:
            jobs = simulation.slurm_jobs(list(self.places.values()))
            records = self._records.values() if kind == "nodes" else (_job(*job) for job in jobs)
            self._bodies[kind] = b",".join(records)
        return self._bodies[kind]


@lru_cache(maxsize=10_000)
def _job(number: int, states: tuple[str, ...], nodes: str, reason: str) -> bytes:
    return simulation.encoded(simulation.slurm_job(number, states, nodes, reason))


def _not_changed(kind: str) -> web.Response:
    if kind == "nodes":
        return web.Response(status=304)
    return web.json_response({"jobs": [], "last_update": {"set": True, "number": 0}, "errors": []})


class Kubelets:
    """Reports that pods run, a moment after they were made, and lets slurmctld know their nodes."""

    def __init__(self, kube: Kube, slurm: Slurm) -> None:
        self._kube = kube
        self._slurm = slurm
        self._tasks: set[asyncio.Task[None]] = set()
        self._limit = asyncio.Semaphore(_AT_ONCE)
        path = path_of("v1", "Pod", simulation.NAMESPACE)
        self.pods: Reflector[Mapping[str, Any]] = Reflector(kube, path, _trim, self._look)

    def _look(self, namespace: str, before: object, after: Mapping[str, Any] | None) -> None:
        del namespace
        if after is None or not self.pods.synced.is_set():
            return
        if after["deleting"]:
            self._do(self._end(after))
        elif before is None and after["phase"] == "Pending":
            self._do(self._start(after))

    def _do(self, effect: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(effect)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self, pod: Mapping[str, Any]) -> None:
        async with self._limit:
            with contextlib.suppress(NotFoundError):
                await self._kube.delete("v1", "Pod", simulation.NAMESPACE, pod["name"], uid=pod["uid"], grace=0)

    async def _start(self, pod: Mapping[str, Any]) -> None:
        await asyncio.sleep(_START_SECONDS)
        place = self._slurm.places[pod["node"]]
        async with self._limit:
            status = simulation.pod_status({"spec": pod["spec"]}, place.number, runs=True)
            try:
                await self._kube.merge(
                    "v1", "Pod", simulation.NAMESPACE, pod["name"], {"status": status}, subresource="status"
                )
            except NotFoundError:
                return
        self._slurm.change([replace(place, condition="ALLOCATED")])


def _trim(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = [{"name": one["name"], "image": one["image"]} for one in raw["spec"]["containers"]]
    return {
        "name": raw["metadata"]["name"],
        "node": raw["metadata"].get("labels", {}).get(names.NODE_LABEL, ""),
        "uid": raw["metadata"]["uid"],
        "deleting": "deletionTimestamp" in raw["metadata"],
        "phase": raw.get("status", {}).get("phase", ""),
        "spec": {"containers": containers},
    }
