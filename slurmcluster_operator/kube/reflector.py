"""A local copy of one collection, kept by list and watch, trimmed to what is needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from slurmcluster_operator.kube.client import ApiError, Json, Kube

Item = TypeVar("Item")
Key = tuple[str, str]

_WATCH_SECONDS: Final = "300"
_GONE: Final = 410
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds between attempts while the API server does not answer; the last repeats."""

_log = logging.getLogger(__name__)


class Reflector(Generic[Item]):
    """Keeps ``items`` equal to a collection, and calls ``changed(namespace, before, after)`` on each change.

    Objects for which ``trim`` returns None are left out. ``shape`` is a TypedDict with the fields that it reads.
    """

    def __init__(
        self,
        kube: Kube,
        path: str,
        trim: Callable[[Mapping[str, Any]], Item | None],
        changed: Callable[[str, Item | None, Item | None], None],
        selector: str = "",
        fields: str = "",
        shape: Any = Json,
    ) -> None:
        self._kube = kube
        self._path = path
        self._trim = trim
        self._changed = changed
        self._shape = shape
        chosen = {"labelSelector": selector, "fieldSelector": fields}
        self._query = {key: value for key, value in chosen.items() if value}
        self.items: dict[Key, Item] = {}
        self.changes = 0
        """How often something about the items has changed."""
        self.synced = asyncio.Event()
        """Set once the first list is complete. Before that, absence proves nothing."""

    def of(self, namespace: str) -> Iterable[Item]:
        """Return the items of one namespace."""
        return [item for (found, _), item in self.items.items() if found == namespace]

    def find(self, namespace: str, name: str) -> Item | None:
        """Return one item, or None if it is not there."""
        return self.items.get((namespace, name))

    async def run(self) -> None:
        """Follow the collection for ever."""
        failures = 0
        while True:
            try:
                version = await self._list()
                failures = 0
                while version:
                    version = await self._follow(version)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it was, list again
                pause = _PAUSES[min(failures, len(_PAUSES) - 1)]
                failures += 1
                _log.warning("%s: %s; again in %.1f s", self._path, error or type(error).__name__, pause)
                await asyncio.sleep(pause)

    async def _list(self) -> str:
        found: dict[Key, Item] = {}
        listing = self._kube.listing(self._path, self._query, self._shape)
        async for raw in listing:
            item = self._trim(raw)
            if item is not None:
                found[_key(raw)] = item
        before, self.items = self.items, found
        self.changes += 1
        self.synced.set()
        for key in before.keys() | found.keys():
            if before.get(key) != found.get(key):
                self._changed(key[0], before.get(key), found.get(key))
        return listing.version

    async def _follow(self, version: str) -> str:
        """Apply watch events from ``version`` on; return where to go on, or an empty string to list again."""
        query = {
            **self._query,
            "resourceVersion": version,
            "timeoutSeconds": _WATCH_SECONDS,
            "allowWatchBookmarks": "true",
        }
        async for event in self._kube.watch(self._path, query, self._shape):
            if event["type"] == "ERROR":
                if event["object"].get("code") == _GONE:
                    return ""
                raise ApiError(event["object"].get("code", 0), event["object"].get("message", "watch failed"))
            version = event["object"]["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                self._take(event["type"], event["object"])
        return version

    def _take(self, kind: str, raw: Mapping[str, Any]) -> None:
        key = _key(raw)
        before = self.items.get(key)
        after = None if kind == "DELETED" else self._trim(raw)
        if after is None:
            self.items.pop(key, None)
        else:
            self.items[key] = after
        if before != after:
            self.changes += 1
            self._changed(key[0], before, after)


def _key(raw: Mapping[str, Any]) -> Key:
    return raw["metadata"].get("namespace", ""), raw["metadata"]["name"]
