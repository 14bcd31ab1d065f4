from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.e2e.faults.messages import read_request
from tests.e2e.faults.proxy import Proxy
from tests.e2e.faults.wrongs import Fault, FaultError

NODES: list[dict[str, Any]] = [{"name": f"h100-{number}", "state": ["IDLE"]} for number in range(4)]


class Slurmrestd:
    """Answers as slurmrestd does, and counts."""

    def __init__(self) -> None:
        self.nodes = NODES
        self.asked: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        assert request is not None
        self.asked.append(f"{request.method} {request.path}")
        status, content = 200, json.dumps({"nodes": self.nodes, "errors": []})
        if "x-slurm-user-token" not in request.headers:
            status, content = 401, "Authentication failure"
        elif "/jobs/?update_time" in request.path:  # here "no changes" is an answer, unlike for nodes
            content = json.dumps(
                {"jobs": [], "errors": [], "warnings": [{"description": "No job changes since update_time"}]}
            )
        elif "/jobs/" in request.path:
            content = json.dumps({"jobs": [{"job_id": 1}], "errors": []})
        elif "update_time" in request.path:
            status, content = 304, ""
        elif request.method == "POST":
            content = json.dumps({"errors": [], "got": request.body.decode()})
        writer.write(f"HTTP/1.1 {status} -\r\nContent-Length: {len(content)}\r\n\r\n{content}".encode())
        await writer.drain()
        writer.close()


class Setup:
    def __init__(self, proxy: Proxy, slurmrestd: Slurmrestd, client: httpx.AsyncClient, control: str) -> None:
        self.proxy, self.slurmrestd, self.client, self.control = proxy, slurmrestd, client, control

    async def get(self, path: str = "/slurm/v0.0.45/nodes/") -> httpx.Response:
        return await self.client.get(self.slurmrestd.url + path)

    async def nodes(self) -> list[str]:
        return [node["name"] for node in (await self.get()).json()["nodes"]]

    async def set(self, kind: str, **limits: Any) -> None:
        await self.proxy.set([Fault.from_json({"kind": kind, **limits})])


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    slurmrestd = Slurmrestd()
    proxy = Proxy(host="127.0.0.1")
    await proxy.listen()
    upstream = await asyncio.start_server(slurmrestd.serve, "127.0.0.1", 0)
    control = await asyncio.start_server(proxy.control, "127.0.0.1", 0)
    slurmrestd.url = f"http://127.0.0.1:{upstream.sockets[0].getsockname()[1]}"
    headers = {"X-SLURM-USER-NAME": "slurm", "X-SLURM-USER-TOKEN": "token"}
    address = f"http://127.0.0.1:{proxy.port}"
    async with httpx.AsyncClient(proxy=address, trust_env=False, headers=headers, timeout=5) as client:
        yield Setup(proxy, slurmrestd, client, f"http://127.0.0.1:{control.sockets[0].getsockname()[1]}")
    await proxy.close()
    for server in (upstream, control):
        server.close()


async def test_without_a_fault_it_passes_everything_on(setup: Setup) -> None:
    assert await setup.nodes() == ["h100-0", "h100-1", "h100-2", "h100-3"]
    posted = await setup.client.post(setup.slurmrestd.url + "/slurm/v0.0.45/node/h100-1", json={"state": ["DRAIN"]})
    assert json.loads(posted.json()["got"]) == {"state": ["DRAIN"]}
    first, second = setup.proxy.log
    assert (first["method"], first["path"], first["status"], first["fault"]) == (
        "GET", "/slurm/v0.0.45/nodes/", 200, None,
    )  # fmt: skip
    assert json.loads(second["body"]) == {"state": ["DRAIN"]}


async def test_no_change_since_passes_without_a_body(setup: Setup) -> None:
    answer = await setup.get("/slurm/v0.0.45/nodes/?update_time=5")
    assert (answer.status_code, answer.content) == (304, b"")
    assert await setup.nodes()


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("empty", []),
        ("half", ["h100-0", "h100-1"]),
        ("double", ["h100-0", "h100-1", "h100-2", "h100-3"] * 2),
        ("errors", ["h100-0", "h100-1", "h100-2", "h100-3"]),
    ],
)
async def test_a_spoiled_answer_is_made_from_the_whole_real_one(setup: Setup, kind: str, names: list[str]) -> None:
    await setup.set(kind)
    answer = await setup.get("/slurm/v0.0.45/nodes/?flags=ALL&update_time=5")
    assert answer.status_code == 200
    assert [node["name"] for node in answer.json()["nodes"]] == names
    assert bool(answer.json()["errors"]) is (kind == "errors")
    assert setup.slurmrestd.asked == ["GET /slurm/v0.0.45/nodes/?flags=ALL"]


async def test_truncated_looks_complete_to_http_and_cut_does_not(setup: Setup) -> None:
    await setup.set("truncated")
    with pytest.raises(json.JSONDecodeError):
        (await setup.get()).json()
    await setup.set("cut")
    with pytest.raises(httpx.RemoteProtocolError):
        await setup.get()


async def test_statuses_and_pages(setup: Setup) -> None:
    await setup.set("status")
    assert (await setup.get()).status_code == 500
    await setup.set("status", code=503)
    answer = await setup.get()
    assert (answer.status_code, answer.json()["errors"][0]["error"]) == (503, "Service Unavailable")
    await setup.set("html")
    answer = await setup.get()
    assert (answer.status_code, answer.text[:6]) == (200, "<html>")
    assert setup.slurmrestd.asked == []
    await setup.set("unauthorized")
    assert (await setup.get()).status_code == 401


async def test_stale_repeats_what_was_true_before(setup: Setup) -> None:
    await setup.nodes()
    await setup.set("stale")
    setup.slurmrestd.nodes = NODES[:1]
    assert len((await setup.get("/slurm/v0.0.45/nodes/?update_time=5")).json()["nodes"]) == 4
    await setup.proxy.set([])
    assert await setup.nodes() == ["h100-0"]


async def test_no_changes_is_no_answer_to_repeat(setup: Setup) -> None:
    for path in ("/slurm/v0.0.45/jobs/", "/slurm/v0.0.45/jobs/?update_time=5"):
        await setup.get(path)
    await setup.set("stale")
    assert (await setup.get("/slurm/v0.0.45/jobs/")).json()["jobs"] == [{"job_id": 1}]


async def test_stale_without_a_past_begins_with_the_present(setup: Setup) -> None:
    await setup.set("stale")
    assert len(await setup.nodes()) == 4
    setup.slurmrestd.nodes = NODES[:1]
    assert len(await setup.nodes()) == 4


async def test_twice_reaches_slurmrestd_twice(setup: Setup) -> None:
    await setup.set("twice", method="POST")
    await setup.client.post(setup.slurmrestd.url + "/slurm/v0.0.45/node/h100-1", json={})
    await setup.nodes()
    assert [one.split()[0] for one in setup.slurmrestd.asked] == ["POST", "POST", "GET"]


async def test_refused_and_reset_connections(setup: Setup) -> None:
    await setup.nodes()
    await setup.set("refuse")
    for expected in (httpx.RemoteProtocolError, httpx.ConnectError):  # the connection that was open, and a new one
        with pytest.raises(expected):
            await setup.get()
    await setup.set("reset")
    reader, writer = await asyncio.open_connection("127.0.0.1", setup.proxy.port)
    writer.write(b"GET http://127.0.0.1/slurm/ HTTP/1.1\r\n\r\n")
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()
    await setup.proxy.set([])
    assert len(await setup.nodes()) == 4


async def test_a_refusal_ends_by_itself(setup: Setup) -> None:
    await setup.set("refuse", duration=0.2)
    with pytest.raises(httpx.ConnectError):
        await setup.get()
    await asyncio.sleep(0.3)
    assert len(await setup.nodes()) == 4


async def test_a_hang_ends_when_the_fault_is_over(setup: Setup) -> None:
    await setup.set("hang")
    waiting = asyncio.create_task(setup.get())
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await setup.proxy.set([])
    with contextlib.suppress(httpx.ReadError, httpx.RemoteProtocolError):
        await asyncio.wait_for(waiting, 2)
    assert waiting.done()


async def test_a_delay_is_only_a_delay(setup: Setup) -> None:
    await setup.set("delay", seconds=0.3)
    start = time.monotonic()
    assert len(await setup.nodes()) == 4
    assert time.monotonic() - start >= 0.3


async def test_path_count_and_duration_limit_a_fault(setup: Setup) -> None:
    await setup.set("status", path="/nodes/$", count=1)
    assert (await setup.get("/slurm/v0.0.45/jobs/")).status_code == 200
    assert [(await setup.get()).status_code for _ in range(2)] == [500, 200]
    await setup.set("status", duration=0.2)
    assert (await setup.get()).status_code == 500
    await asyncio.sleep(0.25)
    assert (await setup.get()).status_code == 200


async def test_the_first_fault_that_applies_is_taken(setup: Setup) -> None:
    await setup.proxy.set([Fault("status", path="/jobs/", code=503), Fault("status", code=500)])
    assert (await setup.get("/slurm/v0.0.45/jobs/")).status_code == 503
    assert (await setup.get()).status_code == 500


async def test_control(setup: Setup) -> None:
    async with httpx.AsyncClient(base_url=setup.control, trust_env=False) as control:
        assert (await control.put("/faults", json=[{"kind": "empty", "count": 3}])).status_code == 200
        assert await setup.nodes() == []
        assert (await control.get("/faults")).json()[0]["hits"] == 1
        assert (await control.get("/log")).json()[0]["fault"] == "empty"
        await control.delete("/log")
        assert (await control.get("/log")).json() == []
        assert (await control.delete("/faults")).json() == []
        assert len(await setup.nodes()) == 4
        wrongs: list[Any] = [[{"kind": "nonsense"}], [{"kind": "empty", "seconds": 1, "x": 1}], ["empty"], [{}]]
        for wrong in wrongs:
            assert (await control.put("/faults", json=wrong)).status_code == 400
        assert (await control.get("/nowhere")).status_code == 400


def test_what_cannot_be_limited_is_refused() -> None:
    with pytest.raises(FaultError, match="every request"):
        Fault.from_json({"kind": "refuse", "path": "/nodes/"})


async def test_slurmrestd_away_is_a_bad_gateway(setup: Setup) -> None:
    answer = await setup.client.get("http://127.0.0.1:1/slurm/v0.0.45/nodes/")
    assert answer.status_code == 502
