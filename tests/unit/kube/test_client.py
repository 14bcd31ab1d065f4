from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pytest
from aiohttp import web
from kubernetes.aio import client as kube_client

from slurmcluster_operator.kube.client import ApiError, Kube
from slurmcluster_operator.model.records import Records

FEW = b'{"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "a"}, "spec": {"big": [1, 2, 3]}}]}'
EVENTS = (
    b'{"type": "ADDED", "object": {"metadata": {"name": "a"}, "spec": {"big": [1, 2, 3]}}}\n'
    b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}, "spec": {"containers": null}}}\n'
    b'{"type": "ERROR", "object": {"kind": "Status", "metadata": {}, "code": 410, "message": "too old"}}\n'
)


class Listing(TypedDict, total=False):
    containers: list[str]


class Named(TypedDict, total=False):
    metadata: dict[str, str]
    spec: Listing


@asynccontextmanager
async def serving(body: bytes, status: int = 200, *, breaks: bool = False) -> AsyncIterator[Kube]:
    """Connect to an API server that gives one answer to everything, or ``breaks`` off in the midst of it."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if breaks:
            response = web.StreamResponse(headers={"Content-Length": str(len(body))})
            await response.prepare(request)
            await response.write(body[: len(body) // 2])
            assert request.transport is not None
            request.transport.abort()
            return response
        return web.Response(body=body, status=status, content_type="application/json")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    try:
        async with Kube(kube_client.ApiClient(kube_client.Configuration(host=f"http://{host}:{port}"))) as kube:
            yield kube
    finally:
        await runner.cleanup()


async def test_of_the_objects_of_a_collection_only_what_is_named_is_read() -> None:
    async with serving(FEW) as kube:
        listing = kube.listing("/things", {}, Named)
        assert [one async for one in listing] == [{"metadata": {"name": "a"}, "spec": {}}]
        assert listing.version == "7"


async def test_without_a_shape_objects_are_whole() -> None:
    async with serving(FEW) as kube:
        found = [one async for one in kube.listing("/things", {})]
        assert found == [{"metadata": {"name": "a"}, "spec": {"big": [1, 2, 3]}}]


def listed(head: str, count: int) -> bytes:
    """Return a large collection as an API server sends it."""
    labels = {"metadata": {"name": "b", "text": '},{"metadata":{"name":'}}
    items = [
        {"metadata": {"name": f"n{number}"}, "spec": {"containers": [], "big": [labels]}} for number in range(count)
    ]
    return f"{head}{json.dumps(items, separators=(',', ':'))}}}".encode()


@pytest.mark.parametrize(
    "head",
    [
        '{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":',
        '{"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": ',
        '{"metadata":{"resourceVersion":"7","more":{}},"items":',
    ],
)
async def test_a_large_collection_is_read_while_it_comes(head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[int] = []
    feed = Records.feed

    def fed(self: Records, chunk: bytes | bytearray) -> Sequence[Any]:
        pieces.append(len(found := feed(self, chunk)))
        return found

    monkeypatch.setattr(Records, "feed", fed)
    async with serving(listed(head, 20_000)) as kube:
        listing = kube.listing("/things", {}, Named)
        found = [one["metadata"]["name"] async for one in listing]
    assert found == [f"n{number}" for number in range(20_000)]
    assert listing.version == "7"
    assert (sum(pieces) > 15_000) is ("more" not in head), "an unusual beginning is read as a whole"


async def test_a_collection_that_breaks_off_is_an_error_not_a_short_collection() -> None:
    body = listed('{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":', 20_000)
    async with serving(body[: len(body) // 2]) as kube:
        with pytest.raises(msgspec.DecodeError):
            [one async for one in kube.listing("/things", {}, Named)]
    async with serving(body, breaks=True) as kube:
        with pytest.raises(ApiError, match="the API server cannot be reached"):
            [one async for one in kube.listing("/things", {}, Named)]


async def test_an_empty_collection_is_one() -> None:
    for items in ("[]", "null"):
        body = f'{{"kind":"NodeList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},"items":{items}}}'.encode()
        async with serving(body) as kube:
            listing = kube.listing("/things", {}, Named)
            assert ([one async for one in listing], listing.version) == ([], "7")


async def test_of_events_only_what_is_named_is_read_but_errors_are_whole() -> None:
    async with serving(EVENTS) as kube:
        events = [event async for event in kube.watch("/things", {"timeoutSeconds": "5"}, Named)]
    assert events[0] == {"type": "ADDED", "object": {"metadata": {"name": "a"}, "spec": {}}}
    # A real bookmark of a pod has null for its containers.
    assert events[1]["object"]["metadata"]["resourceVersion"] == "7"
    assert (events[2]["object"]["code"], events[2]["object"]["message"]) == (410, "too old")


async def test_a_refusal_carries_the_servers_words() -> None:
    async with serving(b'{"kind": "Status", "message": "no such thing"}', 403) as kube:
        with pytest.raises(ApiError, match="no such thing") as caught:
            [one async for one in kube.listing("/things", {}, Named)]
    assert caught.value.status == 403


async def test_without_an_api_server_the_words_say_where_it_was_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"no API server is known.*none"):
        await Kube.connect()
