"""The operator's process: what its first lists need is loaded first."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from typing import Final

from slurmcluster_operator.kube.client import Kube
from slurmcluster_operator.runtime.enforcement import Enforcement
from slurmcluster_operator.runtime.world import World
from slurmcluster_operator.settings import Settings

_OUTSIDE: Final = ("default", "kube-public", "kube-node-lease")
"""Namespaces that every cluster has; in one that is not a system namespace admission is put to the test."""


async def run(settings: Settings) -> None:
    """Run the operator until it is told to end."""
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    # Each request of the HTTP client would be a line, or ten; failures are reported where they matter.
    for client in ("httpx", "kubernetes"):
        logging.getLogger(client).setLevel(logging.WARNING)
    namespace, system = settings.platform.operator_namespace, settings.tolerance.system_namespaces
    outside = next((one for one in _OUTSIDE if one not in system), _OUTSIDE[0])
    async with await Kube.connect() as kube:
        world = World(kube, settings.tolerance, Enforcement(kube, settings.admission, namespace, outside))
        following = asyncio.create_task(world.run())
        try:
            # While the rest is loaded, the API server makes the first lists.
            daemons = await asyncio.to_thread(importlib.import_module, "slurmcluster_operator.daemons")
            await daemons.run(settings, kube, world)
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
