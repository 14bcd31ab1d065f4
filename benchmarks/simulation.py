"""A large cluster that is not there: Kubernetes objects and slurmrestd's records, as complete as the real ones.

One mixture of states serves all: most nodes busy, some idle, some off, some on their way up, some drained.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final

from slurmcluster_operator.api.group import API_VERSION, KIND
from slurmcluster_operator.api.spec import SlurmClusterSpec
from slurmcluster_operator.manifests import objects, slurmd
from slurmcluster_operator.manifests.build import content_hash
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model import names
from slurmcluster_operator.model.names import Names

Json = dict[str, Any]

NAMESPACE: Final = "scale"
NAME: Final = "demo"
POOLS: Final = 4
RESOURCE: Final = "nvidia.com/gpu"

MIXTURE: Final[Mapping[str, int]] = {
    "ALLOCATED": 60,
    "MIXED": 10,
    "IDLE": 15,
    "DRAIN": 3,
    "STARTING": 2,
    "OFF": 10,
}
"""How many of a hundred nodes are in which condition."""

_FLAGS: Final[Mapping[str, list[str]]] = {
    "ALLOCATED": ["ALLOCATED", "CLOUD"],
    "MIXED": ["MIXED", "CLOUD"],
    "IDLE": ["IDLE", "CLOUD"],
    "DRAIN": ["IDLE", "CLOUD", "DRAIN"],
    "STARTING": ["ALLOCATED", "CLOUD", "NOT_RESPONDING", "POWERING_UP"],
    "OFF": ["IDLE", "CLOUD", "POWERED_DOWN"],
    "ASKED": ["ALLOCATED", "CLOUD", "NOT_RESPONDING", "POWERING_UP"],
}
_SPAN: Final = 8
"""Nodes of one job."""
QUEUE: Final = 1000
"""Jobs that wait."""


@dataclass(frozen=True)
class Place:
    """One node of the simulation."""

    number: int
    pool: str
    name: str
    condition: str
    """A key of ``MIXTURE``, or ASKED: slurmctld wants it, and nothing has been done yet."""
    drained: str = ""
    """Why the operator drained it."""

    @property
    def has_pod(self) -> bool:
        """Whether a slurmd pod is there."""
        return self.condition not in {"OFF", "ASKED"}

    @property
    def runs(self) -> bool:
        """Whether that pod's slurmd serves."""
        return self.has_pod and self.condition != "STARTING"


def manifest(nodes: int) -> Json:
    """Return the SlurmCluster: elastic pools that hold ``nodes`` together, all from zero."""
    size = nodes // POOLS
    gpus = {"type": "h100", "count": 8, "resource": RESOURCE}
    machine = {"cpus": 192, "memory": "2000Gi", "gpus": gpus}
    pools = [{"name": f"h{pool}", "nodes": {"min": 0, "max": size}, "machine": machine} for pool in range(POOLS)]
    spec = {
        "accounting": {"enabled": False},
        "pools": pools,
        "partitions": [{"name": "gpu", "pools": [pool["name"] for pool in pools], "default": True}],
    }
    metadata = {"name": NAME, "namespace": NAMESPACE}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def cluster(nodes: int) -> Cluster:
    """Return the SlurmCluster as the operator reads it."""
    spec = SlurmClusterSpec.model_validate(manifest(nodes)["spec"])
    return Cluster(Names(NAMESPACE, NAME), "11111111-2222-3333-4444-555555555555", spec)


def places(nodes: int, asked: int = 0) -> list[Place]:
    """Return all nodes, their conditions spread evenly over every pool; ``asked`` of those off are wanted now."""
    wheel = [condition for condition, share in MIXTURE.items() for _ in range(share)]
    # 37 shares no factor with 100: neighbours differ, and each hundred holds the whole mixture.
    every = [
        Place(pool * (nodes // POOLS) + number, f"h{pool}", f"h{pool}-{number}", wheel[number * 37 % len(wheel)])
        for pool in range(POOLS)
        for number in range(nodes // POOLS)
    ]
    off = [place for place in every if place.condition == "OFF"]
    wanted = {place.number for place in off[:asked]}
    return [replace(place, condition="ASKED") if place.number in wanted else place for place in every]


def slurm_jobs(every: Sequence[Place]) -> Iterator[tuple[int, tuple[str, ...], str, str]]:
    """Yield number, states, nodes and reason of jobs that fit the nodes' conditions, and of a queue that waits."""
    numbers = count(1)
    for states, conditions in (
        (("RUNNING",), {"ALLOCATED", "MIXED"}),
        (("RUNNING", "CONFIGURING"), {"STARTING", "ASKED"}),
    ):
        busy = [place.name for place in every if place.condition in conditions]
        for first in range(0, len(busy), _SPAN):
            yield next(numbers), states, ",".join(busy[first : first + _SPAN]), "None"
    for _ in range(QUEUE):
        yield next(numbers), ("PENDING",), "", "Resources"


def kube_node(place: Place) -> Json:
    """Return the Kubernetes node of a place, with about the labels and conditions of a cloud's."""
    name = f"worker-{place.number}"
    labels = {
        names.FLEET_LABEL: f"{NAMESPACE}.{NAME}",
        names.OWNER: f"{NAMESPACE}.{NAME}",
        names.SERVES: f"{NAMESPACE}.{NAME}",
        names.SERVES: f"{NAMESPACE}.{NAME}",
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": f"region-1-{place.number % 3}",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    }
    amounts = {"cpu": "192", "memory": "2097152000Ki", "pods": "110", "ephemeral-storage": "900Gi", RESOURCE: "8"}
    conditions = [
        {"type": kind, "status": str(kind == "Ready"), "reason": "AsExpected", "lastHeartbeatTime": _stamp()}
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    marks = {
        names.OWNER_STATE: "Owned",
        names.OWNER_SINCE: _stamp(),
        names.OWNER_WHY: f"nobody else runs there; for pool {place.pool}",
        names.SEAT: f"{NAMESPACE}.{NAME}/{place.name}",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": marks},
        "spec": {"taints": [{"key": names.OWNER, "value": f"{NAMESPACE}.{NAME}", "effect": "NoSchedule"}]},
        "status": {"capacity": amounts, "allocatable": dict(amounts), "conditions": conditions},
    }


def part_pods(whole: Cluster) -> Iterator[Json]:
    """Yield a pod that runs for each part of the cluster."""
    parts = {names.CONTROLLER: ("slurmctld", "config"), names.RESTAPI: ("slurmrestd",), names.LOGIN: ("sshd",)}
    for number, (part, containers) in enumerate(parts.items()):
        metadata = objects.meta(whole, f"{whole.names.part(part)}-0", part)
        pod = {"spec": {"containers": [{"name": name, "image": "none"} for name in containers]}}
        status = pod_status(pod, number, runs=True)
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **pod, "status": status}


def slurmd_pods(whole: Cluster, every: list[Place]) -> Iterator[Json]:
    """Yield the slurmd pods that such a cluster has, as the operator would have made them."""
    content = content_hash(whole)
    pools = {pool.name: pool for pool in whole.spec.pools}
    for place in every:
        if place.has_pod:
            machine = f"worker-{place.number}"
            pod = slurmd.pod(whole, pools[place.pool], place.name, content, machine)
            pod["spec"]["nodeName"] = machine
            yield pod | {"status": pod_status(pod, place.number, runs=place.runs)}


def pod_status(pod: Json, number: int, *, runs: bool) -> Json:
    """Return what a kubelet would report of a pod that runs well, or of one that has just been placed."""
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    conditions = [
        {"type": kind, "status": str(runs or kind == "PodScheduled"), "lastTransitionTime": _stamp()}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    state = {"running": {"startedAt": _stamp()}} if runs else {"waiting": {"reason": "ContainerCreating"}}
    statuses = [
        {
            "name": one["name"],
            "image": one["image"],
            "imageID": "",
            "ready": runs,
            "restartCount": 0,
            "started": runs,
            "state": state,
        }
        for one in pod["spec"]["containers"]
    ]
    status = {"phase": "Running" if runs else "Pending", "conditions": conditions, "containerStatuses": statuses}
    return status | ({"podIP": address, "podIPs": [{"ip": address}], "startTime": _stamp()} if runs else {})


def with_server_fields(raw: Json, number: int) -> Json:
    """Add what an API server adds: uid, times, and as many managed fields as real objects carry."""
    metadata = raw["metadata"]
    metadata |= {
        "uid": f"00000000-0000-4000-8000-{number:012d}",
        "resourceVersion": str(1000 + number),
        "creationTimestamp": _stamp(),
    }
    return raw


def slurm_node(place: Place) -> Json:
    """Return slurmrestd's record of a node: a real one's fields, with this node's values."""
    busy = place.condition in {"ALLOCATED", "MIXED"}
    return _record("node") | {
        "name": place.name,
        "hostname": place.name,
        "address": f"10.{place.number >> 16 & 255}.{place.number >> 8 & 255}.{place.number & 255}",
        "state": _FLAGS[place.condition] + (["DRAIN"] if place.drained else []),
        "reason": place.drained or ("a person's own" if place.condition == "DRAIN" else ""),
        "cpus": 192,
        "real_memory": 2_000_000,
        "features": [place.pool],
        "active_features": [place.pool],
        "partitions": ["gpu"],
        "gres": "gpu:h100:8(S:0-1)",
        "gres_used": "gpu:h100:8(IDX:0-7)" if busy else "gpu:h100:0(IDX:N/A)",
        "tres": "cpu=192,mem=2000000M,billing=192,gres/gpu=8",
        "tres_used": "cpu=96,mem=1000000M,gres/gpu=8" if busy else "",
    }


def slurm_job(number: int, states: Sequence[str], nodes: str, reason: str) -> Json:
    """Return slurmrestd's record of a job."""
    return _record("job") | {
        "job_id": number,
        "name": f"train-{number}",
        "job_state": list(states),
        "state_reason": reason,
        "partition": "gpu",
        "nodes": nodes,
        "node_count": {"set": True, "infinite": False, "number": _SPAN},
        "user_name": "alice",
    }


def encoded(record: Json) -> bytes:
    """Return a record as slurmrestd writes it with ``SLURMRESTD_JSON=compact``: no blanks, and each slash escaped."""
    return json.dumps(record, separators=(",", ":")).replace("/", r"\/").encode()


@cache
def _record(kind: str) -> Json:
    found: Json = json.loads((Path(__file__).parent / "records" / f"{kind}.json").read_text())
    return found


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
