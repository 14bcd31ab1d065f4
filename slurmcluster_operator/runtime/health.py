"""The operator's own health, over HTTP: alive means that its loops turn, not only that its process exists."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

from slurmcluster_operator.runtime.loop import ClusterLoop

STUCK_SECONDS: Final = 120.0
"""A loop that has not finished a look for so long is stuck: a look's slowest calls take 30 s."""


class HealthServer:
    """Answers ``/healthz`` (loops turn) and ``/readyz`` (the first lists are complete)."""

    def __init__(self, loops: Callable[[], Iterable[ClusterLoop]], synced: Callable[[], bool]) -> None:
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
        if path != "/healthz":
            return 404, "there are /healthz and /readyz"
        oldest = max((time.monotonic() - loop.finished_at for loop in self._loops()), default=0.0)
        return (200, "alive") if oldest < STUCK_SECONDS else (500, f"a loop has been stuck for {oldest:.0f} s")

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
