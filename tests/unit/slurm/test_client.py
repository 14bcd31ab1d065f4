from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import jwt
import pytest

from slurmcluster_operator.slurm.client import SlurmError, SlurmRest
from slurmcluster_operator.slurm.tokens import LIFESPAN, TokenSource

KEY = b"0123456789abcdef0123456789abcdef"
Handler = Callable[[httpx.Request], httpx.Response]


def rest(handler: Handler) -> SlurmRest:
    return SlurmRest("http://rest", TokenSource(KEY), httpx.MockTransport(handler))


def answering(version: str, payload: Any, status: int = 200) -> Handler:
    """Serve one API version: pings, and ``payload`` for all else."""

    def handle(request: httpx.Request) -> httpx.Response:
        if f"/{version}/" not in request.url.path:
            return httpx.Response(404, json={"errors": [{"error": "not found"}]})
        if request.url.path.endswith("/ping/"):
            return httpx.Response(200, json={"pings": [{"hostname": "c", "responding": True}]})
        return httpx.Response(status, json=payload)

    return handle


@pytest.mark.parametrize("version", ["v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45"])
async def test_each_api_version_is_found(version: str) -> None:
    nodes = await rest(answering(version, {"nodes": [{"name": "h100-0", "state": ["IDLE"]}]})).nodes()
    assert [(node.name, node.state) for node in nodes] == [("h100-0", ("IDLE",))]


async def test_the_newest_version_is_taken_and_asked_for_once() -> None:
    seen = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.path)
        return httpx.Response(200, json={"nodes": [{"name": "a", "state": []}]})

    client = rest(handle)
    await client.nodes()
    await client.nodes()
    assert seen == ["/slurm/v0.0.45/ping/", "/slurm/v0.0.45/nodes/", "/slurm/v0.0.45/nodes/"]


@pytest.mark.parametrize(
    ("status", "payload", "words"),
    [
        (
            200,
            {"nodes": [{"name": "a", "state": []}], "errors": [{"error": "E", "description": "half a list"}]},
            "E: half a list",
        ),
        (200, {"nodes": []}, "empty list"),
        (200, {}, "something else"),
        (200, {"nodes": "none"}, "something else"),
        (500, {"nodes": [{"name": "a", "state": []}]}, "HTTP 500"),
        (401, {"errors": [{"error": "Authentication failure"}]}, "Authentication failure"),
    ],
)
async def test_only_a_complete_and_error_free_answer_is_one(status: int, payload: Any, words: str) -> None:
    with pytest.raises(SlurmError, match=words):
        await rest(answering("v0.0.44", payload, status)).nodes()


async def test_an_answer_that_is_not_json_is_an_error() -> None:
    client = rest(lambda request: httpx.Response(502, text="<html>bad gateway</html>"))
    with pytest.raises(SlurmError, match="HTTP 502"):
        await client.nodes()


@pytest.mark.parametrize(
    "error", [httpx.ConnectError("refused"), httpx.ReadTimeout("slow"), httpx.RemoteProtocolError("cut")]
)
async def test_no_answer_is_an_error_in_words(error: httpx.HTTPError) -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(SlurmError, match="slurmrestd"):
        await rest(handle).nodes()


async def test_a_read_is_tried_again_when_the_connection_broke() -> None:
    calls = []

    def handle(request: httpx.Request) -> httpx.Response:
        calls.append(request)
        if len(calls) == 1:
            raise httpx.RemoteProtocolError("cut")
        return httpx.Response(200, json={"nodes": [{"name": "a", "state": []}]})

    assert len(await rest(handle).nodes()) == 1


async def test_an_update_is_never_sent_twice() -> None:
    posts = []

    def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            posts.append(json.loads(request.content))
            raise httpx.RemoteProtocolError("cut")
        return httpx.Response(200, json={"pings": []})

    with pytest.raises(SlurmError):
        await rest(handle).update_nodes(("a",), ["DRAIN"], "why")
    assert posts == [{"name": "a", "state": ["DRAIN"], "reason": "why"}]


async def test_all_nodes_of_an_update_are_told_in_one_call() -> None:
    sent = []

    def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            sent.append((request.url.path, json.loads(request.content)))
        return httpx.Response(200, json={})

    await rest(handle).update_nodes(("h100-0", "h100-1", "h100-5", "a100-2"), ["UNDRAIN"])
    assert sent == [("/slurm/v0.0.45/nodes/", {"name": "h100-[0-1,5],a100-2", "state": ["UNDRAIN"]})]


async def test_a_refused_update_names_the_nodes_and_the_state() -> None:
    client = rest(lambda request: httpx.Response(200, json={"errors": [{"error": "no such node"}]}))
    client._version = "v0.0.45"
    with pytest.raises(SlurmError, match=r"a-\[0-1\] cannot be set to DRAIN: no such node"):
        await client.update_nodes(("a-0", "a-1"), ["DRAIN"], "why")


def changing(*answers: httpx.Response) -> tuple[list[str], Handler]:
    """Answer pings, then one answer after the other; also return the queries that came."""
    queries: list[str] = []
    left = iter(answers)

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/ping/"):
            return httpx.Response(200, json={})
        queries.append(request.url.query.decode())
        return next(left)

    return queries, handle


def nodes_json(*names: str, at: int = 7) -> dict[str, Any]:
    return {"nodes": [{"name": name, "state": []} for name in names], "last_update": {"set": True, "number": at}}


async def test_slurmctld_is_asked_for_changes_and_that_there_are_none_is_an_answer() -> None:
    queries, handle = changing(httpx.Response(200, json=nodes_json("a", "b")), httpx.Response(304))
    client = rest(handle)
    first = await client.nodes(2)
    assert await client.nodes(2) == first
    assert queries == ["", "update_time=7"]


async def test_half_a_list_is_not_built_upon() -> None:
    half, whole = nodes_json("a"), nodes_json("a", "b")
    queries, handle = changing(httpx.Response(200, json=half), httpx.Response(200, json=whole))
    client = rest(handle)
    await client.nodes(2)
    await client.nodes(2)
    assert queries == ["", ""]


async def test_after_an_error_everything_is_asked_for_again() -> None:
    answers = [
        httpx.Response(200, json=nodes_json("a")),
        httpx.Response(500),
        httpx.Response(200, json=nodes_json("a")),
    ]
    queries, handle = changing(*answers)
    client = rest(handle)
    await client.nodes()
    with pytest.raises(SlurmError):
        await client.nodes()
    await client.nodes()
    assert queries == ["", "update_time=7", ""]


async def test_not_modified_without_a_question_for_changes_is_no_answer() -> None:
    _, handle = changing(httpx.Response(304))
    with pytest.raises(SlurmError):
        await rest(handle).nodes()


async def test_no_change_of_jobs_is_not_taken_for_no_jobs() -> None:
    jobs = {"jobs": [{"job_id": 1, "job_state": ["RUNNING"]}], "last_update": {"set": True, "number": 9}}
    unchanged = {"jobs": [], "last_update": {"set": True, "number": 0}}
    gone = {"jobs": [], "last_update": {"set": True, "number": 10}}
    queries, handle = changing(*(httpx.Response(200, json=one) for one in (jobs, unchanged, gone)))
    client = rest(handle)
    assert [job.job_id for job in await client.jobs()] == [1]
    assert [job.job_id for job in await client.jobs()] == [1]
    assert await client.jobs() == ()
    # Without flags slurmrestd would list every core of every node of every running job.
    assert queries == ["flags=ALL", "flags=ALL&update_time=9", "flags=ALL&update_time=9"]


async def test_a_refused_token_is_minted_anew() -> None:
    tokens = []

    def handle(request: httpx.Request) -> httpx.Response:
        tokens.append(request.headers["X-SLURM-USER-TOKEN"])
        return httpx.Response(401, json={"errors": [{"error": "expired"}]})

    source = TokenSource(KEY)
    client = SlurmRest("http://rest", source, httpx.MockTransport(handle))
    with pytest.raises(SlurmError):
        await client.nodes()
    assert source._renew_at == 0.0


@pytest.mark.parametrize(
    ("clusters", "connected"),
    [
        ([{"name": "demo", "controller": {"host": "10.0.0.1", "port": 6817}}], True),
        ([{"name": "demo", "controller": {"host": "", "port": 0}}], False),
        ([{"name": "other", "controller": {"host": "10.0.0.1", "port": 6817}}], False),
    ],
)
async def test_slurmdbd_says_whether_slurmctld_is_connected(clusters: Any, *, connected: bool) -> None:
    assert await rest(answering("v0.0.42", {"clusters": clusters})).registered("demo") is connected


def test_tokens_are_renewed_at_half_of_their_life() -> None:
    source = TokenSource(KEY)
    first = source.token(1_000_000.0)
    claims = jwt.decode(first, KEY, algorithms=["HS256"], options={"verify_exp": False, "verify_iat": False})
    assert claims == {"sun": "slurm", "iat": 999_970, "exp": 1_000_000 + LIFESPAN}
    assert source.token(1_000_000.0 + LIFESPAN / 2 - 1) == first
    assert source.token(1_000_000.0 + LIFESPAN / 2) != first


def test_a_clock_that_jumps_back_does_not_keep_a_token_for_ever() -> None:
    source = TokenSource(KEY)
    late = source.token(2_000_000.0)
    assert source.token(1_000_000.0) != late
