"""What the spec says of pools of slurmd pods and of partitions over them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from slurmcluster_operator.api.schema import Model, Rule, schema_extra, unique
from slurmcluster_operator.api.values import (
    Duration,
    GroupName,
    MaxUnavailable,
    MemorySize,
    PartitionName,
    PoolName,
    TimeLimit,
    Token,
)


class Gpus(Model):
    """The GPUs of one machine."""

    type: Token = "gpu"
    """The GRES type that users ask for: ``--gres=gpu:h100:2``."""
    count: int = Field(ge=1, le=64)
    resource: str = Field(default="nvidia.com/gpu", max_length=128, pattern=r"^[a-z0-9.-]+/[A-Za-z0-9_.-]+$")
    """The extended resource that the device plugin offers."""
    device_prefix: str = Field(default="/dev/nvidia", max_length=64, pattern=r"^/dev/[A-Za-z0-9_/-]+$")
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
    memory: MemorySize
    """What jobs may use. Leave some GiB to the system: a machine that has less than this is refused by Slurm."""
    gpus: Gpus | None = None
    features: tuple[Token, ...] = Field(default=(), max_length=32)
    """For ``--constraint``."""


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

    min: int = Field(ge=0, le=65000)
    """Nodes that are always up."""
    max: int = Field(ge=1, le=65000)
    """Nodes that Slurm may ask for."""
    warm: int = Field(default=0, ge=0, le=65000)
    """Free nodes kept ready beyond those that run jobs."""


class Update(Model):
    """How changes reach the pool's nodes."""

    max_unavailable: MaxUnavailable = "10%"


class Pool(Model):
    """A set of like machines, each running one slurmd pod."""

    name: PoolName
    nodes: NodeCount
    machine: Machine
    node_selector: dict[str, str] = Field(default_factory=dict)
    """Narrows the Kubernetes nodes granted to this cluster."""
    tolerations: tuple[dict[str, Any], ...] = Field(
        default=(), json_schema_extra={"items": {"type": "object", **schema_extra(preserve_unknown_fields=True)}}
    )
    """Taints of the machines, as in a pod."""
    isolation: Literal["Cgroup", "Pod"] = "Cgroup"
    """Cgroup: privileged slurmd, each job fenced on cores, memory and devices. Pod: slurmd without privilege, jobs
    share the pod's limits; for whole-node jobs."""
    idle_timeout: Duration = "10m"
    """How long a node beyond min may be idle."""
    start_timeout: Duration = "20m"
    """How long a node may take from being asked for to registering."""
    update: Update = Update()


class Partition(Model):
    """A queue over one or more pools."""

    rules = (
        Rule(
            "self.pools.all(p, self.pools.exists_one(q, p == q))",
            "pools must be named once each",
            lambda self: not unique(self.pools, str),
        ),
        Rule(
            "self.name != 'DEFAULT'",
            "DEFAULT has a meaning of its own in slurm.conf",
            lambda self: self.name.upper() == "DEFAULT",
        ),
    )

    name: PartitionName
    pools: tuple[PoolName, ...] = Field(min_length=1, max_length=64)
    default: bool = False
    """Where jobs go that name no partition."""
    max_time: TimeLimit = "UNLIMITED"
    default_time: TimeLimit | None = None
    allow_groups: tuple[GroupName, ...] = Field(default=(), max_length=32)
    """Only members of these groups may submit; everyone when empty."""
    priority_tier: int = Field(default=1, ge=0, le=65533)
    """Jobs of a higher tier are considered first."""
    state: Literal["UP", "DOWN", "DRAIN", "INACTIVE"] = "UP"
