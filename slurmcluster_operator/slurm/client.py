"""The slurmrestd client.

Every call either returns a complete, error-free answer or raises ``SlurmError``. HTTP 200 with ``errors[]`` is a
failure. Callers turn failures into Unknown: nothing may be concluded from the lack of an answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import httpx
import msgspec
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from slurmcluster_operator.model.hostlist import compress
from slurmcluster_operator.slurm import wire
from slurmcluster_operator.slurm.tokens import TokenSource
from slurmcluster_operator.slurm.transport import AiohttpTransport

VERSIONS: Final = ("v0.0.45", "v0.0.44", "v0.0.43", "v0.0.42")
"""API versions that we speak, the best first. Slurm 26.05 answers all of them, 24.11 only the last."""

_DEADLINE: Final = httpx.Timeout(10.0, connect=2.0)
_UNAUTHORIZED: Final = (401, 403)

R = TypeVar("R", bound=wire.Reply)


class SlurmError(Exception):
    """slurmrestd gave no usable answer; ``str()`` says why in words."""


class ConnectionLostError(SlurmError):
    """The connection broke before the answer was complete: slurmrestd may have restarted."""


class SlurmRest:
    """One cluster's slurmrestd."""

    def __init__(
        self, url: str, tokens: TokenSource, transport: httpx.AsyncBaseTransport | None = None, proxy: str = ""
    ) -> None:
        self._tokens = tokens
        self._version = ""
        self._nodes: wire.NodesReply | None = None
        self._jobs: wire.JobsReply | None = None
        self._http = httpx.AsyncClient(
            base_url=url, timeout=_DEADLINE, transport=transport or AiohttpTransport(proxy), trust_env=False
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def nodes(self, expected: int = 1) -> tuple[wire.Node, ...]:
        """Return all nodes. An empty list is an error: no cluster of ours is without nodes.

        slurmctld is asked for changes since its last answer; that there are none makes that answer a fresh one. An
        answer with fewer nodes than ``expected`` is not built upon: the next question is for all of them again.
        """
        before, self._nodes = self._nodes, None
        reply = await self._get(wire.NodesReply, "slurm", f"nodes/{_since(before, '?')}")
        if reply is None and before is not None:
            reply = before
        if reply is None or not reply.nodes:
            raise SlurmError("slurmrestd returned an empty list of nodes, which cannot be")
        self._nodes = reply if len(reply.nodes) >= expected else None
        return reply.nodes

    async def jobs(self) -> tuple[wire.Job, ...]:
        """Return all jobs that slurmctld remembers.

        Without flags slurmrestd would list every core of every node of every running job: 40 KB a machine.
        """
        before, self._jobs = self._jobs, None
        reply = await self._get(wire.JobsReply, "slurm", f"jobs/?flags=ALL{_since(before, '&')}")
        if before is not None and (reply is None or not reply.last_update.value):
            # Unlike for nodes, "no changes" is an empty list without a time here.
            reply = before
        if reply is None:
            raise SlurmError("slurmrestd says that no job has changed, but was not asked for changes")
        self._jobs = reply
        return reply.jobs

    async def registered(self, cluster: str) -> bool:
        """Tell whether slurmdbd has a live connection from the cluster's slurmctld."""
        reply = await self._get(wire.ClustersReply, "slurmdb", "clusters/")
        return reply is not None and any(one.name == cluster and one.controller.port != 0 for one in reply.clusters)

    async def update_nodes(self, nodes: tuple[str, ...], states: list[str], reason: str = "") -> None:
        """Set state flags (``DRAIN``, ``POWER_UP``…) on nodes, all in one call.

        slurmctld changes the nodes that it can, also when it refuses others: after an error only the next look tells.
        """
        listed = compress(nodes)
        try:
            await self._call(wire.Reply, "POST", "slurm", "nodes/", wire.node_update(listed, states, reason))
        except SlurmError as error:
            raise SlurmError(f"{listed} cannot be set to {'+'.join(states)}: {error}") from error

    async def records(self, path: str, key: str) -> list[dict[str, Any]]:
        """Return whole records, as they are: for people to look at, not to decide upon."""
        version = self._version or await self._negotiate()
        content = bytearray()
        status = await self._send("GET", f"/slurm/{version}/{path}", None, content.extend)
        reading = wire.Reading(wire.Reply)
        reading.feed(content)
        _finish(reading, status)
        found: list[dict[str, Any]] = msgspec.json.decode(content)[key]
        return found

    async def comment(self, job: int, text: str) -> None:
        """Set the administrator's comment of a job."""
        await self._call(wire.Reply, "POST", "slurm", f"job/{job}", {"admin_comment": text})

    async def _get(self, kind: type[R], family: str, path: str) -> R | None:
        """Read, once more after a moment if the connection broke. None means: not changed."""
        async for attempt in AsyncRetrying(
            stop=stop_after_attempt(2),
            wait=wait_fixed(0.2),
            retry=retry_if_exception_type(ConnectionLostError),
            reraise=True,
        ):
            with attempt:
                return await self._call(kind, "GET", family, path)
        raise AssertionError("unreachable")

    async def _call(
        self, kind: type[R], method: str, family: str, path: str, body: dict[str, Any] | None = None
    ) -> R | None:
        version = self._version or await self._negotiate()
        reading = wire.Reading(kind)
        status = await self._send(method, f"/{family}/{version}/{path}", body, reading.feed)
        return None if status == httpx.codes.NOT_MODIFIED else _finish(reading, status)

    async def _negotiate(self) -> str:
        """Find the best API version that slurmrestd serves, by asking it for a ping in each."""
        for version in VERSIONS:
            reading = wire.Reading(wire.Reply)
            status = await self._send("GET", f"/slurm/{version}/ping/", None, reading.feed)
            if status == httpx.codes.OK:
                self._version = version
                return version
            if status != httpx.codes.NOT_FOUND:
                _finish(reading, status)
        raise SlurmError(f"slurmrestd speaks none of {', '.join(VERSIONS)}")

    async def _send(self, method: str, path: str, body: dict[str, Any] | None, take: Callable[[bytes], None]) -> int:
        """Return the status. The body is given to ``take`` as it comes: it can be large."""
        headers = {"X-SLURM-USER-NAME": self._tokens.user, "X-SLURM-USER-TOKEN": self._tokens.token(time.time())}
        try:
            async with self._http.stream(method, path, json=body, headers=headers) as response:
                async for chunk in response.aiter_bytes():
                    take(chunk)
        except httpx.RemoteProtocolError as error:
            raise ConnectionLostError(f"slurmrestd ended the connection: {error}") from error
        except httpx.TimeoutException as error:
            raise SlurmError(f"slurmrestd did not answer {method} {path} in time") from error
        except httpx.HTTPError as error:
            raise SlurmError(f"slurmrestd cannot be reached: {error}") from error
        if response.status_code in _UNAUTHORIZED:
            self._tokens.forget()
        return response.status_code


def _since(before: wire.NodesReply | wire.JobsReply | None, sign: str) -> str:
    """Return the query that asks for changes since an answer."""
    return f"{sign}update_time={before.last_update.value}" if before is not None and before.last_update.value else ""


def _finish(reading: wire.Reading[R], status: int) -> R:
    failed = httpx.codes.is_error(status)
    try:
        reply = reading.reply()
    except msgspec.DecodeError as error:
        if failed:
            raise SlurmError(f"slurmrestd answered HTTP {status}: {reading.beginning}") from error
        raise SlurmError(f"slurmrestd answered something else than expected: {error}") from error
    if reply.errors:
        raise SlurmError("; ".join(str(problem) for problem in reply.errors))
    if failed:
        raise SlurmError(f"slurmrestd answered HTTP {status}")
    return reply
