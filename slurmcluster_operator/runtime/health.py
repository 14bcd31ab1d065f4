"""The operator's own HTTP: its health, and slurmctld's word that it wants something.

Alive means that the loops turn, not only that the process exists. Anybody may wake a loop: it only looks earlier.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from slurmcluster_operator.runtime.loop import ClusterLoop

STUCK_SECONDS: Final = 120.0
"""A loop that has not finished a look for so long is stuck: a look's slowest calls take 30 s."""


class HealthServer:
    """Answers ``/healthz`` (loops turn), ``/readyz`` (the first lists are complete), ``/wake/NAMESPACE/NAME``."""

    def __init__(self, loops: Mapping[tuple[str, str], ClusterLoop], synced: Callable[[], bool]) -> None:
        self._loops = loops
        self._synced = synced

    async def serve(self, port: int) -> None:
        """Serve for ever."""
        server = await asyncio.start_server(self._answer, port=port)
        async with server:
            await server.serve_forever()

    def check(self, path: str) -> tuple[int, str]:
        """Return the HTTP status and words for a path."""
        if path == "/readyz":
            return (200, "ready") if self._synced() else (503, "still reading from the API server")
        if path.startswith("/wake/"):
            return self._wake(path)
        if path != "/healthz":
            return 404, "there are /healthz, /readyz and /wake/NAMESPACE/NAME"
        oldest = max((time.monotonic() - loop.finished_at for loop in self._loops.values()), default=0.0)
        return (200, "alive") if oldest < STUCK_SECONDS else (500, f"a loop has been stuck for {oldest:.0f} s")

    def _wake(self, path: str) -> tuple[int, str]:
        namespace, _, name = path.removeprefix("/wake/").partition("/")
        loop = self._loops.get((namespace, name))
        if loop is None:
            return 404, "there is no such SlurmCluster"
        loop.woken.set()
        return 200, "looking now"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = (await asyncio.wait_for(reader.readline(), 5)).decode(errors="replace").split()
            status, words = self.check(line[1] if len(line) > 1 else "")
            body = f"{words}\n".encode()
            writer.write(
                f"HTTP/1.1 {status} -\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
            )
            await writer.drain()
        except (TimeoutError, ConnectionError, UnicodeError):
            pass
        finally:
            writer.close()
