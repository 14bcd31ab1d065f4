"""What the soak's observer sees of Nodes, Pods and Slurm: one value a change, with only what is judged. Pure.

Nothing of the operator's is used here: what counts as a slurmd, as foreign work and as a GPU is said once more.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

Json = Mapping[str, Any]

OWNER: Final = "slurmcluster.dev/owner"
STATE: Final = "slurmcluster.dev/owner-state"
SEAT: Final = "slurmcluster.dev/node"
SYSTEM_NAMESPACES: Final = frozenset({"kube-system", "slurmcluster-system"})
GPU: Final = "nvidia.com/gpu"


@dataclass(frozen=True)
class PodSeen:
    """A Pod as one change has left it."""

    version: int
    """Its resourceVersion. All objects share one count, so that it puts changes of different objects in order."""
    at: float
    """When it was seen, in seconds since 1970."""
    uid: str
    title: str
    """``namespace/name``."""
    kind: Literal["slurmd", "other", "system"]
    """A slurmd; work that must not be on a node of Slurm's; what may run anywhere."""
    node: str = ""
    """The Kubernetes node to which it is bound."""
    owner: str = ""
    """Of a slurmd, its cluster as ``namespace.name``."""
    seat: str = ""
    """Of a slurmd, its Slurm node."""
    gpus: bool = False
    phase: str = "Pending"
    ready: bool = False
    evicted: bool = False
    deleting: bool = False
    gone: bool = False
    """Whether the object has been removed."""

    @property
    def over(self) -> bool:
        """Whether it runs no more and never will."""
        return self.gone or self.phase in {"Succeeded", "Failed"}


@dataclass(frozen=True)
class NodeSeen:
    """A Node as one change has left it."""

    version: int
    at: float
    name: str
    owner: str = ""
    state: str = ""
    gone: bool = False


@dataclass(frozen=True)
class SlurmSeen:
    """What slurmctld said when it was asked."""

    version: int
    """The newest version that had been seen before the question."""
    at: float
    running: tuple[tuple[str, str], ...]
    """(job, Slurm node) of all running jobs."""


Sighting = PodSeen | NodeSeen | SlurmSeen
_KINDS: Final[Mapping[str, type[Sighting]]] = {"pod": PodSeen, "node": NodeSeen, "slurm": SlurmSeen}


def pod_seen(raw: Json, at: float, *, gone: bool = False) -> PodSeen:
    """Read a Pod."""
    metadata, spec, status = raw["metadata"], raw.get("spec", {}), raw.get("status", {})
    labels = metadata.get("labels", {})
    conditions = {one["type"]: one for one in status.get("conditions", ())}
    gpus, seat = _asks_for_gpus(spec), labels.get(SEAT, "")
    return PodSeen(
        int(metadata["resourceVersion"]),
        at,
        metadata["uid"],
        f"{metadata['namespace']}/{metadata['name']}",
        "slurmd" if seat else "system" if _runs_anywhere(metadata, gpus=gpus) else "other",
        spec.get("nodeName", ""),
        f"{metadata['namespace']}.{labels.get('app.kubernetes.io/instance', '')}" if seat else "",
        seat,
        gpus,
        status.get("phase", "Pending"),
        conditions.get("Ready", {}).get("status") == "True",
        conditions.get("DisruptionTarget", {}).get("reason") == "EvictionByEvictionAPI",
        "deletionTimestamp" in metadata,
        gone,
    )


def node_seen(raw: Json, at: float, *, gone: bool = False) -> NodeSeen:
    """Read a Node."""
    metadata = raw["metadata"]
    owner, state = metadata.get("labels", {}).get(OWNER, ""), metadata.get("annotations", {}).get(STATE, "")
    return NodeSeen(int(metadata["resourceVersion"]), at, metadata["name"], owner, state, gone)


def slurm_seen(squeue: str, version: int, at: float) -> SlurmSeen:
    """Read the lines ``JOB NODE``, one for each node of each running job."""
    pairs = (line.split() for line in squeue.splitlines())
    return SlurmSeen(version, at, tuple((pair[0], pair[1]) for pair in pairs if len(pair) > 1))


def to_line(seen: Sighting) -> str:
    """Write a sighting as one line of a record."""
    kind = next(name for name, one in _KINDS.items() if isinstance(seen, one))
    return json.dumps({"what": kind, **asdict(seen)}, separators=(",", ":"))


def from_line(line: str) -> Sighting:
    """Read one line of a record."""
    values = json.loads(line)
    kind = _KINDS[values.pop("what")]
    if kind is SlurmSeen:
        values["running"] = tuple((job, seat) for job, seat in values["running"])
    return kind(**values)


def _asks_for_gpus(spec: Json) -> bool:
    containers = (*spec.get("containers", ()), *spec.get("initContainers", ()))
    asked = (one.get("resources", {}) for one in containers)
    return any(GPU in {**one.get("limits", {}), **one.get("requests", {})} for one in asked)


def _runs_anywhere(metadata: Json, *, gpus: bool) -> bool:
    owners: Iterable[Json] = metadata.get("ownerReferences", ())
    daemon = any(one["kind"] == "DaemonSet" for one in owners)
    mirror = "kubernetes.io/config.mirror" in metadata.get("annotations", {})
    return metadata["namespace"] in SYSTEM_NAMESPACES or mirror or (daemon and not gpus)
