"""The client against real servers on loopback: what a fake transport cannot show."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from slurmcluster_operator.slurm import client
from slurmcluster_operator.slurm.client import ConnectionLostError, SlurmError, SlurmRest
from slurmcluster_operator.slurm.tokens import TokenSource

NODES = b'{"nodes": [' + b",".join(b'{"name": "a-%d", "state": ["IDLE"]}' % one for one in range(50_000)) + b"]}"

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def slurmrestd(talk: Talk) -> AsyncIterator[str]:
    """Serve connections as ``talk`` says; yield the address."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.close()


async def request(reader: asyncio.StreamReader) -> str:
    """Return the next request's first line."""
    return (await reader.readuntil(b"\r\n\r\n")).splitlines()[0].decode()


def answer(body: bytes, length: int | None = None) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body) if length is None else length, body)


@asynccontextmanager
async def connected(url: str, proxy: str = "") -> AsyncIterator[SlurmRest]:
    """Yield a client that knows the API's version already."""
    rest = SlurmRest(url, TokenSource(b"0" * 32), proxy=proxy)
    rest._version = client.VERSIONS[0]
    try:
        yield rest
    finally:
        await rest.close()


async def test_large_answers_come_whole_and_over_one_connection() -> None:
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await request(reader)
            writer.write(answer(NODES))

    async with slurmrestd(talk) as url, connected(url) as rest:
        assert [len(await rest.nodes()) for _ in range(3)] == [50_000] * 3
    assert connections == 1


async def test_a_proxy_is_asked_for_the_whole_address() -> None:
    lines = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.append(await request(reader))
        writer.write(answer(NODES))

    async with slurmrestd(talk) as proxy, connected("http://slurmrestd.example:6820", proxy) as rest:
        await rest.nodes()
    assert lines == [f"GET http://slurmrestd.example:6820/slurm/{client.VERSIONS[0]}/nodes/ HTTP/1.1"]


async def test_half_an_answer_is_a_lost_connection_and_asked_for_again() -> None:
    asked = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await request(reader))
        writer.write(answer(NODES[: len(NODES) // 2], len(NODES)))

    async with slurmrestd(talk) as url, connected(url) as rest:
        with pytest.raises(ConnectionLostError, match="ended the connection"):
            await rest.nodes()
    assert len(asked) == 2


async def test_an_update_whose_answer_is_lost_is_not_sent_again() -> None:
    asked = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await request(reader))
        if "POST" not in asked[-1]:
            writer.write(answer(NODES))
            asked.append(await request(reader))

    async with slurmrestd(talk) as url, connected(url) as rest:
        await rest.nodes()  # so that the connection is one that has been used
        with pytest.raises(SlurmError, match="ended the connection"):
            await rest.update_nodes(("a-1",), ["DRAIN"], "why")
    assert [line.split()[0] for line in asked] == ["GET", "POST"]


async def test_an_answer_in_no_http_is_an_error_in_words() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"slurm_receive_msg: Zero Bytes were transmitted\r\n\r\n")

    async with slurmrestd(talk) as url, connected(url) as rest:
        with pytest.raises(SlurmError, match="slurmrestd ended the connection"):
            await rest.nodes()


async def test_silence_is_an_error_in_words_and_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_DEADLINE", 0.2)
    ended = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(answer(NODES[:1000], len(NODES)))
        await reader.read()
        ended.set()

    async with slurmrestd(talk) as url, connected(url) as rest:
        with pytest.raises(SlurmError, match=r"did not answer GET .*/nodes/ in time"):
            await rest.nodes()
        await asyncio.wait_for(ended.wait(), 5)


async def test_nobody_there_is_an_error_in_words() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        async with connected(url) as rest:
            with pytest.raises(SlurmError, match="slurmrestd cannot be reached"):
                await rest.nodes()
