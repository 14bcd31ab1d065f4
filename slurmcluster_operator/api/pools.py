"""What the spec says of pools of slurmd pods and of partitions over them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from slurmcluster_operator.api.pod import Toleration
from slurmcluster_operator.api.schema import Model, Rule, Shape, Unique
from slurmcluster_operator.api.values import (
    DevicePrefix,
    Duration,
    GroupName,
    ImageReference,
    LabelValue,
    MaxUnavailable,
    MemorySize,
    OverSubscribe,
    PartitionName,
    PoolName,
    ResourceName,
    StartTimeout,
    TimeLimit,
    Token,
    seconds,
)

MAX_NODES: Final = 65000
"""Nodes of one cluster. Slurm's own bound is 65,536."""

HIDDEN: Final = "slurmcluster-"
"""Begins the names of partitions that carry a pool's timeouts and that nobody can use."""

_SECONDS_OF: Final = (
    "int(self.{0}.substring(0, self.{0}.size() - 1))"
    " * {{'s': 1, 'm': 60, 'h': 3600, 'd': 86400}}[self.{0}.substring(self.{0}.size() - 1)]"
)
"""CEL for a duration in seconds."""


class Gpus(Model):
    """The GPUs of one machine."""

    type: Token = "gpu"
    """The GRES type that users ask for: ``--gres=gpu:h100:2``."""
    count: int = Field(ge=1, le=64)
    """GPUs of one machine: all that it offers to Kubernetes. Machines that offer more, or fewer, are not used."""
    resource: ResourceName = "nvidia.com/gpu"
    """The extended resource that the device plugin offers."""
    device_prefix: DevicePrefix = "/dev/nvidia"
    """Device files are this and a number from 0."""


class Machine(Model):
    """What one machine of the pool offers, as Slurm is told; compared with what slurmd finds when it registers."""

    rules = (
        Rule(
            "!has(self.threadsPerCore) || self.cpus % self.threadsPerCore == 0",
            "cpus must be a multiple of threadsPerCore",
            lambda self: self.cpus % self.threads_per_core != 0,
            field_path=".cpus",
        ),
    )

    cpus: int = Field(ge=1, le=4096)
    """Schedulable CPUs, threads counted."""
    threads_per_core: int = Field(default=1, ge=1, le=8)
    """Hardware threads of one core."""
    memory: MemorySize
    """What jobs may use. Leave some GiB to the system: a machine that has less than this is refused by Slurm."""
    gpus: Gpus | None = None
    """The GPUs; none when not set."""
    features: Annotated[tuple[Token, ...], Unique()] = Field(default=(), max_length=32)
    """For ``--constraint``. The pool's own name is always one."""


class NodeCount(Model):
    """How many nodes a pool has."""

    rules = (
        Rule(
            "self.min <= self.max",
            "min must not be greater than max",
            lambda self: self.min > self.max,
            field_path=".min",
        ),
        Rule(
            "!has(self.warm) || self.warm <= self.max",
            "warm must not be greater than max",
            lambda self: self.warm > self.max,
            field_path=".warm",
        ),
    )

    min: int = Field(ge=0, le=MAX_NODES)
    """Nodes that are always up."""
    max: int = Field(ge=1, le=MAX_NODES)
    """Nodes that Slurm may ask for."""
    warm: int = Field(default=0, ge=0, le=MAX_NODES)
    """Free nodes kept ready beyond those that run jobs, up to max; refilled as the queue takes them."""
    max_starting: int | None = Field(default=None, ge=1, le=MAX_NODES)
    """Nodes of this pool that may be starting at a time; only ``spec.maxStarting`` counts when not set."""


class Update(Model):
    """How changes reach the pool's nodes."""

    max_unavailable: MaxUnavailable = "10%"
    """Nodes that may be out at a time because of us."""


class Reclaim(Model):
    """How Kubernetes nodes that the pool claims become empty of other work."""

    policy: Literal["WhenEmpty", "Evict"] = "WhenEmpty"
    """WhenEmpty: nothing new is placed there, and what runs there comes to its end. Evict: pods below a priority are
    asked to leave through the eviction API, so that PodDisruptionBudgets hold."""
    below_priority: int = Field(default=0, ge=-(2**31), le=10**9)
    """With Evict: nodes are emptied on which every pod's priority is lower than this."""
    deadline: Duration = "10m"
    """With Evict and sharing Elastic: how long a claimed node may take to become empty before it is given back."""


class Pool(Model):
    """A set of like machines, each running one slurmd pod."""

    name: PoolName
    """Prefix of the nodes' names: ``h100`` makes ``h100-0``."""
    nodes: NodeCount
    """How many nodes. Between min and max, Slurm's queue decides."""
    capacity: Literal["Fixed", "Autoscaled"] = "Fixed"
    """Fixed: Slurm is offered as many nodes as there are Kubernetes nodes for them; the others are drained, with that
    reason. Autoscaled: all up to max are offered, because the Cluster Autoscaler or Karpenter adds machines for pods
    that wait."""
    machine: Machine
    """What one machine offers."""
    image: ImageReference | None = None
    """The image of its slurmd, in whose file system jobs run: one made from ours, with what the jobs need besides."""
    node_selector: dict[str, LabelValue] = Field(default_factory=dict, max_length=32)
    """Narrows the Kubernetes nodes granted to this cluster."""
    tolerations: tuple[Annotated[dict[str, Any], Shape(Toleration)], ...] = Field(default=(), max_length=32)
    """Taints of the machines, as in a pod."""
    sharing: Literal["Exclusive", "Elastic"] = "Exclusive"
    """Exclusive: the pool has its Kubernetes nodes, up to max, for itself. Elastic: it claims them when Slurm needs
    them; those that it does not use serve Kubernetes."""
    return_after: Duration = "1m"
    """With sharing Elastic: how long a node beyond min stays the pool's when its slurmd is gone."""
    reclaim: Reclaim = Reclaim()
    """How claimed nodes become empty of other work."""
    isolation: Literal["Cgroup", "Pod"] = "Cgroup"
    """Cgroup: privileged slurmd, each job fenced on cores, memory and devices. Pod: slurmd without privilege, jobs
    share the pod's limits; for whole-node jobs."""
    idle_timeout: Duration = "10m"
    """How long a node beyond min may be idle."""
    start_timeout: StartTimeout = "20m"
    """How long a node may take from being asked for to registering."""
    update: Update = Update()
    """How changes reach the nodes."""


class Partition(Model):
    """A queue over one or more pools."""

    rules = (
        Rule(
            "self.name.upperAscii() != 'DEFAULT'",
            "DEFAULT has a meaning of its own in slurm.conf",
            lambda self: self.name.upper() == "DEFAULT",
            field_path=".name",
        ),
        Rule(
            f"!self.name.startsWith('{HIDDEN}')",
            f"names that begin with {HIDDEN} are the operator's own",
            lambda self: self.name.startswith(HIDDEN),
            field_path=".name",
        ),
        Rule(
            "!has(self.defaultTime) || !has(self.maxTime) || self.maxTime == 'UNLIMITED'"
            " || (self.defaultTime != 'UNLIMITED'"
            f" && {_SECONDS_OF.format('defaultTime')} <= {_SECONDS_OF.format('maxTime')})",
            "defaultTime must not be longer than maxTime",
            lambda self: self.default_time is not None and _limit(self.default_time) > _limit(self.max_time),
            field_path=".defaultTime",
        ),
    )

    name: PartitionName
    """For ``--partition``."""
    pools: Annotated[tuple[PoolName, ...], Unique()] = Field(min_length=1, max_length=64)
    """Names of the pools whose nodes it has."""
    default: bool = False
    """Where jobs go that name no partition."""
    max_time: TimeLimit = "UNLIMITED"
    """How long a job may run."""
    default_time: TimeLimit | None = None
    """How long a job may run that does not say; ``maxTime`` when not set."""
    allow_groups: Annotated[tuple[GroupName, ...], Unique()] = Field(default=(), max_length=32)
    """Only members of these groups may submit; everyone when empty."""
    priority_tier: int = Field(default=1, ge=0, le=65533)
    """Jobs of a higher tier are considered first."""
    over_subscribe: OverSubscribe = "NO"
    """Whether jobs share cores. EXCLUSIVE: each job gets whole nodes. FORCE:4: up to four jobs on each core."""
    state: Literal["UP", "DOWN", "DRAIN", "INACTIVE"] = "UP"
    """DOWN: jobs queue but none starts. DRAIN: queued jobs start but none may queue. INACTIVE: neither."""


def _limit(time: str) -> float:
    return float("inf") if time == "UNLIMITED" else seconds(time)
