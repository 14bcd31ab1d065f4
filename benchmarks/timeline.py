"""When each part of a SlurmCluster came up, read from the objects as they change."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from slurmcluster_operator.model import names

Json = Mapping[str, Any]

STAGES: Final = (
    "volumes bound",
    "database ready",
    "slurmdbd ready",
    "slurmctld ready",
    "slurmrestd ready",
    "login ready",
    "slurmd pods created",
    "slurmd pods ready",
    "nodes usable",
    "Ready",
    "first job RUNNING",
    "first job COMPLETED",
)

_CONTAINERS: Final = {
    names.DATABASE: ("mariadb", "database ready"),
    names.ACCOUNTING: ("slurmdbd", "slurmdbd ready"),
    names.CONTROLLER: ("slurmctld", "slurmctld ready"),
    names.RESTAPI: ("slurmrestd", "slurmrestd ready"),
    names.LOGIN: ("sshd", "login ready"),
}


@dataclass
class Timeline:
    """The seconds, from the start, at which each stage was first seen."""

    volumes: int
    nodes: int
    marks: dict[str, float] = field(default_factory=dict)

    def look(self, elapsed: float, claims: Sequence[Json], pods: Sequence[Json], cluster: Json | None) -> None:
        """Note the stages that have been reached by now."""
        reached = [
            *([] if sum(bound(claim) for claim in claims) < self.volumes else ["volumes bound"]),
            *(stage for component, (container, stage) in _CONTAINERS.items() if serves(pods, component, container)),
            *self._slurmd([pod for pod in pods if component_of(pod) == names.SLURMD]),
        ]
        if cluster is not None:
            reached += cluster_stages(cluster)
        for stage in reached:
            self.marks.setdefault(stage, elapsed)

    def _slurmd(self, pods: Sequence[Json]) -> list[str]:
        if len(pods) < self.nodes:
            return []
        created = ["slurmd pods created"]
        return [*created, "slurmd pods ready"] if all(map(ready, pods)) else created


def bound(claim: Json) -> bool:
    """Tell whether a claim has its volume."""
    return bool(claim.get("status", {}).get("phase") == "Bound")


def component_of(pod: Json) -> str:
    """Return which part a pod belongs to."""
    return str(pod["metadata"].get("labels", {}).get(names.COMPONENT, ""))


def ready(pod: Json) -> bool:
    """Tell whether a pod is ready."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def serves(pods: Sequence[Json], component: str, container: str) -> bool:
    """Tell whether the container that does a part's work is ready."""
    statuses = [
        one
        for pod in pods
        if component_of(pod) == component
        for one in pod.get("status", {}).get("containerStatuses", ())
    ]
    return any(one["name"] == container and one.get("ready") for one in statuses)


def cluster_stages(cluster: Json) -> list[str]:
    """Return the stages that a SlurmCluster's own status tells of."""
    status = cluster.get("status", {})
    pools = status.get("pools", ())
    stages = []
    if pools and all(pool["ready"] >= pool["min"] for pool in pools):
        stages.append("nodes usable")
    if any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ())):
        stages.append("Ready")
    return stages


@dataclass(frozen=True)
class Spread:
    """Several measurements of one thing."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    def words(self, unit: str) -> str:
        """Return the median and the range."""
        text = f"{self.median:.1f} {unit}"
        if len(self.values) == 1:
            return text
        return f"{text}  ({min(self.values):.1f} to {max(self.values):.1f}, {len(self.values)} runs)"


def break_down(runs: Sequence[Mapping[str, float]]) -> list[tuple[str, ...]]:
    """Return a table of all stages: one column a run, and the median."""
    heading = ("seconds after apply", *(f"run {number + 1}" for number in range(len(runs))), "median")
    rows = [heading]
    for stage in sorted(STAGES, key=lambda one: Spread(tuple(run[one] for run in runs)).median):
        values = tuple(run[stage] for run in runs)
        rows.append((stage, *(f"{value:.1f}" for value in values), f"{Spread(values).median:.1f}"))
    return rows


def verdict(what: str, goal: float | None, spread: Spread, unit: str) -> tuple[str, str, str, str]:
    """Return a row of the result: what, goal, measured, ok."""
    if goal is None:
        return what, "-", spread.words(unit), "-"
    return what, f"{goal:g} {unit}", spread.words(unit), "yes" if spread.median <= goal else "NO"
