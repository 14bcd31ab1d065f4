"""Growing and shrinking: what slurmctld powers up and down, headroom, budgets, starts that fail."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from slurmcluster_operator.decide.nodes import DELETIONS, LEAVING, REGISTRATION, SHRINKING
from slurmcluster_operator.decide.plan import Plan, make_plan, resolve
from slurmcluster_operator.decide.seats import FAILED
from slurmcluster_operator.decide.starts import remember
from slurmcluster_operator.manifests.cluster import Cluster, Queues
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import (
    CommentJob,
    CreatePod,
    DeletePod,
    Drain,
    GiveUp,
    PowerDown,
    PowerUp,
    Resume,
    Undrain,
)
from slurmcluster_operator.model.holds import Memory, Sighting
from slurmcluster_operator.model.kube import Pod
from slurmcluster_operator.model.observed import Observed
from slurmcluster_operator.model.slurm import Job, Slurm, Unknown
from tests.builders import (
    NOW,
    cluster,
    container,
    fleet,
    healthy,
    kube_node,
    planned,
    pod,
    pool_json,
    slurm,
    slurmd_pod,
    starting,
    unknown,
)

OFF = "IDLE+CLOUD+POWERED_DOWN"
RISING = "MIXED+CLOUD+NOT_RESPONDING+POWERING_UP"
MANY = tuple(kube_node(f"w{number}") for number in range(400))


def created(actions: tuple[Any, ...]) -> list[str]:
    return [one.node for one in actions if isinstance(one, CreatePod)]


def only(actions: tuple[Any, ...], *kinds: type) -> tuple[Any, ...]:
    return tuple(one for one in actions if isinstance(one, kinds))


def elastic(least: int = 0, most: int = 3, **nodes: Any) -> Cluster:
    return cluster(pools=[pool_json(least, most) | {"nodes": {"min": least, "max": most, **nodes}}])


def test_a_node_that_a_job_has_just_got_is_started_before_slurmctld_powers_it_up() -> None:
    answer = slurm(**{"h100-0": "ALLOCATED+CLOUD+POWERED_DOWN", "h100-1": OFF, "h100-2": OFF})
    assert created(planned(elastic(), healthy(slurmds=(), slurm=answer))) == ["h100-0"]


@pytest.mark.parametrize(
    "state", ["ALLOCATED+POWERED_DOWN+POWERING_DOWN", "DOWN+POWERING_UP", OFF, "IDLE+POWER_UP+POWERED_DOWN"]
)
def test_no_other_node_is_started(state: str) -> None:
    answer = slurm(**{"h100-0": state, "h100-1": OFF, "h100-2": OFF})
    assert created(planned(elastic(), healthy(slurmds=(), slurm=answer))) == []


def test_a_pod_whose_slurmd_has_registered_is_kept_though_its_kubelet_has_not_said_yet_that_it_runs() -> None:
    whole = elastic()
    answer = slurm(**{"h100-0": "IDLE+CLOUD", "h100-1": OFF, "h100-2": OFF})
    assert planned(whole, healthy(slurmds=(slurmd_pod("h100-0", whole, **starting()),), slurm=answer)) == ()


@pytest.mark.parametrize("state", ["IDLE+CLOUD+DRAIN~bad fan", "IDLE+CLOUD+NOT_RESPONDING"])
def test_so_is_one_whose_node_takes_no_jobs(state: str) -> None:
    whole = elastic()
    answer = slurm(**{"h100-0": state, "h100-1": OFF, "h100-2": OFF})
    actions = planned(whole, healthy(slurmds=(slurmd_pod("h100-0", whole, **starting()),), slurm=answer))
    assert only(actions, DeletePod) == ()


def test_a_young_slurmctld_proves_no_node_idle() -> None:
    whole = elastic()
    answer = slurm(**{"h100-0": OFF, "h100-1": OFF, "h100-2": OFF})
    fresh = container("slurmctld", started=NOW - timedelta(seconds=59))
    parts = (pod(names.CONTROLLER, "demo-controller-0", containers=(fresh,)), slurmd_pod("h100-0", whole))
    observed = healthy(pods=parts, slurm=answer)
    memory = Memory(slurmctld=Sighting(("uid-of-demo-controller-0", fresh.started), NOW - timedelta(seconds=59)))
    assert planned(whole, observed, NOW, memory) == ()
    (action,) = planned(whole, observed, NOW + timedelta(seconds=2), memory)
    assert isinstance(action, DeletePod)


def test_one_look_takes_away_no_more_than_so_many_pods() -> None:
    whole = elastic(most=300)
    pods = tuple(slurmd_pod(f"h100-{number}", whole) for number in range(300))
    answer = slurm(**{f"h100-{number}": OFF for number in range(300)})
    actions = planned(whole, healthy(slurmds=pods, slurm=answer, fleet=fleet(*MANY)))
    assert len(only(actions, DeletePod)) == DELETIONS


def test_a_slurmd_that_ran_before_its_node_was_powered_up_is_replaced_once_it_is_proven_to_run_nothing() -> None:
    whole = elastic()
    pods = (slurmd_pod("h100-0", whole, ready_since=NOW),)
    states = {"h100-0": RISING, "h100-1": OFF, "h100-2": OFF}
    job = Job(7, frozenset({"RUNNING", "CONFIGURING"}), nodes="h100-0")
    observed = healthy(slurmds=pods, slurm=replace(slurm(**states), jobs=(job,)))
    late = NOW + REGISTRATION + timedelta(seconds=1)
    assert planned(whole, observed, NOW + REGISTRATION) == ()
    assert len(only(planned(whole, observed, late), DeletePod)) == 1
    at_work = structs.replace(job, state=frozenset({"RUNNING"}))
    assert planned(whole, healthy(slurmds=pods, slurm=replace(slurm(**states), jobs=(at_work,))), late) == ()
    assert planned(whole, healthy(slurmds=pods, slurm=slurm(**states)), late) == ()


def test_a_pod_that_is_gone_under_a_job_comes_back_and_one_without_a_job_is_powered_down() -> None:
    answer = slurm(**{"h100-0": "MIXED+CLOUD", "h100-1": "IDLE+CLOUD", "h100-2": OFF})
    actions = planned(elastic(), healthy(slurmds=(), slurm=answer))
    assert created(actions) == ["h100-0"]
    assert only(actions, PowerDown) == (PowerDown(("h100-1",), "no pod is there any more"),)


def test_a_persons_drained_node_is_not_powered_down_because_that_would_lift_the_drain() -> None:
    answer = slurm(**{"h100-0": "IDLE+CLOUD+DRAIN~bad fan", "h100-1": OFF, "h100-2": OFF})
    assert planned(elastic(), healthy(slurmds=(), slurm=answer)) == ()


def test_a_start_in_progress_is_not_drained_for_its_pod_or_its_pools_size() -> None:
    whole = elastic(most=1)
    leaving = slurmd_pod("h100-0", whole, deleting=True, **starting())
    beyond = slurmd_pod("h100-1", whole, **starting())
    answer = slurm(**{"h100-0": RISING, "h100-1": RISING})
    assert only(planned(whole, healthy(slurmds=(leaving, beyond), slurm=answer)), Drain) == ()
    up = slurm(**{"h100-0": "MIXED+CLOUD", "h100-1": "MIXED+CLOUD"})
    pods = (slurmd_pod("h100-0", whole, deleting=True), slurmd_pod("h100-1", whole))
    drains = only(planned(whole, healthy(slurmds=pods, slurm=up)), Drain)
    assert set(drains) == {Drain(("h100-0",), LEAVING), Drain(("h100-1",), SHRINKING)}


def test_names_beyond_max_stay_while_jobs_have_them_also_when_slurm_is_silent() -> None:
    job = Job(7, frozenset({"RUNNING"}), nodes="h100-[1,6]")
    observed = healthy(slurmds=(), slurm=replace(slurm(**{"h100-0": OFF}), jobs=(job,)))
    whole = resolve(elastic(), observed, Memory())
    assert whole.sizes == {"h100": 7}
    memory = make_plan(whole, observed, Memory(), NOW).memory
    silent = healthy(slurmds=(), slurm=unknown())
    assert resolve(elastic(), silent, memory).sizes == {"h100": 7}


@pytest.mark.parametrize("answer", [unknown(), slurm(**{"h100-0": OFF})], ids=["none", "without jobs"])
def test_what_slurm_conf_had_stays_until_slurm_says_which_jobs_have_it(answer: Slurm | Unknown) -> None:
    before = elastic(most=6).queues
    silent = healthy(slurmds=(), slurm=answer)
    smaller = resolve(elastic(most=3), silent, Memory(), before)
    assert smaller.sizes == {"h100": 6}
    read = Queues.model_validate_json(smaller.queues.model_dump_json(by_alias=True, exclude_defaults=True))
    assert resolve(elastic(most=2), silent, Memory(), read).sizes == {"h100": 6}
    known = healthy(slurmds=(), slurm=replace(slurm(**{"h100-0": OFF}), jobs=()))
    assert resolve(elastic(most=2), known, Memory(), read).sizes == {}


# Headroom and budgets


def test_headroom_is_filled_up_and_counts_what_is_on_its_way() -> None:
    whole = elastic(most=6, warm=3)
    pods = (slurmd_pod("h100-0", whole), slurmd_pod("h100-1", whole))
    answer = slurm(
        **{"h100-0": "MIXED+CLOUD", "h100-1": "IDLE+CLOUD", "h100-2": "IDLE+CLOUD+POWERING_UP+NOT_RESPONDING"}
        | {f"h100-{number}": OFF for number in range(3, 6)}
    )
    actions = planned(whole, healthy(slurmds=pods, slurm=answer))
    assert [one.nodes for one in only(actions, PowerUp)] == [("h100-3",)]


def test_a_node_that_has_registered_counts_before_its_pod_is_called_ready() -> None:
    whole = elastic(warm=1)
    answer = slurm(**{"h100-0": "IDLE+CLOUD", "h100-1": OFF, "h100-2": OFF})
    assert planned(whole, healthy(slurmds=(slurmd_pod("h100-0", whole, **starting()),), slurm=answer)) == ()


def test_headroom_is_not_filled_on_half_an_answer_and_not_beyond_the_machines() -> None:
    whole = elastic(most=4, warm=2)
    assert planned(whole, healthy(slurmds=(), slurm=slurm(**{"h100-0": OFF}))) == ()
    answer = slurm(**{f"h100-{number}": OFF for number in range(4)})
    actions = planned(whole, healthy(slurmds=(), slurm=answer, fleet=fleet(kube_node("w0"))))
    assert [one.nodes for one in only(actions, PowerUp)] == [("h100-0",)]


@pytest.mark.parametrize(
    ("nodes", "spec", "expected"), [({}, {"maxStarting": 2}, 1), ({"maxStarting": 3}, {}, 2), ({}, {}, 4)]
)
def test_no_more_starts_at_a_time_than_the_budgets_allow(nodes: Any, spec: Any, expected: int) -> None:
    whole = cluster(pools=[pool_json(0, 5) | {"nodes": {"min": 0, "max": 5, **nodes}}], **spec)
    answer = slurm(**{f"h100-{number}": RISING for number in range(5)})
    actions = planned(whole, healthy(slurmds=(slurmd_pod("h100-0", whole, **starting()),), slurm=answer))
    assert len(created(actions)) == expected


def test_two_pools_share_the_budget_of_the_cluster_within_their_own() -> None:
    h100 = pool_json(0, 4) | {"nodes": {"min": 0, "max": 4, "maxStarting": 3}}
    whole = cluster(pools=[h100, pool_json(0, 4) | {"name": "a100"}], maxStarting=6)
    answer = slurm(**{f"{pool}-{number}": RISING for pool in ("h100", "a100") for number in range(4)})
    pods = (slurmd_pod("h100-0", whole, **starting()), slurmd_pod("a100-3", whole, **starting()))
    machines = fleet(*MANY[10:30])
    first = created(planned(whole, healthy(slurmds=pods, slurm=answer, fleet=machines)))
    assert first == ["h100-1", "h100-2", "a100-0", "a100-1"]


# Starts that fail


def look(whole: Cluster, observed: Observed, memory: Memory, seconds: float) -> Plan:
    now = NOW + timedelta(seconds=seconds)
    return make_plan(resolve(whole, observed, memory), observed, memory, now)


def pulling(whole: Cluster, **changes: Any) -> Pod:
    words = {"waiting": "ImagePullBackOff", "message": "no such image"}
    return slurmd_pod("h100-0", whole, **{**starting(**words), "node_name": "w0", **changes})


def rising(**changes: Any) -> Slurm:
    jobs = (Job(7, frozenset({"RUNNING", "CONFIGURING"}), nodes="h100-0", **changes),)
    return replace(slurm(**{"h100-0": RISING, "h100-1": OFF, "h100-2": OFF}), jobs=jobs)


def test_an_image_that_cannot_be_pulled_holds_the_whole_pool_and_sends_the_job_elsewhere() -> None:
    whole = elastic()
    observed = healthy(slurmds=(pulling(whole),), slurm=rising())
    assert only(look(whole, observed, Memory(), 20).actions, GiveUp) == ()
    plan = look(whole, observed, Memory(), 26)
    words = "pod demo-h100-0, container slurmd: no such image"
    assert only(plan.actions, GiveUp) == (GiveUp(("h100-0",), f"{FAILED}: {words}"),)
    (drain,) = only(plan.actions, Drain)
    assert drain.nodes == ("h100-1", "h100-2")
    assert drain.reason.endswith(words)


def test_an_interactive_job_is_never_ended_by_giving_up() -> None:
    whole = elastic()
    plan = look(whole, healthy(slurmds=(pulling(whole),), slurm=rising(requeues=False)), Memory(), 300)
    assert only(plan.actions, GiveUp) == ()
    assert "h100" in plan.memory.holds


def test_a_start_that_was_given_up_is_powered_down_and_tried_again_after_a_while() -> None:
    whole = elastic()
    memory = look(whole, healthy(slurmds=(pulling(whole),), slurm=rising()), Memory(), 26).memory
    down = slurm(**{"h100-0": f"DOWN+CLOUD+POWERING_UP~{FAILED}: x", "h100-1": OFF, "h100-2": OFF})
    actions = look(whole, healthy(slurmds=(pulling(whole),), slurm=down), memory, 27).actions
    assert only(actions, PowerDown) == (PowerDown(("h100-0",), "they could not be started"),)
    assert [one.name for one in only(actions, DeletePod)] == ["demo-h100-0"]
    off = slurm(**{"h100-0": f"DOWN+CLOUD+POWERED_DOWN~{FAILED}: x", "h100-1": OFF, "h100-2": OFF})
    assert only(look(whole, healthy(slurmds=(), slurm=off), memory, 40).actions, Resume) == ()
    assert only(look(whole, healthy(slurmds=(), slurm=off), memory, 57).actions, Resume) == (Resume(("h100-0",)),)


def test_each_failure_in_a_row_waits_twice_as_long_and_one_attempt_counts_once() -> None:
    whole = elastic()
    observed = healthy(slurmds=(pulling(whole),), slurm=rising())
    memory = look(whole, observed, Memory(), 26).memory
    assert look(whole, observed, memory, 27).memory.holds == memory.holds
    again = look(whole, observed, memory, 60).memory.holds["h100"]
    assert (again.failures, again.until) == (2, NOW + timedelta(seconds=120))


def test_another_template_or_a_start_that_worked_ends_the_hold() -> None:
    whole = elastic()
    memory = look(whole, healthy(slurmds=(pulling(whole),), slurm=rising()), Memory(), 26).memory
    mended = cluster(
        pools=[pool_json(0, 3) | {"tolerations": [{"operator": "Exists"}]}],
    )
    assert look(mended, healthy(slurmds=(), slurm=rising()), memory, 30).memory.holds == {}
    up = slurmd_pod("h100-0", whole, created=NOW + timedelta(seconds=58))
    works = slurm(**{"h100-0": "MIXED+CLOUD", "h100-1": OFF, "h100-2": OFF})
    assert look(whole, healthy(slurmds=(up,), slurm=works), memory, 62).memory.holds == {}
    old = slurmd_pod("h100-0", whole)
    assert look(whole, healthy(slurmds=(old,), slurm=works), memory, 62).memory.holds == memory.holds


def test_a_crashing_slurmd_is_replaced_when_its_template_is_mended() -> None:
    whole = elastic()
    crash = container("slurmd", ready=False, running=False, waiting="CrashLoopBackOff", restarts=2)
    old = {names.TEMPLATE_ANNOTATION: "old"}
    pods = (slurmd_pod("h100-0", whole, ready=False, containers=(crash,), annotations=old),)
    (action,) = only(look(whole, healthy(slurmds=pods, slurm=rising()), Memory(), 5).actions, DeletePod)
    assert "template has changed" in action.why
    same = (slurmd_pod("h100-0", whole, ready=False, containers=(crash,)),)
    assert only(look(whole, healthy(slurmds=same, slurm=rising()), Memory(), 5).actions, DeletePod) == ()


def test_a_pod_that_the_api_server_refuses_is_a_failure_with_its_words() -> None:
    whole = elastic()
    observed = healthy(slurmds=(), slurm=rising())
    memory = remember(Memory(), {"h100-0": "exceeded quota"}, NOW)
    memory = remember(memory, {"h100-0": "exceeded quota"}, NOW + timedelta(seconds=9))
    assert only(look(whole, observed, memory, 9).actions, GiveUp) == ()
    assert only(look(whole, observed, memory, 11).actions, GiveUp) == (
        GiveUp(("h100-0",), f"{FAILED}: exceeded quota"),
    )


def test_a_pod_without_a_machine_waits_for_an_autoscaler_but_not_for_a_wonder() -> None:
    lost = {**starting(), "unschedulable": "0/5 nodes are available"}
    for capacity, seconds, given_up in (("Fixed", 13, True), ("Autoscaled", 600, False), ("Autoscaled", 1201, True)):
        whole = cluster(pools=[pool_json(0, 3, capacity=capacity)])
        observed = healthy(slurmds=(slurmd_pod("h100-0", whole, **lost),), slurm=rising())
        assert bool(only(look(whole, observed, Memory(), seconds).actions, GiveUp)) is given_up


def test_a_node_that_never_registers_is_held_alone_and_tried_again() -> None:
    whole = elastic()
    timeout = slurm(**{"h100-0": "DOWN+CLOUD+POWERED_DOWN~ResumeTimeout reached", "h100-1": OFF, "h100-2": OFF})
    plan = look(whole, healthy(slurmds=(), slurm=timeout), Memory(), 0)
    assert only(plan.actions, Drain, Resume) == ()
    assert list(plan.memory.holds) == ["h100-0"]
    words = f"{FAILED}: no slurmd registered within 20m"
    assert only(plan.actions, GiveUp) == (GiveUp(("h100-0",), words),)
    ours = slurm(**{"h100-0": f"DOWN+CLOUD+POWERED_DOWN~{words}", "h100-1": OFF, "h100-2": OFF})
    assert only(look(whole, healthy(slurmds=(), slurm=ours), plan.memory, 29).actions, GiveUp, Resume) == ()
    later = look(whole, healthy(slurmds=(), slurm=ours), plan.memory, 31)
    assert only(later.actions, GiveUp, Resume) == (Resume(("h100-0",)),)


def test_each_time_that_a_node_does_not_register_it_waits_longer() -> None:
    whole = elastic()
    timeout = slurm(**{"h100-0": "DOWN+CLOUD+POWERED_DOWN~ResumeTimeout reached", "h100-1": OFF, "h100-2": OFF})
    memory = look(whole, healthy(slurmds=(), slurm=timeout), Memory(), 0).memory
    again = look(whole, healthy(slurmds=(), slurm=timeout), memory, 1300)
    assert again.memory.holds["h100-0"].failures == 2
    assert only(again.actions, GiveUp, Resume) == (GiveUp(("h100-0",), f"{FAILED}: no slurmd registered within 20m"),)


def test_a_node_of_the_minimum_that_never_registers_keeps_slurms_reason_and_comes_back() -> None:
    whole = cluster(pools=[pool_json(1, 3)])
    timeout = slurm(**{"h100-0": "DOWN+CLOUD+POWERED_DOWN~ResumeTimeout reached", "h100-1": OFF, "h100-2": OFF})
    plan = look(whole, healthy(slurmds=(), slurm=timeout), Memory(), 0)
    assert only(plan.actions, GiveUp, Resume) == ()
    later = look(whole, healthy(slurmds=(), slurm=timeout), plan.memory, 31)
    assert only(later.actions, GiveUp, Resume) == (Resume(("h100-0",)),)


def test_a_node_of_the_minimum_that_was_given_up_is_not_made_and_removed_again_and_again() -> None:
    whole = cluster(pools=[pool_json(1, 3)])
    memory = look(whole, healthy(slurmds=(pulling(whole),), slurm=rising()), Memory(), 26).memory
    down = slurm(**{"h100-0": f"DOWN+CLOUD+POWERED_DOWN~{FAILED}: x", "h100-1": OFF, "h100-2": OFF})
    held = look(whole, healthy(slurmds=(pulling(whole),), slurm=down), memory, 27)
    assert [one.name for one in only(held.actions, DeletePod)] == ["demo-h100-0"]
    gone = look(whole, healthy(slurmds=(), slurm=down), held.memory, 28)
    assert only(gone.actions, CreatePod, Resume) == ()
    over = look(whole, healthy(slurmds=(), slurm=down), gone.memory, 60)
    assert only(over.actions, CreatePod, Resume) == (Resume(("h100-0",)),)
    resumed = slurm(**{"h100-0": OFF, "h100-1": OFF, "h100-2": OFF})
    assert created(look(whole, healthy(slurmds=(), slurm=resumed), over.memory, 61).actions) == ["h100-0"]


def test_a_node_that_was_given_up_keeps_its_reason_while_its_pool_is_held() -> None:
    whole = elastic()
    memory = look(whole, healthy(slurmds=(pulling(whole),), slurm=rising()), Memory(), 26).memory
    down = slurm(**{"h100-0": f"DOWN+CLOUD+POWERED_DOWN~{FAILED}: x", "h100-1": OFF, "h100-2": OFF})
    drains = only(look(whole, healthy(slurmds=(), slurm=down), memory, 30).actions, Drain)
    assert [one.nodes for one in drains] == [("h100-1", "h100-2")]


def test_a_pod_that_its_kubelet_refuses_is_given_up_at_once_and_not_made_again_and_again() -> None:
    whole = elastic()
    words = "UnexpectedAdmissionError: no healthy devices present"
    refused = slurmd_pod("h100-0", whole, **{**starting(), "phase": "Failed", "failure": words})
    plan = look(whole, healthy(slurmds=(refused,), slurm=rising()), Memory(), 1)
    (given_up,) = only(plan.actions, GiveUp)
    assert words in given_up.reason
    assert only(plan.actions, DeletePod, CreatePod) == ()
    assert list(plan.memory.holds) == ["h100-0"]


@pytest.mark.parametrize(("seconds", "given_up"), [(29, False), (31, True)])
def test_a_start_whose_former_pod_does_not_make_way_goes_elsewhere(seconds: int, *, given_up: bool) -> None:
    whole = elastic()
    left = slurmd_pod("h100-0", whole, deleting=True, asked_to_go=NOW)
    plan = look(whole, healthy(slurmds=(left,), slurm=rising()), Memory(), seconds)
    assert only(plan.actions, DeletePod, CreatePod) == ()
    words = f"pod {left.name} was asked to go at {NOW:%H:%M:%S} UTC and is still there"
    assert [one.reason.startswith(f"{FAILED}: {words}") for one in only(plan.actions, GiveUp)] == [True] * given_up
    assert list(plan.memory.holds) == ["h100-0"] * given_up


@pytest.mark.parametrize(
    ("reason", "pod", "brought_back"),
    [("Not responding", False, True), ("Not responding", True, False), ("bad fan", False, False)],
)
def test_a_node_whose_pod_is_lost_is_brought_back_once_the_pod_is_confirmed_gone(
    reason: str, *, pod: bool, brought_back: bool
) -> None:
    whole = elastic()
    answer = slurm(**{"h100-0": f"DOWN+CLOUD+NOT_RESPONDING~{reason}", "h100-1": OFF, "h100-2": OFF})
    pods = (slurmd_pod("h100-0", whole, deleting=True, ready=False),) if pod else ()
    found = only(planned(whole, healthy(slurmds=pods, slurm=answer)), PowerDown)
    assert bool(found) is brought_back
    off = slurm(**{"h100-0": f"DOWN+CLOUD+POWERED_DOWN~{reason}", "h100-1": OFF, "h100-2": OFF})
    assert bool(only(planned(whole, healthy(slurmds=pods, slurm=off)), Resume)) is brought_back


def test_a_person_who_set_a_node_down_is_left_alone() -> None:
    down = slurm(**{"h100-0": "DOWN+CLOUD+POWERED_DOWN~Ann: bad fan", "h100-1": OFF, "h100-2": OFF})
    assert planned(elastic(), healthy(slurmds=(), slurm=down)) == ()


def test_a_node_that_slurm_24_11_leaves_unanswered_is_powered_down() -> None:
    answer = slurm(**{"h100-0": f"{OFF}+NOT_RESPONDING", "h100-1": OFF, "h100-2": OFF})
    actions = planned(elastic(), healthy(slurmds=(), slurm=answer))
    assert [one.nodes for one in only(actions, PowerDown)] == [("h100-0",)]


# What users are told


def test_a_job_whose_nodes_cannot_start_is_told_why_and_later_no_longer() -> None:
    whole = elastic()
    pods = (pulling(whole),)
    (comment,) = only(look(whole, healthy(slurmds=pods, slurm=rising()), Memory(), 5).actions, CommentJob)
    assert comment == CommentJob(7, "slurmcluster: pod demo-h100-0, container slurmd: no such image")
    told = rising(comment=comment.text)
    assert only(look(whole, healthy(slurmds=pods, slurm=told), Memory(), 5).actions, CommentJob) == ()
    well = (slurmd_pod("h100-0", whole, **starting()),)
    assert only(look(whole, healthy(slurmds=well, slurm=told), Memory(), 5).actions, CommentJob) == (CommentJob(7, ""),)


def test_a_persons_comment_on_a_job_is_left_alone() -> None:
    whole = elastic()
    observed = healthy(slurmds=(pulling(whole),), slurm=rising(comment="ask Ann first"))
    assert only(look(whole, observed, Memory(), 5).actions, CommentJob) == ()


@pytest.mark.parametrize(
    ("reason", "told"), [("Resources", True), ("ReqNodeNotAvail", True), ("Dependency", False), ("Priority", False)]
)
def test_a_job_that_waits_for_machines_is_told_how_many_there_are(reason: str, *, told: bool) -> None:
    whole = elastic()
    job = Job(9, frozenset({"PENDING"}), reason=reason, partitions=("gpu",), node_count=3)
    answer = replace(slurm(**{f"h100-{number}": OFF for number in range(3)}), jobs=(job,))
    observed = healthy(slurmds=(), slurm=answer, fleet=fleet(kube_node("w0")))
    comments = only(look(whole, observed, Memory(), 0).actions, CommentJob)
    words = "slurmcluster: pool h100: there are Kubernetes nodes for 1 of its 3 nodes now"
    assert comments == ((CommentJob(9, words),) if told else ())


def held_answer(job: Job, *others: str) -> Slurm:
    down = f"DOWN+CLOUD+POWERED_DOWN~{FAILED}: x"
    return replace(slurm(**{"h100-0": down, "h100-1": others[0], "h100-2": others[1]}), jobs=(job,))


@pytest.mark.parametrize(
    ("others", "told"),
    [
        (("ALLOCATED+CLOUD", "IDLE+CLOUD+DRAIN+POWERED_DOWN~Ann: fan"), True),
        (("ALLOCATED+CLOUD", OFF), False),
    ],
)
def test_a_job_is_told_of_nodes_that_are_held_where_no_other_can_be_started(
    others: tuple[str, str], *, told: bool
) -> None:
    whole = elastic()
    timeout = slurm(**{"h100-0": "DOWN+CLOUD+POWERED_DOWN~ResumeTimeout reached", "h100-1": OFF, "h100-2": OFF})
    memory = look(whole, healthy(slurmds=(), slurm=timeout), Memory(), 0).memory
    job = Job(9, frozenset({"PENDING"}), reason="Resources", partitions=("gpu",))
    pods = (slurmd_pod("h100-1", whole),)
    observed = healthy(slurmds=pods, slurm=held_answer(job, *others))
    words = "slurmcluster: h100-0: no slurmd registered within 20m (tried again at 03:04:35 UTC)"
    comments = only(look(whole, observed, memory, 5).actions, CommentJob)
    assert comments == ((CommentJob(9, words),) if told else ())
    over = healthy(slurmds=pods, slurm=held_answer(structs.replace(job, comment=words), *others))
    assert only(look(whole, over, memory, 31).actions, CommentJob) == (CommentJob(9, ""),)


def test_a_job_that_another_pool_can_start_is_not_told_of_nodes_that_are_held() -> None:
    pools = [pool_json(0, 1), pool_json(0, 1) | {"name": "a100"}]
    whole = cluster(pools=pools, partitions=[{"name": "gpu", "pools": ["h100", "a100"]}])
    timeout = slurm(**{"h100-0": "DOWN+CLOUD+POWERED_DOWN~ResumeTimeout reached", "a100-0": OFF})
    memory = look(whole, healthy(slurmds=(), slurm=timeout), Memory(), 0).memory
    job = Job(9, frozenset({"PENDING"}), reason="Resources", partitions=("gpu",))
    for other, told in ((OFF, False), (f"{OFF}+DRAIN~Ann: fan", True)):
        answer = slurm(**{"h100-0": f"DOWN+CLOUD+POWERED_DOWN~{FAILED}: x", "a100-0": other})
        observed = healthy(slurmds=(), slurm=replace(answer, jobs=(job,)))
        assert bool(only(look(whole, observed, memory, 5).actions, CommentJob)) is told


def test_our_drain_of_an_elastic_node_is_lifted_when_it_is_off() -> None:
    answer = slurm(**{"h100-0": f"IDLE+CLOUD+DRAIN+POWERED_DOWN~{LEAVING}", "h100-1": OFF, "h100-2": OFF})
    assert planned(elastic(), healthy(slurmds=(), slurm=answer)) == (Undrain(("h100-0",)),)
