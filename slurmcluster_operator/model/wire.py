"""Kubernetes objects as the API server sends them, but only what is read of them.

What has no name here is skipped before anything is made of it: nine tenths of a pod. So a field that is to be read must
be named here first; mypy refuses to read another.
"""

from __future__ import annotations

from typing import Any, TypedDict


class Owner(TypedDict, total=False):
    """An entry of ``ownerReferences``."""

    kind: str
    controller: bool


class Metadata(TypedDict, total=False):
    """What every object has."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    generation: int
    creationTimestamp: str
    deletionTimestamp: str
    deletionGracePeriodSeconds: int
    labels: dict[str, str]
    annotations: dict[str, str]
    ownerReferences: list[Owner]


class Other(TypedDict, total=False):
    """An object of which there are few: all of its spec and status."""

    metadata: Metadata
    spec: dict[str, Any]
    status: dict[str, Any]


class Marked(TypedDict, total=False):
    """An object of which only existence and change matter."""

    metadata: Metadata


class Condition(TypedDict, total=False):
    """An entry of ``conditions``."""

    type: str
    status: str
    message: str
    lastTransitionTime: str | None


class Taint(TypedDict, total=False):
    """A taint of a Node."""

    key: str
    value: str
    effect: str


class NodeSpec(TypedDict, total=False):
    """What is wanted of a Node."""

    unschedulable: bool
    taints: list[Taint]


class NodeStatus(TypedDict, total=False):
    """What its kubelet says."""

    allocatable: dict[str, str]
    conditions: list[Condition]


class Node(TypedDict, total=False):
    """A Node."""

    metadata: Metadata
    spec: NodeSpec
    status: NodeStatus


class Resources(TypedDict, total=False):
    """What a container asks for."""

    limits: dict[str, Any]
    requests: dict[str, Any]


class Container(TypedDict, total=False):
    """A container of a pod's spec."""

    resources: Resources


class PodSpec(TypedDict, total=False):
    """What is wanted of a pod."""

    nodeName: str
    priority: int
    resourceClaims: list[Any]
    initContainers: list[Container]
    containers: list[Container]


class Running(TypedDict, total=False):
    """A container that runs."""

    startedAt: str | None


class Waiting(TypedDict, total=False):
    """A container that waits."""

    reason: str
    message: str


class Terminated(TypedDict, total=False):
    """A container that has ended."""

    exitCode: int
    message: str


class ContainerState(TypedDict, total=False):
    """One of three."""

    running: Running
    waiting: Waiting
    terminated: Terminated


class ContainerStatus(TypedDict, total=False):
    """What a kubelet says of a container."""

    name: str
    ready: bool
    started: bool
    restartCount: int
    state: ContainerState
    lastState: ContainerState


class PodStatus(TypedDict, total=False):
    """What a kubelet says of a pod."""

    phase: str
    reason: str
    message: str
    conditions: list[Condition]
    initContainerStatuses: list[ContainerStatus]
    containerStatuses: list[ContainerStatus]


class Pod(TypedDict, total=False):
    """A pod."""

    metadata: Metadata
    spec: PodSpec
    status: PodStatus


class PodTemplate(TypedDict, total=False):
    """A workload's template."""

    spec: PodSpec


class DaemonSetSpec(TypedDict, total=False):
    """What is wanted of a DaemonSet."""

    template: PodTemplate


class DaemonSet(TypedDict, total=False):
    """A DaemonSet."""

    metadata: Metadata
    spec: DaemonSetSpec
