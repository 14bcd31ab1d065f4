"""Kubernetes objects as decisions see them, trimmed to the fields that they read."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from slurmcluster_operator.model import names, wire


def shared(raw: Mapping[str, str]) -> Mapping[str, str]:
    """Return the one mapping with these entries: thousands of objects have equal ones."""
    return _shared(tuple(raw.items()))


@functools.lru_cache(maxsize=4096)
def _shared(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(items)


@dataclass(frozen=True, slots=True)
class Container:
    """One container's state, as its kubelet reports it."""

    name: str
    ready: bool
    running: bool
    ended: bool = False
    waiting: str = ""
    """The reason it waits: ``ImagePullBackOff``, ``CrashLoopBackOff``…"""
    message: str = ""
    """Why it waits, or what it said when it last ended."""
    restarts: int = 0
    started: datetime | None = None
    """Since when it runs."""
    starting: bool = False
    """It runs, but has not passed its startup probe."""

    @classmethod
    def from_json(cls, status: wire.ContainerStatus) -> Container:
        """Read one entry of ``containerStatuses``."""
        state = status.get("state", {})
        waiting = state.get("waiting") or {}
        ended = state.get("terminated") or status.get("lastState", {}).get("terminated") or {}
        said = waiting.get("message", "") if waiting.get("reason") != "CrashLoopBackOff" else ""
        return cls(
            name=status["name"],
            ready=bool(status.get("ready")),
            running="running" in state,
            ended="terminated" in state,
            waiting=waiting.get("reason", ""),
            message=(
                said or ended.get("message", "") or (f"exit code {ended['exitCode']}" if "exitCode" in ended else "")
            ).strip(),
            restarts=status.get("restartCount", 0),
            started=_time((state.get("running") or {}).get("startedAt")),
            starting="running" in state and status.get("started") is False,
        )


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of ours."""

    cluster: str
    name: str
    uid: str
    component: str
    phase: str
    ready: bool
    deleting: bool
    created: datetime
    node_name: str = ""
    slurm_node: str = ""
    pool: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    revision: str = ""
    containers: tuple[Container, ...] = ()
    unschedulable: str = ""
    ready_since: datetime | None = None
    asked_to_go: datetime | None = None
    """When somebody asked that it goes."""
    failure: str = ""
    """Why the pod as a whole has failed: evicted, or refused by its kubelet."""
    namespace: str = ""

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Pod:
        """Read a pod, keeping what decisions need."""
        pod = cast("wire.Pod", raw)
        metadata, status = pod["metadata"], pod.get("status", {})
        labels = metadata.get("labels", {})
        conditions = {condition["type"]: condition for condition in status.get("conditions", ())}
        scheduled = conditions.get("PodScheduled", {})
        statuses = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
        node_name = sys.intern(pod.get("spec", {}).get("nodeName", ""))
        return cls(
            cluster=sys.intern(labels.get(names.INSTANCE, "")),
            name=metadata["name"],
            uid=metadata["uid"],
            component=sys.intern(labels.get(names.COMPONENT, "")),
            phase=sys.intern(status.get("phase", "Pending")),
            ready=conditions.get("Ready", {}).get("status") == "True",
            deleting="deletionTimestamp" in metadata,
            created=datetime.fromisoformat(metadata["creationTimestamp"]),
            node_name=node_name,
            slurm_node=sys.intern(labels.get(names.NODE_LABEL, "")),
            pool=sys.intern(labels.get(names.POOL_LABEL, "")),
            annotations=shared(
                {
                    key: value
                    for key, value in metadata.get("annotations", {}).items()
                    # Where a pod was meant to go is its own, and of no use once it is there: the others are shared.
                    if key.startswith(names.PREFIX) and not (node_name and key == names.MACHINE)
                }
            ),
            revision=labels.get("controller-revision-hash", ""),
            containers=tuple(Container.from_json(one) for one in statuses),
            unschedulable=scheduled.get("message", "") if scheduled.get("status") == "False" else "",
            ready_since=_time(conditions.get("Ready", {}).get("lastTransitionTime")),
            namespace=sys.intern(metadata.get("namespace", "")),
            asked_to_go=_asked_to_go(metadata),
            failure=": ".join(word for word in (status.get("reason"), status.get("message")) if word),
        )

    @property
    def machine(self) -> str:
        """The Kubernetes node on which it is, or for which it was made; empty while it may go anywhere."""
        return self.node_name or self.annotations.get(names.MACHINE, "")

    @property
    def ever_started(self) -> bool:
        """Whether the pod's main containers may have run: only a pod that never did is safe to throw away."""
        return any(one.running or one.restarts or one.ended for one in self.containers)


def _asked_to_go(metadata: wire.Metadata) -> datetime | None:
    """Kubernetes notes when the time that it gives a pod will be over."""
    over = _time(metadata.get("deletionTimestamp"))
    return over and over - timedelta(seconds=metadata.get("deletionGracePeriodSeconds", 0))


def _time(stamp: str | None) -> datetime | None:
    return datetime.fromisoformat(stamp) if stamp else None


@dataclass(frozen=True, slots=True)
class Workload:
    """A StatefulSet or Deployment of ours."""

    cluster: str
    component: str
    name: str
    replicas: int
    revision: str
    """What pods made now would carry as ``controller-revision-hash``; empty for Deployments."""
    marker: str = ""
    """Changes when somebody changes the object."""

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Workload:
        """Read a workload."""
        labels = raw["metadata"].get("labels", {})
        return cls(
            cluster=labels.get(names.INSTANCE, ""),
            component=labels.get(names.COMPONENT, ""),
            name=raw["metadata"]["name"],
            replicas=raw["spec"].get("replicas", 1),
            revision=raw.get("status", {}).get("updateRevision", ""),
            marker=str(raw["metadata"].get("generation", "")),
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim of ours."""

    name: str
    phase: str
    storage_class: str | None
    marker: str = ""

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Claim:
        """Read a claim."""
        return cls(
            raw["metadata"]["name"],
            raw.get("status", {}).get("phase", "Pending"),
            raw["spec"].get("storageClassName"),
            raw["metadata"]["resourceVersion"],
        )


@dataclass(frozen=True, slots=True)
class Service:
    """A Service of ours."""

    name: str
    address: str
    """``host:port`` under which users outside reach it, as far as that is known; else inside the cluster."""
    marker: str = ""

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Service:
        """Read a Service."""
        spec = raw["spec"]
        ports = spec.get("ports") or [{"port": 0}]
        ingress = raw.get("status", {}).get("loadBalancer", {}).get("ingress") or [{}]
        host = ingress[0].get("ip") or ingress[0].get("hostname") or spec.get("clusterIP", "")
        address = f"{host}:{ports[0]['port']}"
        if spec.get("type") == "NodePort":
            address = f"<any node>:{ports[0].get('nodePort', 0)}"
        return cls(raw["metadata"]["name"], address, raw["metadata"]["resourceVersion"])


@dataclass(frozen=True, slots=True)
class Marked:
    """An object of which only existence and change matter: a ConfigMap, a NetworkPolicy."""

    name: str
    marker: str

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Marked:
        """Read any object."""
        return cls(raw["metadata"]["name"], raw["metadata"]["resourceVersion"])
