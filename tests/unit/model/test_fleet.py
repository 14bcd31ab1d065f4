"""What is read of Nodes and of the pods of others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slurmcluster_operator.manifests.owner import index, node_patch
from slurmcluster_operator.model import names
from slurmcluster_operator.model.fleet import KubeNode, Taint, Tolerance, foreign_pod
from tests.builders import NOW, cluster

RULES = Tolerance(frozenset({"kube-system"}), ("nvidia.com/",))
DAEMON = [{"kind": "DaemonSet", "controller": True, "name": "d", "apiVersion": "apps/v1"}]


def raw_pod(namespace: str = "web", *, gpus: int = 0, **metadata: Any) -> dict[str, Any]:
    resources = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}} if gpus else {}
    return {
        "metadata": {"namespace": namespace, "name": "p", "uid": "u", **metadata},
        "spec": {"nodeName": "w0", "priority": 7, "containers": [{"name": "c", **resources}]},
        "status": {"phase": "Running"},
    }


def raw_node(**marks: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "w0",
            "uid": "u",
            "resourceVersion": "5",
            "labels": {names.FLEET_LABEL: "a.x_b.y", names.OWNER: "a.x"},
            "annotations": marks,
        },
        "spec": {
            "taints": [
                {"key": "other", "effect": "NoExecute"},
                {"key": names.OWNER, "value": "a.x", "effect": "NoSchedule"},
            ]
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/gpu": "8"}},
    }


@pytest.mark.parametrize(
    ("pod", "counts"),
    [
        (raw_pod(), True),
        (raw_pod(gpus=8), True),
        (raw_pod("kube-system", gpus=1), False),
        (raw_pod(ownerReferences=DAEMON), False),
        (raw_pod(ownerReferences=DAEMON, gpus=1), True),
        (raw_pod(ownerReferences=[{**DAEMON[0], "controller": False}]), True),
        (raw_pod(annotations={"kubernetes.io/config.mirror": "x"}), False),
        ({**raw_pod(), "status": {"phase": "Succeeded"}}, False),
        ({**raw_pod(), "status": {"phase": "Failed"}}, False),
        ({**raw_pod(deletionTimestamp="now")}, True),
        ({**raw_pod(), "spec": {"containers": []}}, False),
    ],
)
def test_what_counts_as_other_work(pod: dict[str, Any], *, counts: bool) -> None:
    found = foreign_pod(pod, RULES)
    assert (found is not None) is counts
    if found:
        assert (found.title, found.node, found.gpus) == ("web/p", "w0", "limits" in str(pod))


def test_claims_of_devices_and_init_containers_ask_for_gpus_too() -> None:
    claims, first = raw_pod(ownerReferences=DAEMON), raw_pod(ownerReferences=DAEMON)
    claims["spec"]["resourceClaims"] = [{"name": "gpu"}]
    first["spec"]["initContainers"] = [{"name": "i", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]
    assert foreign_pod(claims, RULES)
    assert foreign_pod(first, RULES)


def test_the_marks_of_a_node_are_read() -> None:
    since = "2026-01-02T03:04:05+00:00"
    node = KubeNode.from_json(
        raw_node(**{
            names.OWNER_STATE: "Owned", names.OWNER_SINCE: since, names.SEAT: "a.x/h100-3",
            names.ASKED_BY: f"b.y {since}",
        })
    )  # fmt: skip
    assert (node.owner, node.tainted, node.state, node.granted_to) == ("a.x", "a.x", "Owned", ("a.x", "b.y"))
    assert node.since == node.asked_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (node.last_seat("a.x"), node.last_seat("b.y"), node.asked_by) == ("h100-3", "", "b.y")
    assert node.granted("b.y")
    assert not node.granted("a")


@pytest.mark.parametrize(
    ("allocatable", "gpus"),
    [
        ({"cpu": "8", "nvidia.com/gpu": "8"}, "8 nvidia.com/gpu"),
        ({"nvidia.com/gpu": "0", "amd.com/gpu": "4"}, "4 amd.com/gpu"),
        ({"nvidia.com/mig-1g.10gb": "7", "nvidia.com/gpu": "1"}, "7 nvidia.com/mig-1g.10gb, 1 nvidia.com/gpu"),
        ({"example.com/nic": "2"}, ""),
    ],
)
def test_the_gpus_of_a_node_are_read(allocatable: dict[str, str], gpus: str) -> None:
    node = raw_node()
    node["status"]["allocatable"] = allocatable
    assert KubeNode.from_json(node).gpus == gpus
    assert KubeNode.from_json(node, Tolerance(gpu_resources=("example.com/",))).gpus in {"", "2 example.com/nic"}


def with_taints(*taints: str) -> KubeNode:
    """Return a node with taints, each written as ``key=value:effect``."""
    node = raw_node()
    for taint in taints:
        known, _, effect = taint.partition(":")
        key, _, value = known.partition("=")
        node["spec"]["taints"].append({"key": key, "effect": effect, **({"value": value} if value else {})})
    return KubeNode.from_json(node)


@pytest.mark.parametrize(
    ("taint", "schedulable"),
    [
        ("ToBeDeletedByClusterAutoscaler=1700000000:NoSchedule", False),
        ("karpenter.sh/disrupted:NoSchedule", False),
        ("karpenter.sh/disrupted:NoExecute", False),
        ("karpenter.sh/disruption=disrupting:NoSchedule", False),
        ("karpenter.sh/disrupted:PreferNoSchedule", True),
        ("DeletionCandidateOfClusterAutoscaler=1700000000:PreferNoSchedule", True),
        ("dedicated=slurm:NoSchedule", True),
    ],
)
def test_a_node_that_its_autoscaler_takes_away_is_not_schedulable(taint: str, *, schedulable: bool) -> None:
    assert with_taints(taint).schedulable is schedulable


def test_a_node_that_is_being_deleted_is_not_schedulable() -> None:
    raw = raw_node()
    raw["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    assert not KubeNode.from_json(raw).schedulable


def test_the_taints_of_others_that_keep_pods_off_are_read() -> None:
    node = with_taints(
        "dedicated=slurm:NoSchedule",
        "soft:PreferNoSchedule",
        "node.kubernetes.io/not-ready:NoExecute",
        "node.kubernetes.io/unschedulable:NoSchedule",
        "node.kubernetes.io/disk-pressure:NoSchedule",
    )
    assert node.taints == (
        Taint("other", "", "NoExecute"),
        Taint("dedicated", "slurm", "NoSchedule"),
        Taint("node.kubernetes.io/disk-pressure", "", "NoSchedule"),
    )


@pytest.mark.parametrize("stamp", ["", "yesterday", "2026-01-02T03:04:05"])
def test_what_somebody_has_spoilt_counts_as_young_and_without_state(stamp: str) -> None:
    node = KubeNode.from_json(raw_node(**{names.OWNER_STATE: "Mine", names.OWNER_SINCE: stamp, names.ASKED_BY: stamp}))
    assert (node.state, node.since, node.asked_at) == ("", None, None)
    assert node.age(NOW) == timedelta()


def test_a_step_is_one_write_that_leaves_other_taints_alone_and_fails_if_the_node_has_changed() -> None:
    patch = node_patch(raw_node(), "a.x", "Owned", "why", NOW)
    assert patch["metadata"]["resourceVersion"] == "5"
    assert patch["metadata"]["labels"] == {names.OWNER: "a.x", names.SERVES: "a.x"}
    assert patch["metadata"]["annotations"] == {
        names.OWNER_STATE: "Owned",
        names.OWNER_SINCE: "2026-01-02T03:04:05+00:00",
        names.OWNER_WHY: "why",
    }
    assert [taint["key"] for taint in patch["spec"]["taints"]] == ["other", names.OWNER]
    for state in ("Claiming", "Releasing"):
        assert node_patch(raw_node(), "a.x", state, "why", NOW)["metadata"]["labels"][names.SERVES] is None
    free = node_patch(raw_node(), "a.x", "", "why", NOW)
    assert free["metadata"]["labels"] == {names.OWNER: None, names.SERVES: None}
    assert free["metadata"]["annotations"] == {
        names.OWNER_STATE: None,
        names.OWNER_SINCE: "2026-01-02T03:04:05+00:00",
        names.OWNER_WHY: "why",
    }
    assert [taint["key"] for taint in free["spec"]["taints"]] == ["other"]


def test_a_wish_is_fulfilled_by_the_claim_of_who_asked() -> None:
    asked = raw_node(**{names.ASKED_BY: "b.y 2026-01-02T03:04:05+00:00"})
    assert node_patch(asked, "b.y", "Claiming", "why", NOW)["metadata"]["annotations"][names.ASKED_BY] is None
    assert names.ASKED_BY not in node_patch(asked, "a.x", "Releasing", "why", NOW)["metadata"]["annotations"]


def test_the_index_names_nodes_pods_and_daemon_sets() -> None:
    long = "d" * 60
    made = index(cluster(), ["w1", "w0"], ["web.agent", f"web.{long}"])
    assert made["metadata"]["name"] == "fleet-team.demo"
    assert made["metadata"]["annotations"]["slurmcluster.dev/slurmd-pods"] == "^demo-(h100)-[0-9]+$"
    assert made["data"] == {"nodes": "\nw0\nw1\n", "daemonSets": f"\nweb.agent\nweb.{'d' * 58}\n"}
    assert index(cluster(), [], [])["data"] == {"nodes": "\n", "daemonSets": "\n"}
