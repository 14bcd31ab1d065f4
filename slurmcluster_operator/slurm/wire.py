"""slurmrestd's replies, the few fields that are read, straight from bytes."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Problem(_Wire):
    """An entry of ``errors[]``: present, the reply is a failure whatever its HTTP status."""

    description: str | None = None
    error: str | None = None
    source: str | None = None

    def __str__(self) -> str:
        return ": ".join(part for part in (self.error, self.description) if part) or "unnamed error"


class Reply(_Wire):
    """What every reply has."""

    errors: tuple[Problem, ...] = ()


class Node(_Wire):
    """A node: its name, flags and reason."""

    name: str
    state: tuple[str, ...]
    reason: str = ""


class NodesReply(Reply):
    """``GET /nodes/``."""

    nodes: tuple[Node, ...]


class Statistics(_Wire):
    """The few figures of ``/diag/`` that are read."""

    jobs_running: int = 0
    jobs_pending: int = 0
    dbd_agent_queue_size: int = 0


class DiagReply(Reply):
    """``GET /diag/``."""

    statistics: Statistics = Field(default_factory=Statistics)


class Controller(_Wire):
    """Where slurmdbd believes a cluster's slurmctld to be; an empty host means that it is not connected."""

    host: str = ""
    port: int = 0


class DbCluster(_Wire):
    """A cluster in slurmdbd."""

    name: str
    controller: Controller = Controller()


class ClustersReply(Reply):
    """``GET /slurmdb/…/clusters/``."""

    clusters: tuple[DbCluster, ...] = ()


def node_update(states: list[str], reason: str = "") -> dict[str, Any]:
    """Return the body of a node update."""
    return {"state": states, **({"reason": reason} if reason else {})}
