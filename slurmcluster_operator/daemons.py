"""kopf's part: a daemon for each SlurmCluster, with its finalizer. Everything else is in ``runtime``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kopf

from slurmcluster_operator.api.crd import GROUP, PLURAL, VERSION

if TYPE_CHECKING:
    from slurmcluster_operator.operator import Operator


async def run(operator: Operator) -> None:
    """Run a daemon for each SlurmCluster that is there or comes, until cancelled or told to end."""
    await kopf.operator(registry=registry(operator), clusterwide=True, standalone=True)


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
