"""What one look hands to the next: failed starts and when they are tried again. Losing it costs one early attempt."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

Problem = Literal[
    "Refused",
    "ImageNotPullable",
    "ConfigMissing",
    "Unschedulable",
    "NoMachine",
    "Crashing",
    "Terminating",
    "NotRegistered",
    "Invalid",
]
"""Why a node does not come up."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A pool, or one seat of it, that is not started until a time because its last start failed."""

    problem: Problem
    words: str
    """For people."""
    failures: int
    """Failed attempts in a row."""
    until: datetime
    template: str
    """The pod template that failed; with another one it is tried at once."""
    pool_wide: bool = False
    """Whether every seat of the pool would fail alike."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """Something as this process found it, and when it first did, by its own clock."""

    what: Hashable
    first: datetime


@dataclass(frozen=True, slots=True)
class Memory:
    """All that is remembered between looks."""

    holds: Mapping[str, Hold] = field(default_factory=dict)
    """By the name of a pool or of a seat."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """For each pool, the node names that its pods and jobs needed when slurmctld last answered."""
    refused: Mapping[str, tuple[str, datetime]] = field(default_factory=dict)
    """Seats whose pod the API server refused to create: its words, and since when."""
    homeless: Mapping[str, tuple[str, datetime]] = field(default_factory=dict)
    """Seats that are to come up and have no machine: why, and since when."""
    empty: Mapping[str, datetime] = field(default_factory=dict)
    """Kubernetes nodes of the cluster on which no slurmd is, and since when."""
    kept_out: Mapping[str, datetime] = field(default_factory=dict)
    """Kubernetes nodes that are left to others until a time, because these could not be made to leave."""
    nodes: Mapping[str, Sighting] = field(default_factory=dict)
    """Claims and releases that are under way, and nodes that are asked for, by Kubernetes node."""
    slurmctld: Sighting | None = None
    """The slurmctld that runs."""
