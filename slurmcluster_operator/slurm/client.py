"""The slurmrestd client.

Every call either returns a complete, error-free answer or raises ``SlurmError``. HTTP 200 with ``errors[]`` is a
failure. Callers turn failures into Unknown: nothing may be concluded from the lack of an answer.
"""

from __future__ import annotations

import time
from typing import Any, Final, TypeVar

import httpx
from pydantic import ValidationError
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from slurmcluster_operator.slurm import wire
from slurmcluster_operator.slurm.tokens import TokenSource

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

    def __init__(self, url: str, tokens: TokenSource, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._tokens = tokens
        self._version = ""
        # Connections are not kept: a restarted slurmrestd would be met with a dead one first.
        limits = httpx.Limits(max_keepalive_connections=2, keepalive_expiry=20)
        self._http = httpx.AsyncClient(
            base_url=url, timeout=_DEADLINE, limits=limits, transport=transport, trust_env=False
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def nodes(self) -> tuple[wire.Node, ...]:
        """Return all nodes. An empty list is an error: no cluster of ours is without nodes."""
        reply = await self._get(wire.NodesReply, "slurm", "nodes/")
        if not reply.nodes:
            raise SlurmError("slurmrestd returned an empty list of nodes, which cannot be")
        return reply.nodes

    async def diag(self) -> wire.Statistics:
        """Return slurmctld's own figures."""
        return (await self._get(wire.DiagReply, "slurm", "diag/")).statistics

    async def registered(self, cluster: str) -> bool:
        """Tell whether slurmdbd has a live connection from the cluster's slurmctld."""
        reply = await self._get(wire.ClustersReply, "slurmdb", "clusters/")
        return any(one.name == cluster and one.controller.port != 0 for one in reply.clusters)

    async def update_nodes(self, nodes: tuple[str, ...], states: list[str], reason: str = "") -> None:
        """Set state flags (``DRAIN``, ``POWER_UP``…) on nodes, one call for each, so that a failure names its node."""
        failures = []
        for node in nodes:
            try:
                await self._call(wire.Reply, "POST", "slurm", f"node/{node}", wire.node_update(states, reason))
            except SlurmError as error:
                failures.append(f"{node}: {error}")
        if failures:
            raise SlurmError("; ".join(failures))

    async def _get(self, kind: type[R], family: str, path: str) -> R:
        """Read, once more after a moment if the connection broke."""
        async for attempt in AsyncRetrying(
            stop=stop_after_attempt(2),
            wait=wait_fixed(0.2),
            retry=retry_if_exception_type(ConnectionLostError),
            reraise=True,
        ):
            with attempt:
                return await self._call(kind, "GET", family, path)
        raise AssertionError("unreachable")

    async def _call(self, kind: type[R], method: str, family: str, path: str, body: dict[str, Any] | None = None) -> R:
        version = self._version or await self._negotiate()
        response = await self._send(method, f"/{family}/{version}/{path}", body)
        return _parse(kind, response)

    async def _negotiate(self) -> str:
        """Find the best API version that slurmrestd serves, by asking it for a ping in each."""
        for version in VERSIONS:
            response = await self._send("GET", f"/slurm/{version}/ping/", None)
            if response.status_code == httpx.codes.OK:
                self._version = version
                return version
            if response.status_code != httpx.codes.NOT_FOUND:
                _parse(wire.Reply, response)
        raise SlurmError(f"slurmrestd speaks none of {', '.join(VERSIONS)}")

    async def _send(self, method: str, path: str, body: dict[str, Any] | None) -> httpx.Response:
        headers = {"X-SLURM-USER-NAME": self._tokens.user, "X-SLURM-USER-TOKEN": self._tokens.token(time.time())}
        try:
            response = await self._http.request(method, path, json=body, headers=headers)
        except httpx.RemoteProtocolError as error:
            raise ConnectionLostError(f"slurmrestd ended the connection: {error}") from error
        except httpx.TimeoutException as error:
            raise SlurmError(f"slurmrestd did not answer {method} {path} in time") from error
        except httpx.HTTPError as error:
            raise SlurmError(f"slurmrestd cannot be reached: {error}") from error
        if response.status_code in _UNAUTHORIZED:
            self._tokens.forget()
        return response


def _parse(kind: type[R], response: httpx.Response) -> R:
    try:
        reply = kind.model_validate_json(response.content)
    except ValidationError as error:
        if response.is_error:
            raise SlurmError(f"slurmrestd answered HTTP {response.status_code}: {response.text[:200]}") from error
        raise SlurmError(f"slurmrestd answered something else than expected: {error.errors()[0]['msg']}") from error
    if reply.errors:
        raise SlurmError("; ".join(str(problem) for problem in reply.errors))
    if response.is_error:
        raise SlurmError(f"slurmrestd answered HTTP {response.status_code}")
    return reply
