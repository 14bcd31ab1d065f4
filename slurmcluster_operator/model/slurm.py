"""Slurm as decisions see it. Unknown is a value of its own, never an empty answer."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from slurmcluster_operator.model.names import DRAIN_PREFIX

_UNUSABLE: Final = (
    "DRAIN",
    "DOWN",
    "FAIL",
    "NOT_RESPONDING",
    "POWERED_DOWN",
    "POWERING_DOWN",
    "POWERING_UP",
    "INVALID_REG",
    "MAINTENANCE",
)

_NOT_FOR_NODES: Final = frozenset(
    {
        "JobHeldUser",
        "JobHeldAdmin",
        "Dependency",
        "DependencyNeverSatisfied",
        "BeginTime",
        "JobArrayTaskLimit",
        "PartitionDown",
        "PartitionInactive",
        "PartitionTimeLimit",
        "PartitionNodeLimit",
        "Licenses",
        "Prolog",
        "Reservation",
        "DeadLine",
        "BadConstraints",
    }
)
"""Reasons of pending jobs that no further node would change; limits of associations and QOS besides."""


class SlurmNode(msgspec.Struct, frozen=True, gc=False):
    """One node as slurmctld sees it. ``state`` holds Slurm's own flags, as IDLE, CLOUD or DRAIN."""

    name: str
    state: frozenset[str]
    reason: str = ""

    def has(self, *flags: str) -> bool:
        """Tell whether any of the flags is set."""
        return not self.state.isdisjoint(flags)

    @property
    def facts(self) -> Facts:
        """What its flags mean."""
        return _facts(self.state)

    @property
    def starting(self) -> bool:
        """Whether slurmctld waits for its slurmd: it is being powered up, or a job has just got it."""
        return _facts(self.state).starting

    @property
    def off(self) -> bool:
        """Powered down, and nobody has asked for it."""
        return _facts(self.state).off

    @property
    def busy(self) -> bool:
        """Whether a job runs on it, waits for it, or is being cleaned up."""
        return _facts(self.state).busy

    @property
    def usable(self) -> bool:
        """Whether a job sent there now would run."""
        return _facts(self.state).usable

    @property
    def registered(self) -> bool:
        """Whether slurmctld has heard of a slurmd there, whether or not jobs may go to it."""
        return not (self.off or self.starting or self.has("DOWN"))

    @property
    def drained_by_us(self) -> bool:
        """Whether its drain is one that we set, and may lift."""
        return self.has("DRAIN") and self.reason.startswith(DRAIN_PREFIX)

    @property
    def drained_by_others(self) -> bool:
        """Whether a person, or Slurm itself, drained it."""
        return self.has("DRAIN") and not self.reason.startswith(DRAIN_PREFIX)


class Facts(NamedTuple):
    """What a set of flags means."""

    starting: bool
    off: bool
    busy: bool
    usable: bool


NOTHING_KNOWN: Final = Facts(starting=False, off=False, busy=False, usable=False)
"""Of a node that slurmctld did not name."""


@functools.lru_cache(maxsize=4096)
def _facts(state: frozenset[str]) -> Facts:
    """Thousands of nodes share a handful of states."""
    chosen = not state.isdisjoint({"ALLOCATED", "MIXED"}) and "POWERED_DOWN" in state and "POWERING_DOWN" not in state
    starting = "DOWN" not in state and (chosen or "POWERING_UP" in state)
    return Facts(
        starting=starting,
        off=not starting and not state.isdisjoint({"POWERED_DOWN", "POWERING_DOWN"}),
        busy=not state.isdisjoint({"ALLOCATED", "MIXED", "COMPLETING"}),
        usable=not state.isdisjoint({"IDLE", "ALLOCATED", "MIXED"}) and state.isdisjoint(_UNUSABLE),
    )


class Job(msgspec.Struct, frozen=True, gc=False):
    """One job, or the part of a job array that has not begun."""

    id: int
    state: frozenset[str]
    """Slurm's own flags, as PENDING, RUNNING or CONFIGURING."""
    reason: str = ""
    """Why it waits, in Slurm's one word: Resources, Priority, Dependency…"""
    partitions: tuple[str, ...] = ()
    """The one it runs in, or all that it may run in."""
    nodes: str = ""
    """The nodes it has, as a host list."""
    node_count: int = 1
    submitted: datetime | None = None
    tasks: int = 1
    """Tasks of the array that this record stands for."""
    requeues: bool = True
    """Whether it starts elsewhere when its nodes fail: a batch job that allows it. Others end with their nodes."""
    comment: str = ""
    """The administrator's comment; ours begin with ``DRAIN_PREFIX``."""
    cpus: int = 0
    """What it asks for altogether; 0 where it does not say."""
    gpus: int = 0

    @property
    def pending(self) -> bool:
        """Whether it waits."""
        return "PENDING" in self.state

    @property
    def configuring(self) -> bool:
        """Whether it has its nodes and waits until they are up."""
        return "CONFIGURING" in self.state

    @property
    def running(self) -> bool:
        """Whether it has nodes, up or not."""
        return "RUNNING" in self.state or self.configuring

    @property
    def wants_nodes(self) -> bool:
        """Whether it waits for nothing but nodes, or its turn at them."""
        return self.pending and self.reason not in _NOT_FOR_NODES and not self.reason.startswith(("Assoc", "QOS"))


@dataclass(frozen=True, slots=True)
class Slurm:
    """One complete, error-free set of answers from slurmrestd."""

    nodes: Mapping[str, SlurmNode]
    jobs: tuple[Job, ...] | None = None
    """All jobs that are not over; None when slurmctld did not say."""
    job_partitions: frozenset[str] = frozenset()
    """The partitions of all jobs that slurmctld remembers, also of those that are over."""
    job_hosts: frozenset[str] = frozenset()
    """The host lists of the same."""
    accounting_connected: bool | None = None
    """Whether slurmctld has its connection to slurmdbd; None when it did not say."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """No usable answer, since when, and why. It proves nothing and permits nothing."""

    reason: str
    since: datetime
