"""The status of a ``SlurmCluster``: conditions that tell the truth, and figures."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from slurmcluster_operator.api.schema import Model

ConditionType = Literal[
    "Ready",
    "SpecValid",
    "ControllerReady",
    "ConfigApplied",
    "AccountingReady",
    "RestReady",
    "LoginReady",
    "PoolsReady",
    "SlurmReachable",
    "Degraded",
]

ConditionStatus = Literal["True", "False", "Unknown"]


class Condition(Model):
    """One statement about the cluster, as in every Kubernetes resource."""

    type: str
    status: ConditionStatus
    reason: str = Field(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", max_length=1024)
    """One word in CamelCase, for programs."""
    message: str = Field(default="", max_length=32768)
    """A sentence or two, for people."""
    last_transition_time: str = Field(default="", json_schema_extra={"format": "date-time"})
    observed_generation: int = 0


class Endpoints(Model):
    """Where the cluster is reached."""

    login: str = ""
    """``host:port`` of sshd."""
    rest: str = ""
    """URL of slurmrestd, inside the Kubernetes cluster."""


class PoolStatus(Model):
    """One pool in figures."""

    name: str
    min: int
    max: int
    desired: int
    """Nodes that should be up now."""
    feasible: int
    """Kubernetes nodes that are granted to this cluster and fit the pool."""
    ready: int
    """Nodes that Slurm can use."""
    busy: int = 0
    idle: int = 0
    drained: int = 0
    starting: int = 0
    reason: str = ""
    """Why nodes are missing."""


class Queue(Model):
    """The queue in figures."""

    running: int = 0
    pending: int = 0


class SlurmClusterStatus(Model):
    """What the operator last saw."""

    observed_generation: int = 0
    nodes: str = ""
    """Ready / desired, for kubectl get."""
    busy: int = 0
    drained: int = 0
    conditions: tuple[Condition, ...] = Field(
        default=(), json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    )
    endpoints: Endpoints = Endpoints()
    pools: tuple[PoolStatus, ...] = ()
    queue: Queue = Queue()
