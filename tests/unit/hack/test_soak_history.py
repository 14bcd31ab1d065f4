"""The soak's observer, on watch events as the API server sends them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hack.soak import history
from hack.soak.sightings import NodeSeen, PodSeen, Sighting, from_line, node_seen, pod_seen, slurm_seen, to_line

Json = dict[str, Any]

CLUSTER = "soak.soak"
NODE = "worker-0"


def node(version: int, state: str = "", *, owner: str = CLUSTER) -> NodeSeen:
    """Return a Node as the operator marks it; without a state it is free."""
    marks = {"slurmcluster.dev/owner-state": state} if state else {}
    labels = {"slurmcluster.dev/owner": owner} if state else {}
    metadata = {"name": NODE, "resourceVersion": str(version), "labels": labels, "annotations": marks}
    return node_seen({"metadata": metadata, "spec": {}, "status": {}}, float(version))


def raw_pod(version: int, name: str, *, gpus: int = 8, namespace: str = "soak-others", **metadata: Any) -> Json:
    """Return a Pod that runs on the node."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    base = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {
        "metadata": {**base, **metadata},
        "spec": {"nodeName": NODE, "containers": [{"name": "main", "resources": {"limits": limits}}]},
        "status": {"phase": "Running"},
    }


def other(version: int, name: str = "web", *, gone: bool = False, phase: str = "Running", **changes: Any) -> PodSeen:
    """Return a sighting of somebody else's pod."""
    raw = raw_pod(version, name, **changes)
    raw["status"]["phase"] = phase
    return pod_seen(raw, float(version), gone=gone)


def slurmd(version: int, seat: str = "h100-0", *, gone: bool = False, ready: bool = True) -> PodSeen:
    """Return a sighting of a slurmd pod."""
    labels = {"slurmcluster.dev/node": seat, "app.kubernetes.io/instance": "soak"}
    raw = raw_pod(version, f"soak-{seat}", namespace="soak", labels=labels)
    raw["status"]["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]
    return pod_seen(raw, float(version), gone=gone)


def wrong(*seen: Sighting, start: int = 0) -> list[str]:
    """Return the words of all double claims."""
    return [claim.words for claim in history.double_claims(seen, start)]


ROUND_TRIP: tuple[Sighting, ...] = (
    other(1, "web-1"),
    node(2, "Claiming"),
    other(3, "web-1", phase="Succeeded"),
    node(4, "Owned"),
    slurmd(5, ready=False),
    slurmd(6),
    slurmd(7),
    slurmd(8, gone=True),
    node(9, "Releasing"),
    node(10),
    other(11, "web-2"),
    node(12, "Claiming"),
    other(13, "web-2", gone=True),
    node(14, "Owned"),
    slurmd(15, "h100-1"),
)


def test_a_round_trip_is_one_and_nothing_is_wrong() -> None:
    assert wrong(*ROUND_TRIP) == []
    used = history.uses(ROUND_TRIP)
    assert used == {NODE: ["Kubernetes", "Slurm", "Kubernetes", "Slurm"]}
    assert history.round_trips(used[NODE]) == 1
    first, second = history.tenures(ROUND_TRIP, CLUSTER)
    assert (first.claimed, first.served, first.freed, first.seats, first.reclaimed) == (2, 6, 10, ["h100-0"], True)
    assert (second.claimed, second.served, second.freed, second.seats) == (12, 15, None, ["h100-1"])


def test_a_slurmd_that_comes_again_to_the_same_node_is_no_round_trip() -> None:
    used = history.uses([node(1, "Owned"), slurmd(2), slurmd(3, gone=True), slurmd(4, "h100-1")])
    assert used == {NODE: ["Slurm"]}
    assert history.round_trips(used[NODE]) == 0


def test_a_pod_that_is_bound_to_an_owned_node_is_a_double_claim() -> None:
    assert wrong(node(1, "Owned"), other(2)) == ["pod soak-others/web is there, and soak.soak owns the node"]
    assert wrong(node(1, "Owned"), other(2, gpus=0)) == ["pod soak-others/web is there, and soak.soak owns the node"]
    assert wrong(node(1, "Releasing"), other(2)) == ["pod soak-others/web is there, and soak.soak owns the node"]
    assert wrong(node(1, "Claiming"), other(2)) == []
    assert wrong(node(1, "Owned"), slurmd(2), other(3), other(4, phase="Failed"), start=1) == [
        "slurmd soak/soak-h100-0 and pod soak-others/web, which has GPUs, are there",
        "pod soak-others/web is there, and soak.soak owns the node",
    ]


@pytest.mark.parametrize(
    "before",
    [other(1), other(1, deletionTimestamp="2026-11-21T19:00:00Z"), other(1, phase="Pending")],
    ids=["runs", "is being deleted", "has been bound"],
)
def test_a_node_that_is_owned_too_early_is_a_double_claim(before: PodSeen) -> None:
    assert wrong(before, node(2, "Claiming"), node(3, "Owned"), other(4, gone=True)) == [
        "pod soak-others/web is there, and soak.soak owns the node"
    ]


def test_a_slurmd_beside_another_or_where_the_node_is_not_its_clusters_is_a_double_claim() -> None:
    assert wrong(node(1, "Owned"), slurmd(2), slurmd(3, "a100-0")) == [
        "slurmd soak/soak-a100-0 and soak/soak-h100-0 are there"
    ]
    assert wrong(node(1, "Owned"), slurmd(2), node(3)) == ["slurmd soak/soak-h100-0 is there, and nobody has the node"]
    assert wrong(node(1, "Owned", owner="b.y"), slurmd(2)) == ["slurmd soak/soak-h100-0 is there, and b.y has the node"]


def test_a_double_claim_that_was_recorded_on_a_real_cluster_is_found() -> None:
    """Without admission, two pods with ``nodeName``. The kubelet refused the first for want of GPUs within 15 ms."""
    recorded = Path(__file__).with_name("soak-double-claim.jsonl").read_text().splitlines()
    seen = [from_line(line) for line in recorded]
    assert [(claim.node, claim.version, claim.words) for claim in history.double_claims(seen, 35723)] == [
        ("worker-2", 35796, "slurmd soak/soak-a100-0 and pod soak-others/intruder, which has GPUs, are there"),
        ("worker-2", 35796, "pod soak-others/intruder is there, and soak.soak owns the node"),
        ("worker-2", 35798, "pod soak-others/without-gpus is there, and soak.soak owns the node"),
    ]
    alone = [one for one in seen if not (isinstance(one, PodSeen) and one.kind == "other")]
    assert len(alone) == len(seen) - 4
    assert history.double_claims(alone, 35723) == []


def test_the_order_is_that_of_the_versions_and_not_of_arrival() -> None:
    # The watch of Nodes may tell before that of Pods does: by arrival this would be wrong, and the other one right.
    assert wrong(node(3, "Owned"), other(1), other(2, gone=True)) == []
    assert wrong(other(3, gone=True), other(1), node(2, "Owned")) == [
        "pod soak-others/web is there, and soak.soak owns the node"
    ]


def test_what_may_run_anywhere_is_none() -> None:
    daemon: Json = {"ownerReferences": [{"kind": "DaemonSet", "name": "agent", "controller": True}]}
    mirror: Json = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    anywhere = [
        other(2, "dns", namespace="kube-system"),
        other(3, "agent", gpus=0, **daemon),
        other(4, "static", **mirror),
    ]
    assert wrong(node(1, "Owned"), slurmd(1), *anywhere) == []
    assert wrong(node(1, "Owned"), other(2, "agent", **daemon)) == [
        "pod soak-others/agent is there, and soak.soak owns the node"
    ]


def test_a_double_claim_is_told_once_and_only_from_the_start_of_the_watch_on() -> None:
    seen: list[Sighting] = [node(1, "Owned"), other(2), other(3), other(4)]
    (claim,) = history.double_claims(seen, start=0)
    assert (claim.node, claim.version) == (NODE, 2)
    assert [one.version for one in history.double_claims(seen, start=3)] == [3]
    assert wrong(node(1, "Owned"), other(2), other(3, gone=True), start=3) == []


def test_a_job_that_slurm_runs_beside_a_pod_in_two_looks_is_a_double_claim_even_without_a_slurmd_pod() -> None:
    there: list[Sighting] = [node(1, "Owned"), slurmd(2), slurmd(3, gone=True), node(4), other(5)]
    looks = [slurm_seen("7 h100-0\n", version, float(version)) for version in (6, 7)]
    assert wrong(*there, looks[0]) == []
    assert wrong(*there, *looks) == ["job 7 runs on h100-0 beside pod soak-others/web in two looks"]
    assert wrong(*there, looks[0], slurm_seen("", 7, 7.0), slurm_seen("7 h100-0\n", 8, 8.0)) == []
    assert wrong(*there, looks[0], other(6, gone=True), looks[1]) == []


@pytest.mark.parametrize("seen", [node(1, "Owned"), other(2), slurmd(3), slurm_seen("7 h100-0\n7 h100-1\n", 4, 4.0)])
def test_a_record_holds_everything(seen: Sighting) -> None:
    assert from_line(to_line(seen)) == seen


def test_what_became_of_other_pods() -> None:
    evicted = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]}
    asked = raw_pod(4, "asked", deletionTimestamp="2026-11-21T19:00:00Z")
    asked["status"] |= evicted
    seen = [
        other(1, "done", phase="Succeeded"),
        other(2, "killed"),
        other(3, "killed", phase="Failed"),
        pod_seen(asked, 4.0),
        other(5, "done", gone=True, phase="Succeeded"),
        other(6, "waits", phase="Pending"),
        other(7, "no-gpu", gpus=0),
        slurmd(8),
    ]
    assert history.pod_figures(seen) == {"ran": 3, "completed": 1, "evicted": 1, "failed": 1}
