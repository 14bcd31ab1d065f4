from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from slurmcluster_operator.kube.client import ApiError
from slurmcluster_operator.kube.reflector import Reflector


def thing(name: str, version: str, value: str = "") -> dict[str, Any]:
    return {"metadata": {"namespace": "ns", "name": name, "resourceVersion": version}, "value": value}


class FakeApi:
    """Serves scripted lists and watches, then blocks."""

    def __init__(self, lists: list[Any], watches: list[list[dict[str, Any]] | Exception]) -> None:
        self._lists = lists
        self._watches = watches
        self.versions: list[str] = []

    async def list_page(self, path: str, query: Mapping[str, str], shape: Any) -> dict[str, Any]:
        found = self._lists.pop(0)
        if isinstance(found, Exception):
            raise found
        return dict(found)

    async def watch(self, path: str, query: Mapping[str, str], shape: Any) -> AsyncIterator[dict[str, Any]]:
        self.versions.append(query["resourceVersion"])
        if not self._watches:
            await asyncio.Event().wait()
        events = self._watches.pop(0)
        if isinstance(events, Exception):
            raise events
        for event in events:
            yield event


def page(*items: dict[str, Any], version: str = "1", more: str = "") -> dict[str, Any]:
    return {"items": list(items), "metadata": {"resourceVersion": version, **({"continue": more} if more else {})}}


async def follow(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> tuple[Reflector[str], list[tuple[Any, ...]]]:
    monkeypatch.setattr("slurmcluster_operator.kube.reflector._PAUSES", (0.0,))
    changes: list[tuple[Any, ...]] = []
    reflector: Reflector[str] = Reflector(api, "/things", lambda raw: raw["value"], lambda *one: changes.append(one))  # type: ignore[arg-type]
    task = asyncio.create_task(reflector.run())
    for _ in range(200):
        await asyncio.sleep(0)
        if not api._watches and api.versions and not api._lists:
            break
    await asyncio.sleep(0.01)
    task.cancel()
    return reflector, changes


async def test_a_list_in_pages_is_one_list(monkeypatch: pytest.MonkeyPatch) -> None:
    reflector, _ = await follow(
        FakeApi([page(thing("a", "1", "A"), more="x"), page(thing("b", "2", "B"))], []), monkeypatch
    )
    assert reflector.items == {("ns", "a"): "A", ("ns", "b"): "B"}
    assert reflector.synced.is_set()


async def test_events_are_followed_and_only_real_changes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [
        {"type": "MODIFIED", "object": thing("a", "2", "A")},
        {"type": "MODIFIED", "object": thing("a", "3", "AA")},
        {"type": "ADDED", "object": thing("b", "4", "B")},
        {"type": "DELETED", "object": thing("a", "5", "AA")},
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}},
    ]
    api = FakeApi([page(thing("a", "1", "A"))], [events])
    reflector, changes = await follow(api, monkeypatch)
    assert reflector.items == {("ns", "b"): "B"}
    assert changes == [("ns", None, "A"), ("ns", "A", "AA"), ("ns", None, "B"), ("ns", "AA", None)]
    assert api.versions == ["1", "9"]


async def test_a_watch_that_is_too_old_lists_again_and_tells_what_was_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = [{"type": "ERROR", "object": {"code": 410, "message": "too old"}}]
    reflector, changes = await follow(
        FakeApi([page(thing("a", "1", "A")), page(thing("b", "7", "B"))], [gone]), monkeypatch
    )
    assert reflector.items == {("ns", "b"): "B"}
    assert sorted(changes[1:], key=str) == [("ns", "A", None), ("ns", None, "B")]


async def test_failures_are_survived_and_never_taken_for_an_empty_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi([page(thing("a", "1", "A")), ApiError(500, "boom"), page(thing("a", "2", "A"))], [ApiError(0, "cut")])
    reflector, changes = await follow(api, monkeypatch)
    assert reflector.items == {("ns", "a"): "A"}
    assert changes == [("ns", None, "A")]
