from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypedDict

import pytest
from aiohttp import web
from kubernetes.aio import client as kube_client

from slurmcluster_operator.kube.client import ApiError, Kube

PAGE = b'{"metadata": {"continue": "more"}, "items": [{"metadata": {"name": "a"}, "spec": {"big": [1, 2, 3]}}]}'
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
async def serving(body: bytes, status: int = 200) -> AsyncIterator[Kube]:
    """Connect to an API server that gives one answer to everything."""

    async def answer(request: web.BaseRequest) -> web.Response:
        del request
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


async def test_of_the_objects_of_a_page_only_what_is_named_is_read() -> None:
    async with serving(PAGE) as kube:
        page = await kube.list_page("/things", {}, Named)
        assert page["metadata"] == {"continue": "more"}
        assert list(page["items"]) == [{"metadata": {"name": "a"}, "spec": {}}]


async def test_without_a_shape_objects_are_whole() -> None:
    async with serving(PAGE) as kube:
        page = await kube.list_page("/things", {})
        assert list(page["items"]) == [{"metadata": {"name": "a"}, "spec": {"big": [1, 2, 3]}}]


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
            await kube.list_page("/things", {}, Named)
    assert caught.value.status == 403


async def test_without_an_api_server_the_words_say_where_it_was_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"no API server is known.*none"):
        await Kube.connect()
