"""kopf's part: a daemon for each SlurmCluster, with its finalizer. Everything else is in ``runtime``."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import kopf

from slurmcluster_operator.api.group import GROUP, PLURAL, VERSION
from slurmcluster_operator.kube.client import Kube
from slurmcluster_operator.operator import Operator
from slurmcluster_operator.runtime.world import World
from slurmcluster_operator.settings import Settings


async def run(settings: Settings, kube: Kube, world: World) -> None:
    """Run a daemon for each SlurmCluster that is there or comes, until cancelled or told to end."""
    operator = Operator(settings, kube, world)
    serving = asyncio.create_task(operator.serve())
    try:
        # kopf serves only resources that it finds at its start: the CRD may come after the operator.
        await operator.defined()
        await kopf.operator(registry=registry(operator), clusterwide=True, standalone=True)
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


def registry(operator: Operator) -> kopf.OperatorRegistry:
    """Return kopf's handlers, wired to ``operator``."""
    handlers = kopf.OperatorRegistry()

    @kopf.on.startup(registry=handlers)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.peering.standalone = True
        settings.posting.enabled = False
        settings.persistence.finalizer = f"{GROUP}/finalizer"
        settings.networking.request_timeout = 30
        settings.watching.server_timeout = 300
        settings.watching.client_timeout = 310
        settings.watching.connect_timeout = 30
        settings.scanning.disabled = True

    @kopf.on.login(registry=handlers)
    def login(**arguments: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)

    @kopf.daemon(GROUP, VERSION, PLURAL, registry=handlers, cancellation_backoff=2, cancellation_timeout=30)
    async def cluster(*, namespace: str | None, name: str, stopped: kopf.DaemonStopped, **_: Any) -> None:
        async def until_stopped() -> bool:
            await stopped.wait()
            return stopped.reason is not None and kopf.DaemonStoppingReason.RESOURCE_DELETED in stopped.reason

        await operator.run_cluster(namespace or "", name, until_stopped)

    return handlers
