"""Kubernetes nodes and who has them: the marks on a Node, and the pods of others that run there."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from slurmcluster_operator.model import names, wire
from slurmcluster_operator.model.kube import shared

State = Literal["", "Claiming", "Owned", "Releasing"]
"""How far a claim is. Claiming: no further work of others comes, what is there may still run. Owned: the cluster's
alone. Releasing: nothing of the cluster's starts there any more. Empty: free."""

_STATES: Final = frozenset(get_args(State))
_JOINT: Final = "_"

_DOOMED: Final = frozenset({"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"})
"""Taints of a machine that its autoscaler is about to take away: no pod is to go there, whatever it tolerates."""
_KNOWN_OTHERWISE: Final = frozenset(
    {names.OWNER, *(f"node.kubernetes.io/{state}" for state in ("not-ready", "unreachable", "unschedulable"))}
)
"""Taints that say what other fields say as well."""


class Taint(NamedTuple):
    """A taint that keeps pods off a node which do not tolerate it."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What counts as foreign work on a node, as the operator's installation settles it."""

    system_namespaces: frozenset[str] = frozenset({"kube-system"})
    """Pods of these may run anywhere."""
    gpu_resources: tuple[str, ...] = ("nvidia.com/", "amd.com/gpu", "gpu.intel.com/", "habana.ai/")
    """How the names of extended resources begin that stand for GPUs."""


@dataclass(frozen=True, slots=True)
class KubeNode:
    """A Kubernetes node, with the marks of its ownership."""

    name: str
    labels: Mapping[str, str]
    ready: bool
    schedulable: bool
    """Neither cordoned, nor about to be taken away."""
    allocatable: Mapping[str, str]
    gpus: str = ""
    """Which it offers, as ``8 nvidia.com/gpu``; empty if it has none."""
    owner: str = ""
    """``namespace.name`` of the cluster that has it."""
    tainted: str = ""
    """The value of the owner's taint: the same, unless somebody has meddled."""
    state: State = ""
    since: datetime | None = None
    why: str = ""
    seat: str = ""
    """The Slurm node that it last was, as ``namespace.name/h100-3``."""
    asked_by: str = ""
    """Another cluster that asks for it."""
    asked_at: datetime | None = None
    taints: tuple[Taint, ...] = ()
    """Those that others have set, and that keep pods off."""
    uid: str = field(default="", compare=False)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any], tolerance: Tolerance = Tolerance()) -> KubeNode:
        """Read a node."""
        node = cast("wire.Node", raw)
        metadata, spec, status = node["metadata"], node.get("spec", {}), node.get("status", {})
        labels, marks = metadata.get("labels", {}), metadata.get("annotations", {})
        state = marks.get(names.OWNER_STATE, "")
        tainted, taints, doomed = _taints(tuple(_read(one) for one in spec.get("taints", ())))
        allocatable = status.get("allocatable", {})
        asker, _, asked = marks.get(names.ASKED_BY, "").partition(" ")
        return cls(
            sys.intern(metadata["name"]),
            {sys.intern(key): sys.intern(value) for key, value in labels.items()},
            any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ())),
            not (spec.get("unschedulable", False) or doomed or "deletionTimestamp" in metadata),
            shared(allocatable),
            gpus=_gpus(tuple(allocatable.items()), tolerance.gpu_resources),
            owner=sys.intern(labels.get(names.OWNER, "")),
            tainted=tainted,
            state=cast("State", sys.intern(state)) if state in _STATES else "",
            since=_time(marks.get(names.OWNER_SINCE)),
            why=sys.intern(marks.get(names.OWNER_WHY, "")),
            seat=marks.get(names.SEAT, ""),
            asked_by=asker,
            asked_at=_time(asked),
            taints=taints,
            uid=metadata.get("uid", ""),
        )

    @property
    def holder(self) -> str:
        """Whose it is: the owner's label's value, or where somebody has taken that off, another mark's."""
        return self.owner or self.tainted or self.labels.get(names.SERVES, "")

    @property
    def grant(self) -> str:
        """The label's value: the clusters that may use it."""
        return self.labels.get(names.FLEET_LABEL, "")

    @property
    def granted_to(self) -> tuple[str, ...]:
        """The clusters that may use it, each as ``namespace.name``."""
        return tuple(filter(None, self.grant.split(_JOINT)))

    def granted(self, fleet: str) -> bool:
        """Tell whether a cluster may use it."""
        grant = self.labels.get(names.FLEET_LABEL, "")
        return grant == fleet or (_JOINT in grant and fleet in grant.split(_JOINT))

    def marked(self, fleet: str) -> bool:
        """Tell whether it carries any mark of a cluster's ownership: a person may have taken some of them off."""
        return fleet in (self.owner, self.tainted, self.labels.get(names.SERVES))

    def intact(self, fleet: str) -> bool:
        """Tell whether a node that a cluster has carries all marks of that."""
        serves = self.labels.get(names.SERVES, "")
        return bool(self.state) and self.tainted == fleet and serves == (fleet if self.state == "Owned" else "")

    @property
    def step(self) -> tuple[State, datetime | None]:
        """What tells the last step of the claim from others."""
        return self.state, self.since

    def age(self, now: datetime) -> timedelta:
        """Return how long the claim has been in its state, by the clock of whoever wrote that: it may be wrong."""
        return timedelta() if self.since is None else max(timedelta(), now - self.since)

    def last_seat(self, fleet: str) -> str:
        """Return the Slurm node of a cluster that it last was; empty if it was another cluster's."""
        owner, _, seat = self.seat.partition("/")
        return seat if owner == fleet else ""


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """A pod that is bound to a node, is not over, and is neither one of ours nor let in everywhere."""

    namespace: str
    name: str
    uid: str
    node: str
    priority: int = 0
    gpus: bool = False
    deleting: bool = False

    @property
    def title(self) -> str:
        """What people call it."""
        return f"{self.namespace}/{self.name}"


def foreign_pod(raw: Mapping[str, Any], tolerance: Tolerance) -> ForeignPod | None:
    """Read a pod that carries none of our labels; None if it does not count as foreign work."""
    pod = cast("wire.Pod", raw)
    metadata, spec = pod["metadata"], pod.get("spec", {})
    node = spec.get("nodeName", "")
    over = pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
    gpus = wants_gpus(spec, tolerance)
    if not node or over or _let_in(metadata, gpus=gpus, tolerance=tolerance):
        return None
    return ForeignPod(
        sys.intern(metadata["namespace"]),
        metadata["name"],
        metadata["uid"],
        sys.intern(node),
        spec.get("priority", 0),
        gpus,
        "deletionTimestamp" in metadata,
    )


def wants_gpus(spec: wire.PodSpec, tolerance: Tolerance) -> bool:
    """Tell whether a pod asks for GPUs, as an extended resource or by a claim."""
    asked = (
        resource
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ()))
        for kind in ("limits", "requests")
        for resource in container.get("resources", {}).get(kind, ())
    )
    return bool(spec.get("resourceClaims")) or any(one.startswith(tolerance.gpu_resources) for one in asked)


def _let_in(metadata: wire.Metadata, *, gpus: bool, tolerance: Tolerance) -> bool:
    if metadata["namespace"] in tolerance.system_namespaces:
        return True
    if "kubernetes.io/config.mirror" in metadata.get("annotations", {}):
        return True
    return not gpus and any(
        one.get("controller") and one["kind"] == "DaemonSet" for one in metadata.get("ownerReferences", ())
    )


@dataclass(frozen=True)
class Fleet:
    """The part of the fleet that concerns one cluster. What follows from it alone is worked out once."""

    nodes: Sequence[KubeNode] = ()
    """Those granted to it or owned by it, and those on which its pods are."""
    foreign: Mapping[str, tuple[ForeignPod, ...]] = field(default_factory=dict)
    """By Kubernetes node."""
    slurmds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each Kubernetes node, the slurmd pods of other clusters there, as ``namespace/name``."""
    daemon_sets: tuple[str, ...] = ()
    """DaemonSets that ask for no GPU, as ``namespace.name``."""
    enforced: bool = False
    """Whether the API server refuses what would break the rules of ownership."""
    unenforced_because: str = ""
    own: str = ""
    """The cluster, as ``namespace.name``."""

    @cached_property
    def known(self) -> frozenset[str]:
        """The names of all of them."""
        return frozenset(node.name for node in self.nodes)

    @cached_property
    def granted(self) -> tuple[KubeNode, ...]:
        """Those that the cluster may use."""
        return tuple(node for node in self.nodes if node.granted(self.own))

    @cached_property
    def usable(self) -> tuple[KubeNode, ...]:
        """Those of them that work, and that nobody else has."""
        ours = {"", self.own}
        return tuple(node for node in self.granted if node.ready and node.schedulable and node.owner in ours)

    @cached_property
    def owned(self) -> tuple[KubeNode, ...]:
        """Those that it has, however far the claim is."""
        return tuple(node for node in self.nodes if node.owner == self.own)

    @cached_property
    def alone(self) -> Mapping[str, KubeNode]:
        """Those that are its alone, with all marks of that, by name. In a large cluster most are."""
        return {node.name: node for node in self.owned if node.state == "Owned" and node.intact(self.own)}

    @cached_property
    def others(self) -> tuple[KubeNode, ...]:
        """All but these."""
        return tuple(node for node in self.nodes if node.name not in self.alone)

    @cached_property
    def contested(self) -> tuple[KubeNode, ...]:
        """Those that it shares with other clusters, or asks for."""
        return tuple(node for node in self.nodes if node.asked_by == self.own or node.grant != self.own)

    @cached_property
    def marked(self) -> frozenset[str]:
        """The names of those that carry any mark of its ownership."""
        return frozenset(node.name for node in self.nodes if node.marked(self.own))

    @cached_property
    def suspect(self) -> tuple[KubeNode, ...]:
        """Those on which others are, or which somebody else has."""
        ours, used = {"", self.own}, self.foreign.keys() | self.slurmds.keys()
        return tuple(node for node in self.nodes if node.name in used or node.owner not in ours)

    @cached_property
    def doubtful(self) -> Mapping[str, KubeNode]:
        """Those on which the cluster may have to end its work, by name."""
        own = self.own
        return {
            node.name: node
            for node in self.nodes
            if node.owner != own or node.asked_by or node.name in self.foreign or not node.granted(own)
        }


@functools.lru_cache(maxsize=4096)
def _gpus(resources: tuple[tuple[str, str], ...], prefixes: tuple[str, ...]) -> str:
    """Name the GPUs among a node's resources: thousands of nodes offer the same."""
    return ", ".join(f"{count} {name}" for name, count in resources if name.startswith(prefixes) and count != "0")


def _read(taint: wire.Taint) -> Taint:
    return Taint(taint["key"], taint.get("value", ""), taint.get("effect", ""))


@functools.lru_cache(maxsize=4096)
def _taints(all_of_them: tuple[Taint, ...]) -> tuple[str, tuple[Taint, ...], bool]:
    """Return the owner's taint's value, the taints of others that keep pods off, and whether the node is to go.

    Thousands of nodes have equal ones, which are kept once.
    """
    tainted = next((taint.value for taint in all_of_them if taint.key == names.OWNER), "")
    hard = [taint for taint in all_of_them if taint.effect in {"NoSchedule", "NoExecute"}]
    others = tuple(taint for taint in hard if taint.key not in _KNOWN_OTHERWISE and taint.key not in _DOOMED)
    return sys.intern(tainted), others, any(taint.key in _DOOMED for taint in hard)


def _time(stamp: str | None) -> datetime | None:
    """Read a time; what a person has spoilt counts as none."""
    try:
        read = datetime.fromisoformat(stamp) if stamp else None
    except ValueError:
        return None
    return read if read is None or read.tzinfo else None
