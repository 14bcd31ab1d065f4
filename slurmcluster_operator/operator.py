"""All clusters' loops, and what they share."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from slurmcluster_operator.kube.client import Kube
from slurmcluster_operator.runtime.events import Events
from slurmcluster_operator.runtime.health import HealthServer
from slurmcluster_operator.runtime.keeper import Keeper
from slurmcluster_operator.runtime.loop import ClusterLoop
from slurmcluster_operator.runtime.world import World
from slurmcluster_operator.settings import Settings

_SETTLED: Final = 10.0
"""Seconds after which a cluster's first look is over: what is there then is there to stay."""


class Operator:
    """All clusters' loops and what they share."""

    def __init__(self, settings: Settings, kube: Kube, world: World) -> None:
        self._settings = settings
        self._kube = kube
        self._world = world
        self._loops: dict[tuple[str, str], ClusterLoop] = {}
        self._keeper = Keeper(kube, world, Events(kube), settings.platform.operator_namespace)
        world.wake = self.wake

    def wake(self, namespace: str) -> None:
        """Let the loops of a namespace look now; an empty namespace means all."""
        for (found, _), loop in self._loops.items():
            if namespace in {"", found}:
                loop.woken.set()

    async def serve(self) -> None:
        """Keep the fleet and answer health checks, for ever."""
        health = HealthServer(
            self._loops,
            synced=lambda: all(one.synced.is_set() for one in self._world.reflectors),
            enforced=lambda: self._world.enforcement.on,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keeper.run())
            group.create_task(health.serve(self._settings.health_port))

    async def defined(self) -> None:
        """Return once the API server knows SlurmClusters."""
        await self._world.clusters.synced.wait()

    async def run_cluster(self, namespace: str, name: str, stopped: Callable[[], Awaitable[bool]]) -> None:
        """Run one cluster's loop until it is stopped; end its slurmd pods if that is because it was deleted.

        ``stopped`` returns when the loop is to stop, and whether the cluster was deleted.
        """
        await self._world.synced()
        asyncio.get_running_loop().call_later(_SETTLED, _settle)
        loop = ClusterLoop(self._kube, self._world, self._settings.platform, namespace, name)
        self._loops[namespace, name] = loop
        task = asyncio.create_task(loop.run())
        try:
            deleted = await stopped()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            del self._loops[namespace, name]
        if deleted:
            await _to_the_end(loop.retire())


def _settle() -> None:
    """Spare the garbage collector the objects that are there to stay."""
    gc.collect()
    gc.freeze()


async def _to_the_end(effect: Coroutine[Any, Any, None]) -> None:
    """Finish ``effect`` even when kopf loses patience: it cancels a daemon that has not ended after its back-off."""
    task = asyncio.create_task(effect)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
