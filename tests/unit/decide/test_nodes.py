from __future__ import annotations

from datetime import timedelta

import pytest

from slurmcluster_operator.decide.nodes import LEAVING, REGISTRATION, REPLACEMENT, SHRINKING, replace_broken
from slurmcluster_operator.decide.seats import pool_sizes
from slurmcluster_operator.manifests.build import content_hash
from slurmcluster_operator.manifests.slurmd import pod as pod_manifest
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import CreatePod, DeletePod, Drain, Undrain
from slurmcluster_operator.model.kube import Workload
from slurmcluster_operator.model.slurm import Slurm, Unknown
from tests.builders import (
    NOW,
    cluster,
    container,
    healthy,
    planned,
    pod,
    pool_json,
    slurm,
    slurmd_pod,
    starting,
    unknown,
)

OFF = "IDLE+CLOUD+POWERED_DOWN"


def test_a_healthy_cluster_needs_nothing() -> None:
    assert planned(cluster(), healthy(), NOW) == ()


@pytest.mark.parametrize("known", [unknown(), slurm(**{"h100-0": OFF, "h100-1": OFF}), slurm(other="IDLE")])
def test_the_minimum_gets_its_pods_whatever_slurm_says(known: Slurm | Unknown) -> None:
    whole = cluster()
    assert planned(whole, healthy(slurmds=(), slurm=known), NOW) == tuple(
        CreatePod(node, pod_manifest(whole, whole.spec.pools[0], node, content_hash(whole), machine))
        for node, machine in (("h100-0", "w0"), ("h100-1", "w1"))
    )


def test_nodes_beyond_the_minimum_get_pods_when_slurm_powers_them_up() -> None:
    whole = cluster(pools=[pool_json(0, 3)])
    known = slurm(**{"h100-0": OFF, "h100-1": "MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", "h100-2": OFF})
    actions = planned(whole, healthy(slurmds=(), slurm=known), NOW)
    assert [one.node for one in actions if isinstance(one, CreatePod)] == ["h100-1"]
    assert len(actions) == 1


def test_nodes_beyond_the_minimum_lose_their_pods_when_slurm_powers_them_down() -> None:
    whole = cluster(pools=[pool_json(0, 3)])
    known = slurm(**{"h100-0": OFF, "h100-1": "IDLE+CLOUD"})
    actions = planned(
        whole, healthy(slurmds=(slurmd_pod("h100-0", whole), slurmd_pod("h100-1", whole)), slurm=known), NOW
    )
    assert [one.name for one in actions if isinstance(one, DeletePod)] == ["demo-h100-0"]
    assert len(actions) == 1


def test_a_node_of_the_minimum_begins_powered_down_and_is_given_time_to_register() -> None:
    known = slurm(**{"h100-0": OFF, "h100-1": "IDLE"})
    fresh = (slurmd_pod("h100-0", ready_since=NOW), slurmd_pod("h100-1"))
    assert planned(cluster(), healthy(slurmds=fresh, slurm=known), NOW + REGISTRATION) == ()
    (action,) = planned(cluster(), healthy(slurmds=fresh, slurm=known), NOW + REGISTRATION + timedelta(seconds=1))
    assert isinstance(action, DeletePod)


def test_unknown_deletes_and_drains_nothing() -> None:
    pods = (slurmd_pod("h100-0", deleting=True), slurmd_pod("h100-1"), slurmd_pod("h100-7"))
    assert planned(cluster(), healthy(slurmds=pods, slurm=unknown()), NOW + timedelta(days=1)) == ()


def test_a_pod_on_its_way_out_is_drained_with_our_reason() -> None:
    pods = (slurmd_pod("h100-0", deleting=True), slurmd_pod("h100-1"))
    assert planned(cluster(), healthy(slurmds=pods), NOW) == (Drain(("h100-0",), LEAVING),)


def test_our_drain_is_lifted_when_the_new_pod_serves() -> None:
    state = slurm(**{"h100-0": f"IDLE+CLOUD+DRAIN~{LEAVING}", "h100-1": "IDLE+CLOUD"})
    assert planned(cluster(), healthy(slurm=state), NOW) == (Undrain(("h100-0",)),)
    waiting = (slurmd_pod("h100-0", ready=False), slurmd_pod("h100-1"))
    assert planned(cluster(), healthy(slurm=state, slurmds=waiting), NOW) == ()


@pytest.mark.parametrize(
    ("state", "lifted"),
    [
        ("IDLE+CLOUD+DRAIN~Duplicate jobid", True),
        ("MIXED+CLOUD+DRAIN~Duplicate jobid", True),
        ("MIXED+CLOUD+COMPLETING+DRAIN~Duplicate jobid", False),
        ("IDLE+CLOUD+DRAIN~Prolog error", False),
    ],
)
def test_slurmctlds_drain_of_a_node_on_which_it_forgot_a_job_is_lifted_when_the_old_steps_are_gone(
    state: str, *, lifted: bool
) -> None:
    known = slurm(**{"h100-0": state, "h100-1": "IDLE+CLOUD"})
    assert planned(cluster(), healthy(slurm=known), NOW) == ((Undrain(("h100-0",)),) if lifted else ())


def test_a_persons_drain_is_never_lifted() -> None:
    state = slurm(**{"h100-0": "IDLE+CLOUD+DRAIN~bad fan, Ann", "h100-1": "IDLE+CLOUD"})
    assert planned(cluster(), healthy(slurm=state), NOW) == ()


def test_a_persons_drain_is_never_overwritten() -> None:
    state = slurm(**{"h100-0": "MIXED+CLOUD+DRAIN~bad fan, Ann", "h100-1": "IDLE+CLOUD"})
    pods = (slurmd_pod("h100-0", deleting=True), slurmd_pod("h100-1"))
    assert planned(cluster(), healthy(slurm=state, slurmds=pods), NOW) == ()


@pytest.mark.parametrize("state", ["MIXED+CLOUD+DRAIN", "ALLOCATED+DRAIN", "IDLE+COMPLETING+DRAIN", "IDLE+CLOUD"])
def test_a_node_beyond_its_pool_keeps_its_pod_until_it_is_drained_and_idle(state: str) -> None:
    pods = (slurmd_pod("h100-0"), slurmd_pod("h100-1"), slurmd_pod("h100-2"))
    known = slurm(**{"h100-0": "IDLE", "h100-1": "IDLE", "h100-2": f"{state}~{SHRINKING}"})
    observed = healthy(slurmds=pods, slurm=known)
    actions = planned(cluster(), observed, NOW)
    assert not [one for one in actions if isinstance(one, DeletePod)]
    assert actions == (() if "DRAIN" in state else (Drain(("h100-2",), SHRINKING),))


def test_a_node_beyond_its_pool_goes_when_it_is_drained_and_idle() -> None:
    pods = (slurmd_pod("h100-0"), slurmd_pod("h100-1"), slurmd_pod("h100-2"))
    known = slurm(**{"h100-0": "IDLE", "h100-1": "IDLE", "h100-2": f"IDLE+DRAIN~{SHRINKING}"})
    observed = healthy(slurmds=pods, slurm=known)
    (action,) = planned(cluster(), observed, NOW)
    assert isinstance(action, DeletePod)
    assert action.uid == "uid-of-demo-h100-2"


def test_a_pod_that_never_started_is_replaced_when_its_template_changes() -> None:
    stuck = slurmd_pod("h100-0", **starting(waiting="ImagePullBackOff"), annotations={names.TEMPLATE_ANNOTATION: "old"})
    (action,) = planned(cluster(), healthy(slurmds=(stuck, slurmd_pod("h100-1")), slurm=unknown()), NOW)
    assert isinstance(action, DeletePod)
    assert action.name == "demo-h100-0"


@pytest.mark.parametrize(
    ("state", "replaced"),
    [
        ("IDLE+CLOUD", False),
        ("MIXED+CLOUD+DRAIN", False),
        ("ALLOCATED+CLOUD+NOT_RESPONDING", False),
        ("IDLE+CLOUD+DRAIN~slurmcluster: its pod is being removed", True),
        ("IDLE+CLOUD+NOT_RESPONDING", True),
        ("DOWN+CLOUD", True),
        ("IDLE+CLOUD+POWERED_DOWN", True),
    ],
)
def test_a_slurmd_before_it_does_not_make_a_pod_one_that_has_begun(state: str, *, replaced: bool) -> None:
    stuck = slurmd_pod("h100-0", **starting(waiting="ImagePullBackOff"), annotations={names.TEMPLATE_ANNOTATION: "old"})
    observed = healthy(slurmds=(stuck, slurmd_pod("h100-1")), slurm=slurm(**{"h100-0": state, "h100-1": "IDLE"}))
    gone = [one.name for one in planned(cluster(), observed, NOW) if isinstance(one, DeletePod)]
    assert gone == ["demo-h100-0"] * replaced


def test_a_pod_that_runs_is_never_replaced_for_its_template() -> None:
    old = slurmd_pod("h100-0", annotations={names.TEMPLATE_ANNOTATION: "old"})
    crashed = slurmd_pod(
        "h100-1",
        ready=False,
        annotations={names.TEMPLATE_ANNOTATION: "old"},
        containers=(container("slurmd", ready=False, running=False, waiting="CrashLoopBackOff", restarts=3),),
    )
    assert planned(cluster(), healthy(slurmds=(old, crashed)), NOW) == ()


def test_a_pod_that_has_ended_is_removed() -> None:
    dead = slurmd_pod("h100-0", phase="Failed", ready=False)
    observed = healthy(slurmds=(dead, slurmd_pod("h100-1")), slurm=unknown())
    assert planned(cluster(), observed, NOW + REPLACEMENT) == ()
    (action,) = planned(cluster(), observed, NOW + REPLACEMENT + timedelta(seconds=1))
    assert isinstance(action, DeletePod)


def test_pods_beyond_max_keep_their_names_in_slurm_conf() -> None:
    observed = healthy(slurmds=(slurmd_pod("h100-6"), slurmd_pod("h100-2")))
    assert pool_sizes(observed) == {"h100": 7}


def test_a_stateful_sets_stuck_pod_is_replaced_once_the_template_changes() -> None:
    stuck = pod(names.LOGIN, "demo-login-0", **starting(), revision="1")
    workloads = {names.LOGIN: Workload("demo", names.LOGIN, "demo-login", 1, "2")}
    assert [one.name for one in replace_broken(healthy(pods=(stuck,), workloads=workloads))] == ["demo-login-0"]


def test_a_stateful_sets_pod_that_once_ran_is_left_alone() -> None:
    ran = pod(names.LOGIN, "demo-login-0", ready=False, revision="1")
    workloads = {names.LOGIN: Workload("demo", names.LOGIN, "demo-login", 1, "2")}
    assert list(replace_broken(healthy(pods=(ran,), workloads=workloads))) == []
