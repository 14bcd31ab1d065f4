from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from slurmcluster_operator.kube.client import ApiError
from slurmcluster_operator.kube.reflector import Reflector


def thing(name: str, version: str, value: str = "") -> dict[str, Any]:
    return {"metadata": {"namespace": "ns", "name": name, "resourceVersion": version}, "value": value}


class FakeListing:
    """A collection; where it ends with an error, it breaks off there."""

    version = "1"

    def __init__(self, found: list[Any]) -> None:
        self._found = found

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        for one in self._found:
            if isinstance(one, Exception):
                raise one
            yield one


class FakeApi:
    """Serves scripted lists and watches, then blocks."""

    def __init__(self, lists: list[Any], watches: list[list[dict[str, Any]] | Exception]) -> None:
        self._lists = lists
        self._watches = watches
        self.versions: list[str] = []

    def listing(self, path: str, query: Mapping[str, str], shape: Any) -> FakeListing:
        return FakeListing(self._lists.pop(0))

    async def watch(self, path: str, query: Mapping[str, str], shape: Any) -> AsyncIterator[dict[str, Any]]:
        self.versions.append(query["resourceVersion"])
        if not self._watches:
            await asyncio.Event().wait()
        events = self._watches.pop(0)
        if isinstance(events, Exception):
            raise events
        for event in events:
            yield event


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


async def test_what_was_listed_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    reflector, _ = await follow(FakeApi([[thing("a", "1", "A"), thing("b", "2", "B")]], []), monkeypatch)
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
    api = FakeApi([[thing("a", "1", "A")]], [events])
    reflector, changes = await follow(api, monkeypatch)
    assert reflector.items == {("ns", "b"): "B"}
    assert changes == [("ns", None, "A"), ("ns", "A", "AA"), ("ns", None, "B"), ("ns", "AA", None)]
    assert api.versions == ["1", "9"]


async def test_a_watch_that_is_too_old_lists_again_and_tells_what_was_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = [{"type": "ERROR", "object": {"code": 410, "message": "too old"}}]
    reflector, changes = await follow(FakeApi([[thing("a", "1", "A")], [thing("b", "7", "B")]], [gone]), monkeypatch)
    assert reflector.items == {("ns", "b"): "B"}
    assert sorted(changes[1:], key=str) == [("ns", "A", None), ("ns", None, "B")]


async def test_failures_are_survived_and_never_taken_for_an_empty_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, none, half = [thing("a", "1", "A"), thing("b", "1", "B")], [ApiError(500, "boom")], [thing("a", "1", "A")]
    api = FakeApi([whole, none, [*half, ApiError(0, "broke off")], whole], [ApiError(0, "cut")])
    reflector, changes = await follow(api, monkeypatch)
    assert reflector.items == {("ns", "a"): "A", ("ns", "b"): "B"}
    assert sorted(changes, key=str) == [("ns", None, "A"), ("ns", None, "B")]
