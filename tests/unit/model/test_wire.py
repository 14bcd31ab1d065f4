from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from slurmcluster_operator.model import wire
from slurmcluster_operator.model.fleet import KubeNode, Tolerance, foreign_pod
from slurmcluster_operator.model.kube import Container, Pod

STAMP = "2026-01-02T03:04:05Z"

# Every field that is read, with a value that no object has by default.
POD = {
    "metadata": {
        "name": "demo-h100-0",
        "namespace": "team",
        "uid": "uid",
        "resourceVersion": "1",
        "creationTimestamp": STAMP,
        "deletionTimestamp": STAMP,
        "deletionGracePeriodSeconds": 30,
        "labels": {
            "app.kubernetes.io/instance": "demo",
            "app.kubernetes.io/component": "slurmd",
            "slurmcluster.dev/node": "h100-0",
            "slurmcluster.dev/pool": "h100",
            "controller-revision-hash": "1",
        },
        "annotations": {"slurmcluster.dev/content-hash": "1234"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": True}],
        "managedFields": [{"manager": "kubelet"}],
    },
    "spec": {
        "nodeName": "w0",
        "priority": 7,
        "containers": [{"name": "slurmd", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
    },
    "status": {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "no room",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "no node", "lastTransitionTime": None},
            {"type": "Ready", "status": "True", "lastTransitionTime": STAMP},
        ],
        "initContainerStatuses": [{"name": "key", "started": False, "state": {"running": {"startedAt": STAMP}}}],
        "containerStatuses": [
            {
                "name": "slurmd",
                "ready": True,
                "restartCount": 2,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                "lastState": {"terminated": {"exitCode": 3, "message": "segfault"}},
            },
            {"name": "sidecar", "state": {"terminated": {"exitCode": 4}}},
        ],
    },
}
NODE = {
    "metadata": {
        "name": "w0",
        "uid": "uid",
        "labels": {"slurmcluster.dev/fleet": "team.demo", "slurmcluster.dev/owner": "team.demo"},
        "annotations": {
            "slurmcluster.dev/owner-state": "Owned",
            "slurmcluster.dev/owner-since": STAMP,
            "slurmcluster.dev/owner-why": "nobody else runs there",
            "slurmcluster.dev/seat": "team.demo/h100-0",
            "slurmcluster.dev/asked-by": f"team.other {STAMP}",
        },
    },
    "spec": {
        "unschedulable": True,
        "taints": [
            {"key": "slurmcluster.dev/owner", "value": "team.demo", "effect": "NoSchedule"},
            {"key": "dedicated", "value": "slurm", "effect": "NoSchedule"},
        ],
    },
    "status": {
        "allocatable": {"nvidia.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": None}],
        "images": [{"names": ["large"]}],
    },
}


def through(raw: dict[str, Any], shape: Any) -> Any:
    """Read an object as it is read from the API server."""
    return msgspec.json.decode(msgspec.json.encode(raw), type=shape)


def differing(one: Any, other: Any) -> Iterator[str]:
    """Yield the fields in which two values differ."""
    return (name for name in one.__dataclass_fields__ if getattr(one, name) != getattr(other, name))


def test_nothing_that_is_read_of_a_pod_is_skipped() -> None:
    read = Pod.from_json(through(POD, wire.Pod))
    assert read == Pod.from_json(POD)
    least = Pod.from_json({"metadata": {"name": "", "uid": "", "creationTimestamp": "2025-01-01T00:00:00Z"}})
    assert set(differing(read, least)) == set(Pod.__dataclass_fields__)
    nothing = Container("", ready=False, running=False)
    seen = {name for one in read.containers for name in differing(one, nothing)}
    assert seen == set(Container.__dataclass_fields__)


def test_nothing_that_is_read_of_a_foreign_pod_is_skipped() -> None:
    running = POD | {"status": {"phase": "Running"}}
    read = foreign_pod(through(running, wire.Pod), Tolerance())
    assert read == foreign_pod(running, Tolerance())
    assert read is not None
    assert (read.priority, read.gpus, read.deleting, read.node) == (7, True, True, "w0")
    assert foreign_pod(through(POD, wire.Pod), Tolerance()) is None, "it is over"
    daemon = {"kind": "DaemonSet", "controller": True}
    metadata = {"name": "logs", "namespace": "logging", "uid": "uid", "ownerReferences": [daemon]}
    let_in = {"metadata": metadata, "spec": {"nodeName": "w0"}}
    assert foreign_pod(through(let_in, wire.Pod), Tolerance()) is None


def test_nothing_that_is_read_of_a_node_is_skipped() -> None:
    read = KubeNode.from_json(through(NODE, wire.Node))
    assert read == KubeNode.from_json(NODE)
    assert set(differing(read, KubeNode.from_json({"metadata": {"name": ""}}))) == set(KubeNode.__dataclass_fields__)


def test_where_a_pod_was_meant_to_go_is_forgotten_once_it_is_there() -> None:
    marks = {"slurmcluster.dev/machine": "w0", "slurmcluster.dev/content-hash": "1234", "example.org/other": "1"}
    raw = {"metadata": {"name": "a", "uid": "1", "creationTimestamp": STAMP, "annotations": marks}}
    meant = Pod.from_json(raw)
    there = Pod.from_json(raw | {"spec": {"nodeName": "w0"}})
    assert (meant.machine, there.machine) == ("w0", "w0")
    assert meant.annotations == {"slurmcluster.dev/machine": "w0", "slurmcluster.dev/content-hash": "1234"}
    assert there.annotations == {"slurmcluster.dev/content-hash": "1234"}


def test_equal_texts_of_thousands_of_objects_are_kept_once() -> None:
    first, second = (KubeNode.from_json(through(NODE, wire.Node)) for _ in range(2))
    for name in ("name", "owner", "tainted", "state", "why", "allocatable", "taints"):
        assert getattr(first, name) is getattr(second, name), name
    one, other = (Pod.from_json(through(POD, wire.Pod)) for _ in range(2))
    for name in ("cluster", "component", "phase", "pool", "namespace", "node_name", "annotations"):
        assert getattr(one, name) is getattr(other, name), name
    assert one.node_name is first.name
