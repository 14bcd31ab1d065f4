"""Local copies of all that the loops look at in Kubernetes, and who must be woken when it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from slurmcluster_operator.api.group import API_VERSION, KIND
from slurmcluster_operator.kube.client import Json, Kube, path_of
from slurmcluster_operator.kube.reflector import Reflector
from slurmcluster_operator.model import wire
from slurmcluster_operator.model.fleet import ForeignPod, KubeNode, Tolerance, foreign_pod, wants_gpus
from slurmcluster_operator.model.kube import Claim, Marked, Pod, Service, Workload
from slurmcluster_operator.model.names import MANAGED_BY, MANAGER
from slurmcluster_operator.runtime.enforcement import Enforcement

_OURS: Final = f"{MANAGED_BY}={MANAGER}"
_OTHERS: Final = f"{MANAGED_BY}!={MANAGER}"
_PLACED: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


class World:
    """The reflectors."""

    def __init__(self, kube: Kube, tolerance: Tolerance, enforcement: Enforcement) -> None:
        def changed(namespace: str, before: object, after: object) -> None:
            del before, after
            self.wake(namespace)

        def moved(namespace: str, before: ForeignPod | None, after: ForeignPod | None) -> None:
            del namespace
            places = {pod.node for pod in (before, after) if pod is not None}
            if any(node is not None and (node.grant or node.owner) for node in map(self.node, places)):
                self.wake("")

        def follow(
            api_version: str,
            kind: str,
            shape: Any,
            trim: Callable[[Mapping[str, Any]], Any],
            selector: str = _OURS,
        ) -> Reflector[Any]:
            return Reflector(kube, path_of(api_version, kind), trim, changed, selector, shape=shape)

        def daemon_set(raw: Mapping[str, Any]) -> str | None:
            metadata = raw["metadata"]
            gpus = wants_gpus(raw["spec"]["template"]["spec"], tolerance)
            return None if gpus else f"{metadata['namespace']}.{metadata['name']}"

        self.wake: Callable[[str], None] = _nobody
        """Called on each change with its namespace; an empty one means every cluster."""
        self.tolerance = tolerance
        self.enforcement = enforcement
        self.clusters: Reflector[Json] = follow(API_VERSION, KIND, wire.Other, _without_noise, "")
        self.nodes: Reflector[KubeNode] = follow(
            "v1", "Node", wire.Node, lambda raw: KubeNode.from_json(raw, tolerance), ""
        )
        self.pods: Reflector[Pod] = follow("v1", "Pod", wire.Pod, Pod.from_json)
        self.foreign: Reflector[ForeignPod] = Reflector(
            kube, path_of("v1", "Pod"), lambda raw: foreign_pod(raw, tolerance), moved, _OTHERS, _PLACED, wire.Pod
        )
        """Pods of others that are on a node and count there."""
        self.daemon_sets: Reflector[str] = follow("apps/v1", "DaemonSet", wire.DaemonSet, daemon_set, "")
        self.claims: Reflector[Claim] = follow("v1", "PersistentVolumeClaim", wire.Other, Claim.from_json)
        self.services: Reflector[Service] = follow("v1", "Service", wire.Other, Service.from_json)
        self.config_maps: Reflector[Marked] = follow("v1", "ConfigMap", wire.Marked, Marked.from_json)
        self.stateful_sets: Reflector[Workload] = follow("apps/v1", "StatefulSet", wire.Other, Workload.from_json)
        self.deployments: Reflector[Workload] = follow("apps/v1", "Deployment", wire.Other, Workload.from_json)
        self.policies: Reflector[Marked] = follow(
            "networking.k8s.io/v1", "NetworkPolicy", wire.Marked, Marked.from_json
        )
        self._by_kind: Mapping[str, Reflector[Any]] = {
            "PersistentVolumeClaim": self.claims,
            "Service": self.services,
            "ConfigMap": self.config_maps,
            "StatefulSet": self.stateful_sets,
            "Deployment": self.deployments,
            "NetworkPolicy": self.policies,
        }

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """All of them."""
        return (self.clusters, self.nodes, self.pods, self.foreign, self.daemon_sets, *self._by_kind.values())

    async def run(self) -> None:
        """Follow everything for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.enforcement.run())
            for reflector in self.reflectors:
                group.create_task(reflector.run())

    async def synced(self) -> None:
        """Return once every first list is complete: before that, absence proves nothing."""
        await asyncio.gather(self.enforcement.known.wait(), *(reflector.synced.wait() for reflector in self.reflectors))

    @property
    def version(self) -> tuple[int, bool, str]:
        """What differs once anything here has changed."""
        changes = sum(reflector.changes for reflector in self.reflectors)
        return changes, self.enforcement.on, self.enforcement.because

    def node(self, name: str) -> KubeNode | None:
        """Return a Kubernetes node."""
        return self.nodes.find("", name)

    def marker(self, manifest: Json) -> str | None:
        """Return what tells whether somebody changed an object since we applied it; None if it is not there."""
        item = self._by_kind[manifest["kind"]].find(manifest["metadata"]["namespace"], manifest["metadata"]["name"])
        return None if item is None else item.marker


def _nobody(namespace: str) -> None:
    """Wake nobody: there are no loops yet."""


def _without_noise(raw: Mapping[str, Any]) -> Json:
    """Keep the parts of a SlurmCluster that the loop reads. Our own status writes must not wake us."""
    metadata = raw["metadata"]
    kept = {
        key: metadata[key] for key in ("name", "namespace", "uid", "generation", "deletionTimestamp") if key in metadata
    }
    return {"metadata": kept, "spec": raw.get("spec", {})}
