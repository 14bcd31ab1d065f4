from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurmcluster_operator.api.status import Condition
from slurmcluster_operator.decide.capacity import feasible_nodes
from slurmcluster_operator.decide.conditions import Verdict, judge, to_conditions
from slurmcluster_operator.decide.seats import find_seats
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model import names
from slurmcluster_operator.model.fleet import ForeignPod
from slurmcluster_operator.model.holds import Memory
from slurmcluster_operator.model.kube import Claim, Workload
from slurmcluster_operator.model.observed import Observed
from slurmcluster_operator.model.slurm import Slurm
from tests.builders import (
    cluster,
    container,
    fleet,
    healthy,
    kube_node,
    pod,
    slurm,
    slurmd_pod,
    starting,
    unknown,
    without,
)


def verdicts_of(whole: Cluster, observed: Observed, errors: list[str]) -> dict[str, Verdict]:
    return judge(whole, observed, find_seats(whole, observed, {}), feasible_nodes(whole, observed), Memory(), errors)


def test_a_healthy_cluster_is_ready_and_says_nothing_bad() -> None:
    verdicts = verdicts_of(cluster(), healthy(), [])
    assert verdicts.pop("Degraded").status == "False"
    assert {kind: one.status for kind, one in verdicts.items()} == dict.fromkeys(verdicts, "True")


@pytest.mark.parametrize(
    ("part", "condition"),
    [
        (names.CONTROLLER, "ControllerReady"),
        (names.ACCOUNTING, "AccountingReady"),
        (names.DATABASE, "AccountingReady"),
        (names.RESTAPI, "RestReady"),
        (names.LOGIN, "LoginReady"),
    ],
)
def test_a_part_without_pods_is_named_and_takes_ready_away(part: str, condition: str) -> None:
    verdicts = verdicts_of(cluster(), healthy(pods=without(healthy(), part)), [])
    assert verdicts[condition].status == "False"
    assert verdicts[condition].reason == "Missing"
    assert part in verdicts[condition].message
    assert verdicts["Ready"].status == "False"
    assert verdicts["Ready"].message.startswith(verdicts[condition].message)


def test_who_is_where_he_must_not_be_is_named() -> None:
    nodes = [kube_node(f"w{number}") for number in range(8)]
    others = {node.name: (ForeignPod("web", f"shop-{node.name}", "uid", node.name),) for node in nodes}
    one = healthy(fleet=fleet(*nodes, foreign={"w1": others["w1"]}))
    verdict = verdicts_of(cluster(), one, [])["FleetConsistent"]
    assert verdict == ("False", "DoubleClaim", "pod web/shop-w1 runs on node w1, which is team.demo's")
    many = verdicts_of(cluster(), healthy(fleet=fleet(*nodes, foreign=others)), [])["FleetConsistent"].message
    assert many.count("runs on node") == 3
    assert many.endswith("; and 5 more")


def test_that_nothing_is_enforced_is_told_and_takes_nothing_away() -> None:
    words = "admission policy b only warns"
    observed = healthy(fleet=replace(healthy().fleet, enforced=False, unenforced_because=words))
    verdicts = verdicts_of(cluster(), observed, [])
    assert verdicts["FleetConsistent"] == ("True", "Unenforced", words)
    assert verdicts["Ready"].status == "True"
    assert verdicts_of(cluster(), healthy(), [])["FleetConsistent"] == ("True", "OneOwner", "")


def test_the_servers_own_words_say_why_an_image_cannot_be_pulled() -> None:
    stuck = container("sshd", ready=False, running=False, waiting="ImagePullBackOff", message="no such host")
    login = pod(names.LOGIN, "demo-login-0", ready=False, containers=(stuck,))
    verdict = verdicts_of(cluster(), healthy(pods=(*without(healthy(), names.LOGIN), login)), [])["LoginReady"]
    assert verdict == ("False", "ImageNotPullable", "pod demo-login-0, container sshd: no such host")


def test_a_crashing_part_says_what_it_said_last() -> None:
    crash = container(
        "slurmdbd", ready=False, running=False, waiting="CrashLoopBackOff", restarts=4, message="no such database"
    )
    broken = pod(names.ACCOUNTING, "demo-accounting-0", ready=False, containers=(crash,))
    verdict = verdicts_of(cluster(), healthy(pods=(*without(healthy(), names.ACCOUNTING), broken)), [])[
        "AccountingReady"
    ]
    assert verdict.reason == "Crashing"
    assert "ended 4 times: no such database" in verdict.message


def test_without_an_answer_from_slurm_the_cluster_is_not_ready() -> None:
    verdicts = verdicts_of(cluster(), healthy(slurm=unknown("it timed out")), [])
    for kind in ("SlurmReachable", "RestReady", "Ready"):
        assert verdicts[kind].status == "False"
        assert "it timed out" in verdicts[kind].message


def test_accounting_is_not_ready_while_slurmctld_is_not_connected() -> None:
    answer = healthy().slurm
    assert isinstance(answer, Slurm)
    verdict = verdicts_of(cluster(), healthy(slurm=replace(answer, accounting_connected=False)), [])["AccountingReady"]
    assert verdict.reason == "NotConnected"


def test_accounting_that_is_off_is_not_missed() -> None:
    observed = healthy(pods=without(healthy(pods=without(healthy(), names.DATABASE)), names.ACCOUNTING))
    verdicts = verdicts_of(cluster(accounting={"enabled": False}), observed, [])
    assert verdicts["AccountingReady"].reason == "Disabled"
    assert verdicts["Ready"].status == "True"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"missing_secrets": ("keys",)}, "Secret keys does not exist in namespace team"),
        ({"missing_storage_classes": ("fast",)}, "StorageClass fast does not exist"),
        ({"claim_missing": "homes"}, "there is no PersistentVolumeClaim homes"),
    ],
)
def test_what_the_spec_names_and_is_not_there_is_named(changes: dict[str, Any], words: str) -> None:
    verdicts = verdicts_of(cluster(), healthy(**changes), [])
    assert verdicts["SpecValid"].status == "False"
    assert words in verdicts["SpecValid"].message
    assert words in verdicts["Ready"].message


def test_a_pool_that_was_removed_while_it_has_pods_is_named_with_what_to_do() -> None:
    observed = healthy(pods=(*healthy().pods, slurmd_pod("a100-0")))
    verdict = verdicts_of(cluster(), observed, [])["SpecValid"]
    assert verdict.status == "False"
    assert "pool a100 is no longer in spec.pools" in verdict.message
    assert "delete pod -l app.kubernetes.io/instance=demo,slurmcluster.dev/pool=a100" in verdict.message


def test_a_part_that_waits_for_a_volume_says_which_class_is_missing() -> None:
    observed = healthy(
        pods=without(healthy(), names.LOGIN),
        claims={"demo-home": Claim("demo-home", "Pending", "fast")},
        missing_storage_classes=("fast",),
    )
    verdict = verdicts_of(cluster(), observed, [])["LoginReady"]
    assert verdict.reason == "VolumeNotBound"
    assert "fast" in verdict.message


def test_too_few_granted_nodes_are_said_with_the_label_to_set() -> None:
    waiting = slurmd_pod("h100-1", **starting(), unschedulable="0/5 nodes are available")
    observed = healthy(
        pods=(*without(healthy(), names.SLURMD), slurmd_pod("h100-0"), waiting),
        fleet=fleet(
            kube_node("w0"),
            kube_node("w1", labels={}),
            kube_node("w2", ready=False),
            kube_node("w3", allocatable={}),
        ),
    )
    verdict = verdicts_of(cluster(), observed, [])["PoolsReady"]
    assert verdict.reason == "TooFewNodes"
    assert "1 of 2 nodes ready; 1 Kubernetes nodes are granted (slurmcluster.dev/fleet=team.demo)" in verdict.message


def test_a_persons_drain_is_shown_with_its_reason() -> None:
    observed = healthy(slurm=slurm(**{"h100-0": "IDLE+DRAIN~bad fan", "h100-1": "IDLE"}))
    verdict = verdicts_of(cluster(), observed, [])["PoolsReady"]
    assert verdict.reason == "NotUsable"
    assert "h100-0 is DRAIN+IDLE (bad fan)" in verdict.message


def test_a_configuration_that_slurmctld_refuses_is_quoted() -> None:
    refused = container(
        "config", ready=False, running=False, waiting="CrashLoopBackOff", restarts=1, message="bad PriorityType"
    )
    controller = pod(names.CONTROLLER, "demo-controller-0", ready=False, containers=(container("slurmctld"), refused))
    verdicts = verdicts_of(cluster(), healthy(pods=(*without(healthy(), names.CONTROLLER), controller)), [])
    assert verdicts["ConfigApplied"] == ("False", "ReconfigureFailed", "bad PriorityType")
    assert verdicts["ControllerReady"].status == "True"
    assert verdicts["Ready"].status == "True"


def test_a_start_ends_with_a_reconfiguration() -> None:
    def controller(**watcher: Any) -> dict[str, Verdict]:
        containers = (container("slurmctld"), container("config", ready=False, **watcher))
        one = pod(names.CONTROLLER, "demo-controller-0", containers=containers)
        return verdicts_of(cluster(), healthy(pods=(*without(healthy(), names.CONTROLLER), one)), [])

    fresh = controller(starting=True)
    assert fresh["ControllerReady"].reason == "Starting"
    assert fresh["Ready"].status == "False"
    later = controller(starting=False)
    assert later["ConfigApplied"].status == "False"
    assert later["Ready"].status == "True"
    refused = controller(starting=True, restarts=1, message="bad PriorityType")
    assert refused["Ready"].status == "True"


def test_a_pod_of_an_old_template_names_the_command() -> None:
    containers = (container("slurmctld"), container("config"))
    old = pod(names.CONTROLLER, "demo-controller-0", revision="1", containers=containers)
    observed = healthy(
        pods=(*without(healthy(), names.CONTROLLER), old),
        workloads={names.CONTROLLER: Workload("demo", names.CONTROLLER, "demo-controller", 1, "2")},
    )
    verdicts = verdicts_of(cluster(), observed, [])
    assert verdicts["ConfigApplied"].reason == "RestartNeeded"
    assert "kubectl delete pod demo-controller-0" in verdicts["ConfigApplied"].message
    assert verdicts["Ready"].status == "True"


def test_what_could_not_be_done_is_told() -> None:
    assert verdicts_of(cluster(), healthy(), ["pod x exists and is not ours"])["Degraded"] == (
        "True",
        "ActionFailed",
        "pod x exists and is not ours",
    )


def test_the_transition_time_moves_only_with_the_status() -> None:
    before = [Condition(type="Ready", status="True", reason="Ready", last_transition_time="then")]
    (same,) = to_conditions({"Ready": Verdict("True", "Other", "new words")}, before, "now", 2)
    assert (same.last_transition_time, same.message) == ("then", "new words")
    (moved,) = to_conditions({"Ready": Verdict("False", "Other", "")}, before, "now", 2)
    assert moved.last_transition_time == "now"
