"""What a plan may ask for. Each is one small effect; nothing else changes the world."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from slurmcluster_operator.model.fleet import State
from slurmcluster_operator.model.holds import Sighting


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create a slurmd pod."""

    node: str
    manifest: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete one pod, and only the very one that was seen (``uid``)."""

    name: str
    uid: str
    why: str


@dataclass(frozen=True, slots=True)
class AnnotatePod:
    """Change an annotation of a pod, which makes its kubelet look at the pod, and refresh its volumes, at once."""

    name: str
    annotation: str
    value: str


@dataclass(frozen=True, slots=True)
class Drain:
    """Let no further job onto nodes, with our reason."""

    nodes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Undrain:
    """Lift a drain that we set ourselves."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PowerUp:
    """Ask slurmctld to power nodes up; their pods follow once it does."""

    nodes: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class PowerDown:
    """Ask slurmctld to power nodes down once no job is there. It lifts our drain; never used on a person's."""

    nodes: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Set nodes DOWN that cannot be started, so that slurmctld gives their jobs other nodes."""

    nodes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Let slurmctld use nodes again that were set DOWN because they could not be started."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommentJob:
    """Tell the users of a job why it waits (the administrator's comment in ``scontrol show job``)."""

    job: int
    text: str


@dataclass(frozen=True, slots=True)
class RequestMachines:
    """Ask the Cluster Autoscaler for the machines of several pods at once. It goes with the pod of ``first``."""

    name: str
    first: str
    manifests: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Take the claim on a Kubernetes node one step further, if the node as it is then allows it."""

    node: str
    to: State
    """Empty gives the node back."""
    why: str
    seen: Sighting | None = field(default=None, compare=False)
    """The claim's last step, and since when it has stood, on which this one is founded."""


@dataclass(frozen=True, slots=True)
class MarkSeat:
    """Write onto a Kubernetes node which seat it serves."""

    node: str
    seat: str
    """As ``namespace.name/h100-3``."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Write onto a node of another cluster that this one asks for it, or take that back (``by`` empty)."""

    node: str
    by: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Ask a pod of others to leave a node that has been claimed, so that PodDisruptionBudgets hold."""

    namespace: str
    name: str
    uid: str
    node: str
    why: str


Own = Move | MarkSeat | Ask | Evict
"""What is done about Kubernetes nodes."""
Tell = Drain | Undrain | PowerUp | PowerDown | GiveUp | Resume | CommentJob
"""What slurmctld is told."""
Action = CreatePod | DeletePod | AnnotatePod | RequestMachines | Own | Tell
