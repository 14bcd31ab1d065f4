"""An HTTP proxy in front of slurmrestd that answers wrongly on demand. Standard library only: it runs from a ConfigMap.

    python proxy.py [--port 8080] [--control 8081]

The operator sends whole addresses (``GET http://demo-restapi.team.svc:6820/…``) to ``--port``. Tests set faults over
``--control``, which listens on loopback: ``PUT /faults`` with a JSON list, ``DELETE /faults``, ``GET /faults``,
``GET /log``, ``DELETE /log``.

``wrongs.py`` says what a fault is. The first one that applies to a request is taken.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import re
import sys
import time
from collections import deque
from dataclasses import asdict
from typing import Any

from tests.e2e.faults.messages import Answer, Request, read_request, reset
from tests.e2e.faults.wrongs import MADE_FROM_WHOLE, Fault, FaultError, spoil

PAGE = b"<html><head><title>502 Bad Gateway</title></head><body>bad gateway</body></html>\n"


class Proxy:
    """The proxy and its control."""

    def __init__(self, port: int = 0, host: str = "0.0.0.0") -> None:  # noqa: S104 - other pods must reach it
        self.host, self.port = host, port
        self.faults: list[Fault] = []
        self.log: deque[dict[str, Any]] = deque(maxlen=20_000)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._remembered: dict[str, Answer] = {}
        self._stale: dict[str, Answer] = {}
        self._changed = asyncio.Event()

    async def listen(self) -> None:
        """Take connections, from now on or again."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, self.host, self.port, limit=1 << 20)
            self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Take no connections any more and end those that are open."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for writer in list(self._open):
            writer.close()

    async def set(self, faults: list[Fault]) -> None:
        """Let these be all faults."""
        self.faults = faults
        self._stale = dict(self._remembered)
        self._changed.set()
        self._changed = asyncio.Event()
        if not any(fault.kind == "refuse" for fault in faults):
            await self.listen()
            return
        await self.close()
        duration = next(fault.duration for fault in faults if fault.kind == "refuse")
        if duration is not None:
            asyncio.get_running_loop().call_later(duration, lambda: asyncio.ensure_future(self._reopen(faults)))

    async def _reopen(self, faults: list[Fault]) -> None:
        if self.faults is faults:
            await self.listen()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while (request := await read_request(reader)) is not None:
                if not await self._answer(request, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Answer one request, rightly or wrongly; False ends the connection."""
        fault = next((one for one in self.faults if one.concerns(request.method, request.path)), None)
        start = time.time()
        entry: dict[str, Any] = {
            "at": start,
            "method": request.method,
            "path": request.path,
            "fault": fault and fault.kind,
        }
        entry |= {"body": request.body.decode(errors="replace")} if request.body else {}
        self.log.append(entry)
        if fault is not None:
            fault.hits += 1
            await self._wait(fault)
        kind = fault.kind if fault else ""
        if kind in {"reset", "hang"}:
            reset(writer)
            return False
        answer = await self._make(request, fault)
        entry |= {"status": answer.status, "bytes": len(answer.body), "seconds": time.time() - start}
        answer.write(writer, 0.5 if kind == "cut" else 1.0)
        await writer.drain()
        return kind != "cut"

    async def _wait(self, fault: Fault) -> None:
        if fault.kind == "delay":
            await asyncio.sleep(fault.seconds)
        while fault.kind == "hang" and fault in self.faults and not fault.over:
            left = None if fault.duration is None else fault.since + fault.duration - time.monotonic()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)

    async def _make(self, request: Request, fault: Fault | None) -> Answer:
        kind = fault.kind if fault else ""
        if fault is not None and kind == "status":
            problem = {
                "error_number": fault.code,
                "error": http.client.responses.get(fault.code, ""),
                "source": "fault",
            }
            return Answer(fault.code, json.dumps({"errors": [problem], "warnings": []}).encode())
        if kind == "html":
            return Answer(200, PAGE, "text/html")
        if kind == "stale" and request.question in self._stale:
            return self._stale[request.question]
        try:
            if kind == "twice":
                await asyncio.to_thread(request.ask)
            answer = await asyncio.to_thread(request.ask, whole=kind in MADE_FROM_WHOLE, token=kind != "unauthorized")
        except (OSError, http.client.HTTPException) as error:
            return Answer(502, f"the fault proxy cannot reach slurmrestd: {error}\n".encode(), "text/plain")
        if (
            request.method == "GET"
            and answer.status == http.client.OK
            and b"changes since update_time" not in answer.body
        ):
            self._remembered[request.question] = answer
            if kind == "stale":
                self._stale[request.question] = answer
        return spoil(kind, answer) if kind in MADE_FROM_WHOLE - {"stale", "cut"} else answer

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Obey a test."""
        request = await read_request(reader)
        if request is not None:
            try:
                result = await self._obey(request)
                answer = Answer(200, json.dumps(result).encode())
            except (ValueError, TypeError, re.error) as error:
                answer = Answer(400, json.dumps(str(error)).encode())
            answer.write(writer)
            await writer.drain()
        writer.close()

    async def _obey(self, request: Request) -> Any:
        match request.method, request.path:
            case "PUT", "/faults":
                await self.set([Fault.from_json(one) for one in json.loads(request.body)])
            case "DELETE", "/faults":
                await self.set([])
            case "DELETE", "/log":
                self.log.clear()
            case "GET", "/log":
                return list(self.log)
            case "GET", "/faults":
                pass
            case _:
                raise FaultError(f"there is no {request.method} {request.path}")
        return [asdict(fault) for fault in self.faults]


async def main(port: int, control: int) -> None:
    """Serve for ever."""
    proxy = Proxy(port)
    await proxy.listen()
    server = await asyncio.start_server(proxy.control, "127.0.0.1", control, limit=1 << 20)
    sys.stderr.write(f"proxy on port {proxy.port}, control on port {control}\n")
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--control", type=int, default=8081)
    chosen = parser.parse_args()
    asyncio.run(main(chosen.port, chosen.control))
