"""Requests and answers of HTTP, as far as a proxy in front of slurmrestd needs them."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import re
import socket
import struct
from dataclasses import dataclass
from urllib.parse import urlsplit

PATIENCE = 60.0
"""Seconds that slurmrestd may take."""
NO_BODY = 304


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    body: bytes
    kind: str = "application/json"

    def write(self, writer: asyncio.StreamWriter, part: float = 1.0) -> None:
        """Send it, or only the first part of its body."""
        reason = http.client.responses.get(self.status, "-")
        head = f"HTTP/1.1 {self.status} {reason}\r\n"
        if self.status != NO_BODY:
            head += f"Content-Type: {self.kind}\r\nContent-Length: {len(self.body)}\r\n"
        writer.write(head.encode() + b"\r\n" + self.body[: int(len(self.body) * part)])


@dataclass(frozen=True)
class Request:
    """What a client wants of slurmrestd."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        """Path and query."""
        parts = urlsplit(self.url)
        return parts.path + (f"?{parts.query}" if parts.query else "")

    @property
    def question(self) -> str:
        """What is asked, whichever answer the client has already."""
        host, path = urlsplit(self.url).netloc, re.sub(r"([?&])update_time=\d*&?", r"\1", self.path)
        return f"{self.method} {host}{path.rstrip('?&')}"

    def ask(self, *, whole: bool = False, token: bool = True) -> Answer:
        """Ask slurmrestd. Blocks."""
        left_out = {"connection", "proxy-connection", "host", "content-length", "transfer-encoding"}
        left_out |= set() if token else {"x-slurm-user-name", "x-slurm-user-token"}
        headers = {name: value for name, value in self.headers.items() if name not in left_out}
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=PATIENCE)
        with contextlib.closing(connection):
            path = self.question.split(parts.netloc, 1)[1] if whole else self.path
            connection.request(self.method, path, self.body or None, headers | {"Connection": "close"})
            response = connection.getresponse()
            return Answer(response.status, response.read(), response.headers.get_content_type())


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection the hard way."""
    peer: socket.socket = writer.get_extra_info("socket")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Read one request; None when the client has gone."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, url, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, url, headers, body)
