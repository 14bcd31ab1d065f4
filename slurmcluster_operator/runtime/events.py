"""Kubernetes Events about a SlurmCluster: what people see in ``kubectl describe``."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Literal

from slurmcluster_operator.api.group import API_VERSION, KIND
from slurmcluster_operator.kube.client import ApiError, Kube
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model.hostlist import compress
from slurmcluster_operator.model.names import MANAGER

_log = logging.getLogger(__name__)


_LONGEST_LIST: Final = 200
"""Characters of a list of nodes in a message."""


def listed(nodes: Iterable[str]) -> str:
    """Return names as a host list of a length that fits a message."""
    pieces = compress(nodes)
    return pieces if len(pieces) <= _LONGEST_LIST else f"{pieces[:_LONGEST_LIST]}…"


class Events:
    """Posts Events. One that cannot be posted is logged and forgotten: it must never stop an action."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def post(
        self, cluster: Cluster, reason: str, message: str, kind: Literal["Normal", "Warning"] = "Normal"
    ) -> None:
        """Post one Event about a SlurmCluster. ``reason`` is one word in CamelCase, ``message`` a sentence."""
        own = cluster.names
        about = {"apiVersion": API_VERSION, "kind": KIND, "name": own.cluster, "namespace": own.namespace}
        await self._post({**about, "uid": cluster.uid}, own.namespace, reason, message, kind)

    async def post_on_node(
        self, node: str, uid: str, reason: str, message: str, kind: Literal["Normal", "Warning"] = "Normal"
    ) -> None:
        """Post one Event about a Kubernetes node, where ``kubectl describe node`` finds it."""
        await self._post(
            {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}, "default", reason, message, kind
        )

    async def _post(self, about: dict[str, str], namespace: str, reason: str, message: str, kind: str) -> None:
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        _log.info("%s %s %s: %s", about["kind"], about["name"], reason, message)
        manifest = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{about['name']}.", "namespace": namespace},
            "involvedObject": about,
            "reason": reason,
            "message": message[:1000],
            "type": kind,
            "source": {"component": MANAGER},
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
            "reportingComponent": MANAGER,
        }
        try:
            await self._kube.create(manifest)
        except (ApiError, OSError, TimeoutError) as error:
            _log.warning("Event %s could not be posted: %s", reason, error)
