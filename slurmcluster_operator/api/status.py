"""The status of a ``SlurmCluster``: conditions that tell the truth, and figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from slurmcluster_operator.api.schema import Model, Unique

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
    "FleetConsistent",
    "Degraded",
]

ConditionStatus = Literal["True", "False", "Unknown"]

CONDITIONS: Final[Mapping[ConditionType, str]] = {
    "Ready": "A job that an ordinary user submits now would run. Its reason and message are those of the first part"
    " that keeps it from that.",
    "SpecValid": "The spec is free of what the API server cannot see: Secrets, claims and StorageClasses that do not"
    " exist, groups that collide.",
    "ControllerReady": "slurmctld answers, and its start is over.",
    "ConfigApplied": "slurmctld runs with the configuration of the spec. False with reason ReconfigureFailed tells"
    " slurmctld's error; with RestartNeeded, that slurmctld's pod is of an old template (image, resources, placement),"
    " and the command that restarts it.",
    "AccountingReady": "slurmdbd and its database answer, and slurmctld is connected. True with reason Disabled when"
    " accounting is off.",
    "RestReady": "slurmrestd runs and answers.",
    "LoginReady": "Every login pod takes connections.",
    "PoolsReady": "Every pool has its minimum of nodes that Slurm can use. The message tells, for each pool that has"
    " not, what is missing.",
    "SlurmReachable": "The last look at Slurm succeeded. While it is False, the figures of the status are the last"
    " ones known and nothing that could harm a job is done.",
    "FleetConsistent": "No Kubernetes node has two claimants. False names the pod and the node. The message of reason"
    " Unenforced says why the API server does not refuse what would break this.",
    "Degraded": "True while something that the operator tried to do failed; the message is the error.",
}
"""What each condition says when it is True."""


class Condition(Model):
    """One statement about the cluster, as in every Kubernetes resource."""

    type: str
    """Which statement."""
    status: ConditionStatus
    """Whether it holds."""
    reason: str = Field(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", max_length=1024)
    """One word in CamelCase, for programs."""
    message: str = Field(default="", max_length=32768)
    """A sentence or two, for people."""
    last_transition_time: str = Field(default="", json_schema_extra={"format": "date-time"})
    """When ``status`` last changed."""
    observed_generation: int = 0
    """The ``metadata.generation`` that it speaks of."""


class Endpoints(Model):
    """Where the cluster is reached."""

    login: str = ""
    """``host:port`` of sshd."""
    rest: str = ""
    """URL of slurmrestd, inside the Kubernetes cluster."""


class PoolStatus(Model):
    """One pool in figures."""

    name: str
    """The pool."""
    min: int
    """As in the spec."""
    max: int
    """As in the spec."""
    desired: int
    """Nodes that should be up now."""
    feasible: int
    """Kubernetes nodes that are granted to this cluster and fit the pool."""
    ready: int
    """Nodes that Slurm can use."""
    busy: int = 0
    """Nodes that run jobs."""
    idle: int = 0
    """Nodes that could run jobs and do not."""
    drained: int = 0
    """Nodes that take no further jobs."""
    starting: int = 0
    """Nodes that are on their way up."""
    running: int = 0
    """Jobs that have a node of it, up or not. A job on nodes of several pools counts in each."""
    pending: int = 0
    """Jobs that wait for nodes and could run on it. A job whose partitions have several pools counts in each."""
    pending_nodes: int = 0
    """Nodes that these jobs ask for."""
    oldest_pending: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    """When the one of them that waits longest was submitted."""
    reason: str = ""
    """Why nodes are missing, or why no more can be started."""


class QueueFigures(Model):
    """Jobs in figures. A job array counts once for each of its tasks."""

    running: int = 0
    """Jobs that run, or whose nodes are being started."""
    pending: int = 0
    """Jobs that wait, for whatever reason."""
    pending_nodes: int = 0
    """Nodes that the jobs ask for which wait for nothing but nodes: not held, not too early, no dependency or limit."""
    oldest_pending: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    """When the one that waits longest for nodes was submitted."""


class PartitionQueue(QueueFigures):
    """The queue of one partition. A job that names several partitions counts in each."""

    name: str
    """The partition."""


class Queue(QueueFigures):
    """The queue in figures."""

    partitions: Annotated[tuple[PartitionQueue, ...], Unique("name")] = ()
    """The same for each partition."""


class FleetStatus(Model):
    """The cluster's part of the fleet in figures."""

    granted: int = 0
    """Kubernetes nodes that it may use."""
    owned: int = 0
    """Those that are its own, and nobody else's."""
    claiming: int = 0
    """Those that are becoming its own: nothing new is placed there, and what runs there may still have to end."""
    releasing: int = 0
    """Those that are being given back."""
    foreign: int = 0
    """Granted nodes on which other work runs."""
    double_claims: int = 0
    """Pods on nodes that are not theirs to use. Anything but 0 is an alarm."""


class SlurmClusterStatus(Model):
    """What the operator last saw."""

    observed_generation: int = 0
    """The ``metadata.generation`` that the status speaks of."""
    nodes: str = ""
    """Ready / desired, for kubectl get."""
    busy: int = 0
    """Nodes that run jobs."""
    drained: int = 0
    """Nodes that take no further jobs."""
    conditions: Annotated[tuple[Condition, ...], Unique("type")] = ()
    """Statements about the cluster, each with a reason and a message."""
    endpoints: Endpoints = Endpoints()
    """Where the cluster is reached."""
    pools: Annotated[tuple[PoolStatus, ...], Unique("name")] = ()
    """Pools in figures."""
    queue: Queue = Queue()
    """The queue in figures."""
    fleet: FleetStatus = FleetStatus()
    """Kubernetes nodes in figures."""
