"""What a plan may ask for. Each is one small effect; nothing else changes the world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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


Action = CreatePod | DeletePod | AnnotatePod | Drain | Undrain
