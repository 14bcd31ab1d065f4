"""The operator's own HTTP: its health, its metrics, and slurmctld's word that it wants something.

Alive means that the loops turn, not only that the process exists. Anybody may wake a loop: it only looks earlier.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from slurmcluster_operator.runtime.loop import ClusterLoop
from slurmcluster_operator.runtime.metrics import CONTENT_TYPE, Metrics

STUCK_SECONDS: Final = 120.0
"""A loop that has not finished a look for so long is stuck: a look's slowest calls take 30 s."""


class Answer(NamedTuple):
    """An HTTP status, what is said, and in which format."""

    status: int
    text: str
    content_type: str = "text/plain; charset=utf-8"


class HealthServer:
    """Answers ``/healthz`` (loops turn), ``/readyz`` (lists are complete), ``/metrics``, ``/wake/NAMESPACE/NAME``.

    ``synced`` tells whether the first lists are complete, ``enforced`` whether the admission policies refuse.
    """

    def __init__(
        self,
        loops: Mapping[tuple[str, str], ClusterLoop],
        synced: Callable[[], bool],
        enforced: Callable[[], bool],
    ) -> None:
        self._loops = loops
        self._synced = synced
        self._metrics = Metrics(loops, enforced)

    async def serve(self, port: int) -> None:
        """Serve for ever."""
        server = await asyncio.start_server(self._answer, port=port)
        async with server:
            await server.serve_forever()

    def check(self, path: str) -> Answer:
        """Return the answer for a path."""
        if path == "/readyz":
            return Answer(200, "ready\n") if self._synced() else Answer(503, "still reading from the API server\n")
        if path == "/metrics":
            return Answer(200, self._metrics.text(), CONTENT_TYPE)
        if path.startswith("/wake/"):
            return self._wake(path)
        if path != "/healthz":
            return Answer(404, "there are /healthz, /readyz, /metrics and /wake/NAMESPACE/NAME\n")
        oldest = max((time.monotonic() - loop.finished_at for loop in self._loops.values()), default=0.0)
        stuck = oldest >= STUCK_SECONDS
        return Answer(500, f"a loop has been stuck for {oldest:.0f} s\n") if stuck else Answer(200, "alive\n")

    def _wake(self, path: str) -> Answer:
        namespace, _, name = path.removeprefix("/wake/").partition("/")
        loop = self._loops.get((namespace, name))
        if loop is None:
            return Answer(404, "there is no such SlurmCluster\n")
        loop.woken.set()
        return Answer(200, "looking now\n")

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = (await asyncio.wait_for(reader.readline(), 5)).decode(errors="replace").split()
            answer = self.check(line[1] if len(line) > 1 else "")
            body = answer.text.encode()
            head = f"Content-Type: {answer.content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write(f"HTTP/1.1 {answer.status} -\r\n{head}".encode() + body)
            await writer.drain()
        except (TimeoutError, ConnectionError, UnicodeError):
            pass
        finally:
            writer.close()
