"""Slurm as decisions see it. Unknown is a value of its own, never an empty answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """One node as slurmctld sees it. ``state`` holds Slurm's own flags, as IDLE, CLOUD or DRAIN."""

    name: str
    state: frozenset[str]
    reason: str = ""

    def has(self, *flags: str) -> bool:
        """Tell whether any of the flags is set."""
        return not self.state.isdisjoint(flags)

    @property
    def off(self) -> bool:
        """Powered down, and nobody has asked for it."""
        return self.has("POWERED_DOWN", "POWERING_DOWN") and not self.has("POWERING_UP")

    @property
    def busy(self) -> bool:
        """Whether a job runs on it or is being cleaned up."""
        return self.has("ALLOCATED", "MIXED", "COMPLETING")

    @property
    def usable(self) -> bool:
        """Whether a job sent there now would run."""
        return self.has("IDLE", "ALLOCATED", "MIXED") and not self.has(
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


@dataclass(frozen=True, slots=True)
class Slurm:
    """One complete, error-free set of answers from slurmrestd."""

    nodes: Mapping[str, SlurmNode]
    running: int = 0
    pending: int = 0
    accounting_connected: bool | None = None
    """Whether slurmctld has its connection to slurmdbd; None when it did not say."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """No usable answer, since when, and why. It proves nothing and permits nothing."""

    reason: str
    since: datetime
