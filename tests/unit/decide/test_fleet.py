"""Which Kubernetes nodes a cluster claims, uses and gives back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from slurmcluster_operator.decide.capacity import NO_MACHINE
from slurmcluster_operator.decide.demand import demand
from slurmcluster_operator.decide.ownership import settling
from slurmcluster_operator.decide.plan import Plan, make_plan, resolve
from slurmcluster_operator.decide.pools import pool_reasons
from slurmcluster_operator.decide.seats import FAILED
from slurmcluster_operator.manifests.build import standing_objects
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.manifests.owner import node_patch
from slurmcluster_operator.manifests.slurmd import template_hash
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import (
    CreatePod,
    DeletePod,
    Drain,
    Evict,
    GiveUp,
    MarkSeat,
    Move,
    Resume,
    Undrain,
)
from slurmcluster_operator.model.fleet import ForeignPod, KubeNode, State, Taint
from slurmcluster_operator.model.holds import Hold, Memory, Sighting
from slurmcluster_operator.model.observed import Observed
from slurmcluster_operator.model.slurm import Job, Slurm
from tests.builders import (
    NOW,
    cluster,
    fleet,
    free_node,
    healthy,
    kube_node,
    planned,
    pool_json,
    slurm,
    slurmd_pod,
    unknown,
    watched,
)

STATES: tuple[State, ...] = ("Claiming", "Owned", "Releasing", "")

OFF = "IDLE+CLOUD+POWERED_DOWN"
UP = "IDLE+CLOUD+POWERING_UP"
FREE = {names.FLEET_LABEL: "team.demo"}
UNGRANTED = {names.SERVES: "team.demo"}
"""The labels of a node of the cluster's whose grant is gone."""


def pool(least: int, most: int, **changes: Any) -> Cluster:
    return cluster(pools=[pool_json(least, most, **changes)])


def look(whole: Cluster, observed: Observed, memory: Memory | None = None, seconds: int = 0) -> Plan:
    known = memory or Memory()
    known = replace(known, nodes={**watched(observed.fleet.nodes), **known.nodes})
    return make_plan(resolve(whole, observed, known), observed, known, NOW + timedelta(seconds=seconds))


def moves(plan: Plan) -> dict[str, str]:
    return {one.node: one.to for one in plan.actions if isinstance(one, Move)}


def created(plan: Plan) -> dict[str, str]:
    return {
        one.node: one.manifest["metadata"]["annotations"][names.MACHINE]
        for one in plan.actions
        if isinstance(one, CreatePod)
    }


def foreign(node: str, name: str = "train", priority: int = 0) -> ForeignPod:
    return ForeignPod("team-x", name, f"uid-of-{name}", node, priority, gpus=True)


def seen(
    *nodes: KubeNode, states: dict[str, str] | None = None, jobs: tuple[Job, ...] = (), **changes: Any
) -> Observed:
    on = {"slurmds": (), **changes}
    others = on.pop("foreign", {})
    answer = replace(slurm(**(states or {})), jobs=jobs)
    return healthy(slurm=answer, fleet=fleet(*nodes, foreign=others), **on)


def test_an_exclusive_pool_claims_as_many_as_it_may_have_and_no_more() -> None:
    plan = look(
        pool(0, 2), seen(*(free_node(f"w{number}") for number in range(3)), states={"h100-0": OFF, "h100-1": OFF})
    )
    assert moves(plan) == {"w0": "Claiming", "w1": "Claiming"}


def test_an_elastic_pool_claims_only_what_slurm_powers_up() -> None:
    whole = pool(0, 2, sharing="Elastic")
    nodes = (free_node("w0"), free_node("w1"))
    assert moves(look(whole, seen(*nodes, states={"h100-0": OFF, "h100-1": OFF}))) == {}
    assert moves(look(whole, seen(*nodes, states={"h100-0": UP, "h100-1": OFF}))) == {"w0": "Claiming"}


def test_no_pod_is_made_before_its_node_is_the_clusters_alone() -> None:
    whole, states = pool(0, 1), {"h100-0": UP}
    claimed = kube_node("w0", state="Claiming", since=NOW)
    assert created(look(whole, seen(free_node("w0"), states=states))) == {}
    young = look(whole, seen(claimed, states=states))
    assert (moves(young), created(young)) == ({}, {})
    settled = look(whole, seen(claimed, states=states), seconds=1)
    assert (moves(settled), created(settled)) == ({"w0": "Owned"}, {})
    assert created(look(whole, seen(kube_node("w0"), states=states))) == {"h100-0": "w0"}


@pytest.mark.parametrize(
    ("state", "enforced", "until"), [("Claiming", True, 1), ("Claiming", False, 5), ("Releasing", True, 5)]
)
def test_the_next_look_is_soon_while_a_step_only_has_to_stand_a_moment_longer(
    state: State, until: int, *, enforced: bool
) -> None:
    whole = fleet(kube_node("w0"), free_node("w1"), kube_node("w2", state=state, since=NOW), enforced=enforced)
    seen_since = watched(whole.nodes)
    assert settling(whole, seen_since, NOW + timedelta(seconds=until - 0.1))
    assert not settling(whole, seen_since, NOW + timedelta(seconds=until))
    others = fleet(kube_node("w2", owner="team.other", state=state, since=NOW), enforced=enforced)
    assert not settling(others, seen_since, NOW)


def test_without_enforcement_a_claim_settles_longer() -> None:
    whole, claimed = pool(0, 1), kube_node("w0", state="Claiming", since=NOW)
    observed = replace(seen(claimed, states={"h100-0": OFF}), fleet=fleet(claimed, enforced=False))
    assert moves(look(whole, observed, seconds=4)) == {}
    assert moves(look(whole, observed, seconds=5)) == {"w0": "Owned"}


def test_a_clock_that_was_ahead_makes_a_claim_young_not_old() -> None:
    claimed = kube_node("w0", state="Claiming", since=NOW + timedelta(hours=1))
    assert moves(look(pool(0, 1), seen(claimed, states={"h100-0": OFF}))) == {}


def test_a_claim_waits_for_other_work_and_says_whose() -> None:
    claimed = kube_node("w0", state="Claiming")
    plan = look(pool(1, 1), seen(claimed, states={"h100-0": OFF}, foreign={"w0": (foreign("w0"),)}))
    assert (moves(plan), created(plan)) == ({}, {})
    assert plan.memory.homeless["h100-0"][0] == "its Kubernetes node w0 is being emptied: team-x/train runs there"
    assert plan.shared["h100"] == "1 runs other work (w0: team-x/train runs there)"


def test_slurm_is_offered_no_seat_for_a_node_with_other_work_but_one_whose_work_can_be_made_to_leave() -> None:
    nodes, others = (free_node("w0"),), {"w0": (foreign("w0", priority=-5),)}
    for sharing, policy, closed in (
        ("Elastic", "WhenEmpty", True),
        ("Elastic", "Evict", False),
        ("Exclusive", "Evict", True),
    ):
        whole = pool(0, 1, sharing=sharing, reclaim={"policy": policy})
        plan = look(whole, seen(*nodes, states={"h100-0": OFF}, foreign=others))
        assert (plan.closed.get("h100-0") == NO_MACHINE) is closed, (sharing, policy)


def test_only_pods_below_the_priority_are_asked_to_leave_and_only_where_all_are() -> None:
    whole = pool(0, 1, sharing="Elastic", reclaim={"policy": "Evict", "belowPriority": 0})
    claimed = kube_node("w0", state="Claiming", since=NOW)
    spare, important = foreign("w0", "a", -1), foreign("w0", "b", 0)
    plan = look(whole, seen(claimed, states={"h100-0": UP}, foreign={"w0": (spare,)}))
    assert [one.name for one in plan.actions if isinstance(one, Evict)] == ["a"]
    mixed = look(whole, seen(claimed, states={"h100-0": UP}, foreign={"w0": (spare, important)}), seconds=6)
    assert not [one for one in mixed.actions if isinstance(one, Evict)]
    assert moves(mixed) == {"w0": ""}, "it will not become empty, so it goes back"


def test_a_node_that_does_not_become_empty_in_time_goes_back_and_is_left_alone() -> None:
    whole = pool(0, 1, sharing="Elastic", reclaim={"policy": "Evict", "deadline": "1m"})
    claimed = kube_node("w0", state="Claiming", since=NOW - timedelta(seconds=61))
    others = {"w0": (foreign("w0", priority=-1),)}
    plan = look(whole, seen(claimed, states={"h100-0": UP}, foreign=others))
    why = "within 1m it did not become empty: team-x/train runs there"
    assert [one for one in plan.actions if isinstance(one, Move)] == [Move("w0", "", why)]
    again = look(whole, seen(free_node("w0"), states={"h100-0": UP}, foreign=others), plan.memory, seconds=10)
    assert moves(again) == {}
    vacant = look(whole, seen(free_node("w0"), states={"h100-0": UP}), again.memory, seconds=20)
    assert moves(vacant) == {"w0": "Claiming"}, "nobody is there any more who could not be made to leave"
    later = look(whole, seen(free_node("w0"), states={"h100-0": UP}, foreign=others), plan.memory, seconds=301)
    assert moves(later) == {"w0": "Claiming"}


def test_an_operator_that_returns_after_the_deadline_asks_the_others_to_leave_until_it_may_give_the_node_back() -> None:
    whole = pool(0, 1, sharing="Elastic", reclaim={"policy": "Evict", "deadline": "1m"})
    claimed = kube_node("w0", state="Claiming", since=NOW - timedelta(seconds=61))
    observed = seen(claimed, states={"h100-0": UP}, foreign={"w0": (foreign("w0", priority=-1),)})
    returned = Memory(nodes={"w0": Sighting(claimed.step, NOW)})
    first = look(whole, observed, returned)
    assert [one.node for one in first.actions if isinstance(one, Evict)] == ["w0"]
    assert moves(first) == {}
    assert moves(look(whole, observed, first.memory, seconds=6)) == {"w0": ""}


def test_a_node_that_does_not_become_empty_goes_back_with_the_reason_before_its_start_is_given_up() -> None:
    whole = pool(0, 1, sharing="Elastic", reclaim={"policy": "Evict", "deadline": "1m"})
    others, states = {"w0": (foreign("w0", priority=-1),)}, {"h100-0": "ALLOCATED+CLOUD+POWERING_UP"}
    first = look(whole, seen(free_node("w0"), states=states, foreign=others))
    assert moves(first) == {"w0": "Claiming"}
    # Seat and node count from different moments: this one was written a second after the seat began to wait.
    claimed = seen(kube_node("w0", state="Claiming", since=NOW + timedelta(seconds=1)), states=states, foreign=others)
    waits = look(whole, claimed, first.memory, seconds=61)
    assert not [one for one in waits.actions if isinstance(one, Move | GiveUp)]
    back = look(whole, claimed, waits.memory, seconds=62)
    why = "within 1m it did not become empty: team-x/train runs there"
    assert [one for one in back.actions if isinstance(one, Move | GiveUp)] == [Move("w0", "", why)]
    free = seen(free_node("w0"), states=states, foreign=others)
    left = look(whole, free, back.memory, seconds=63)
    given_up = look(whole, free, left.memory, seconds=66)
    words = "could not be started: Kubernetes node w0 did not become empty for it: team-x/train runs there"
    assert [one for one in given_up.actions if isinstance(one, GiveUp)] == [
        GiveUp(("h100-0",), f"slurmcluster: {words}")
    ]
    assert moves(look(whole, free, given_up.memory, seconds=120)) == {}


def test_waiting_jobs_reserve_nodes_that_must_become_empty_first() -> None:
    whole = pool(0, 3, sharing="Elastic")
    nodes = tuple(free_node(f"w{number}") for number in range(3))
    others = {node.name: (foreign(node.name),) for node in nodes}
    waits = Job(1, frozenset({"PENDING"}), "Resources", ("gpu",), node_count=2)
    held = structs.replace(waits, reason="JobHeldUser")
    states = {f"h100-{number}": OFF for number in range(3)}
    assert sorted(moves(look(whole, seen(*nodes, states=states, jobs=(waits,), foreign=others)))) == ["w0", "w1"]
    assert moves(look(whole, seen(*nodes, states=states, jobs=(held,), foreign=others))) == {}


def test_jobs_that_share_nodes_count_by_what_they_ask_for() -> None:
    whole = cluster(pools=[pool_json(0, 9)])
    (h100,) = whole.spec.pools
    tasks = Job(1, frozenset({"PENDING"}), "Resources", ("gpu",), tasks=50, cpus=1, gpus=1)
    assert demand(whole, h100, [structs.replace(tasks, cpus=0)]) == 7, "8 GPUs a node"
    assert demand(whole, h100, [tasks]) == 13, "4 cores a node"
    alone = {"name": "gpu", "pools": ["h100"], "default": True, "overSubscribe": "EXCLUSIVE"}
    assert demand(cluster(pools=[pool_json(0, 9)], partitions=[alone]), h100, [tasks]) == 50
    assert demand(whole, h100, [structs.replace(tasks, partitions=("other",))]) == 0
    assert demand(whole, h100, [Job(2, frozenset({"PENDING"}), "Priority", ("gpu",), node_count=4)]) == 4


def test_an_elastic_node_goes_back_when_it_has_been_empty_for_a_while() -> None:
    whole = pool(0, 1, sharing="Elastic", returnAfter="30s")
    observed = seen(kube_node("w0"), states={"h100-0": OFF})
    first = look(whole, observed)
    assert moves(first) == {}
    assert moves(look(whole, observed, first.memory, seconds=29)) == {}
    assert moves(look(whole, observed, first.memory, seconds=30)) == {"w0": "Releasing"}
    leaving = seen(kube_node("w0", state="Releasing", since=NOW), states={"h100-0": OFF})
    assert moves(look(whole, leaving, first.memory, seconds=4)) == {}
    assert moves(look(whole, leaving, first.memory, seconds=5)) == {"w0": ""}


def test_what_the_minimum_runs_on_never_goes_back_however_idle_it_is() -> None:
    whole = pool(1, 2, sharing="Elastic", returnAfter="30s")
    states = {"h100-0": "IDLE+CLOUD", "h100-1": OFF}
    observed = seen(kube_node("w0"), kube_node("w1"), states=states, slurmds=(slurmd_pod("h100-0", whole),))
    first = look(whole, observed)
    assert moves(look(whole, observed, first.memory, seconds=30)) == {"w1": "Releasing"}
    # Nor does a machine that is kept for a minimum whose pod is still to come.
    none_yet = seen(kube_node("w0"), kube_node("w1"), states={"h100-0": OFF, "h100-1": OFF})
    first = look(whole, none_yet)
    assert list(moves(look(whole, none_yet, first.memory, seconds=30)).values()) == ["Releasing"]


@pytest.mark.parametrize("sharing", ["Exclusive", "Elastic"])
def test_an_idle_machine_is_an_autoscalers_to_take_away(sharing: str) -> None:
    whole = cluster(pools=[pool_json(0, 2, capacity="Autoscaled", sharing=sharing)])
    off = slurm(**{"h100-0": "IDLE+CLOUD+POWERED_DOWN", "h100-1": "IDLE+CLOUD+POWERED_DOWN"})
    used = healthy(slurmds=(slurmd_pod("h100-0", whole),), slurm=off, fleet=fleet(kube_node("w0")))
    (ended,) = (one for one in planned(whole, used) if isinstance(one, DeletePod))
    assert ended.name == "demo-h100-0"
    empty = healthy(slurmds=(), slurm=off, fleet=fleet(kube_node("w0")))
    assert planned(whole, empty) == ()
    # What blocks an autoscaler is on slurmd's pods alone: nothing that is written onto a Node does, nor any DaemonSet.
    raw = {"metadata": {"name": "w0", "resourceVersion": "7"}}
    for state in STATES:
        written = node_patch(raw, "team.demo", state, "why", NOW)["metadata"]
        assert {key.partition("/")[0] for key in (*written["labels"], *written["annotations"])} == {"slurmcluster.dev"}
    assert not [one for one in standing_objects(whole) if one["kind"] in {"DaemonSet", "Pod"}]


def test_a_node_that_is_being_given_back_is_kept_when_a_job_needs_it() -> None:
    whole = pool(0, 1, sharing="Elastic")
    leaving = seen(kube_node("w0", state="Releasing"), states={"h100-0": UP})
    plan = look(whole, leaving)
    assert (moves(plan), plan.closed) == ({"w0": "Owned"}, {})


def test_a_node_with_a_slurmd_is_never_given_back_even_when_its_pod_is_ending_or_its_kubelet_is_silent() -> None:
    whole = pool(0, 1, sharing="Elastic", returnAfter="1s")
    for changes in ({}, {"deleting": True}, {"phase": "Failed"}):
        pod = slurmd_pod("h100-0", whole, **changes)
        node = kube_node("w0", ready=False, labels=UNGRANTED)
        plan = look(whole, seen(node, states={"h100-0": OFF}, slurmds=(pod,)), Memory(empty={"w0": NOW}), seconds=900)
        assert moves(plan) == {}


@pytest.mark.parametrize("changes", [{}, {"deleting": True}])
@pytest.mark.parametrize("sharing", ["Exclusive", "Elastic"])
def test_a_seat_moves_to_a_renamed_machine_once_its_pod_is_gone(sharing: str, changes: dict[str, Any]) -> None:
    whole = pool(1, 1, sharing=sharing)
    there = slurmd_pod("h100-0", whole, **changes)
    renamed = look(whole, seen(free_node("w9"), states={"h100-0": "IDLE+CLOUD+NOT_RESPONDING"}, slurmds=(there,)))
    assert (moves(renamed), created(renamed)) == ({}, {}), "its pod is listed on w0, which is no more"
    assert not [one for one in renamed.actions if isinstance(one, DeletePod)]
    states = {"h100-0": "DOWN+CLOUD+NOT_RESPONDING"}
    gone = look(whole, seen(free_node("w9"), states=states))
    assert (moves(gone), created(gone)) == ({"w9": "Claiming"}, {})
    assert created(look(whole, seen(kube_node("w9"), states=states))) == {"h100-0": "w9"}


def test_a_node_whose_grant_is_gone_is_left_once_it_is_idle() -> None:
    whole, node = pool(0, 1), kube_node("w0", labels=UNGRANTED)
    pod = slurmd_pod("h100-0", whole)
    reason = "slurmcluster: its Kubernetes node is no longer granted"
    busy = look(whole, seen(node, states={"h100-0": "ALLOCATED+CLOUD"}, slurmds=(pod,)))
    assert [one for one in busy.actions if isinstance(one, Drain | DeletePod)] == [Drain(("h100-0",), reason)]
    working = look(whole, seen(node, states={"h100-0": f"ALLOCATED+CLOUD+DRAIN~{reason}"}, slurmds=(pod,)))
    assert not [one for one in working.actions if isinstance(one, Drain | DeletePod)]
    idle = look(whole, seen(node, states={"h100-0": f"IDLE+CLOUD+DRAIN~{reason}"}, slurmds=(pod,)))
    assert [one.name for one in idle.actions if isinstance(one, DeletePod)] == ["demo-h100-0"]
    assert moves(look(whole, seen(node, states={"h100-0": OFF}))) == {"w0": "Releasing"}


def test_no_further_job_begins_on_a_node_that_is_gone() -> None:
    whole, pod = pool(0, 1), slurmd_pod("h100-0", pool(0, 1), node_name="w7")
    reason = "slurmcluster: its Kubernetes node is gone"
    busy = look(whole, seen(states={"h100-0": "ALLOCATED+CLOUD"}, slurmds=(pod,)))
    assert [one for one in busy.actions if isinstance(one, Drain | DeletePod)] == [Drain(("h100-0",), reason)]
    there = seen(kube_node("w7"), states={"h100-0": f"ALLOCATED+CLOUD+DRAIN~{reason}"}, slurmds=(pod,))
    assert [one.nodes for one in look(whole, there).actions if isinstance(one, Undrain)] == [("h100-0",)]
    comes = slurmd_pod("h100-0", whole, node_name="w7", ready=False)
    early = look(whole, seen(states={"h100-0": "ALLOCATED+CLOUD+POWERING_UP"}, slurmds=(comes,)))
    assert not [one for one in early.actions if isinstance(one, Drain)], "its Node may be too new to have been seen"


def test_other_work_beside_a_slurmd_keeps_jobs_off_it() -> None:
    whole = pool(0, 1)
    others = {"w0": (foreign("w0"),)}
    plan = look(
        whole,
        seen(kube_node("w0"), states={"h100-0": "MIXED+CLOUD"}, slurmds=(slurmd_pod("h100-0", whole),), foreign=others),
    )
    (drain,) = [one for one in plan.actions if isinstance(one, Drain)]
    assert drain.reason == "slurmcluster: other work is on its Kubernetes node: team-x/train"


def test_a_seat_finds_its_machine_again_and_others_leave_it_alone() -> None:
    nodes = (kube_node("w0", seat="team.demo/h100-1"), kube_node("w1"), kube_node("w2", seat="other.x/h100-0"))
    states = {"h100-0": OFF, "h100-1": UP, "h100-2": OFF}
    plan = look(pool(0, 3), seen(*nodes, states=states))
    assert created(plan) == {"h100-1": "w0"}
    assert not [one for one in plan.actions if isinstance(one, MarkSeat)]
    both = look(pool(0, 3), seen(*nodes, states={**states, "h100-0": UP}))
    assert created(both) == {"h100-0": "w1", "h100-1": "w0"}
    assert [one for one in both.actions if isinstance(one, MarkSeat)] == [MarkSeat("w1", "team.demo/h100-0")]


@pytest.mark.parametrize("sharing", ["Exclusive", "Elastic"])
def test_an_owned_empty_node_is_preferred_to_a_free_one(sharing: str) -> None:
    whole, states = pool(0, 1, sharing=sharing), {"h100-0": UP}
    plan = look(whole, seen(free_node("w0"), kube_node("w1"), states=states))
    assert (created(plan), moves(plan)) == ({"h100-0": "w1"}, {})
    begun = look(whole, seen(free_node("w0"), kube_node("w1", state="Claiming"), states=states))
    assert moves(begun) == {"w1": "Owned"}


def test_empty_nodes_come_first_and_neighbours_together() -> None:
    zone = "topology.kubernetes.io/zone"

    def at(name: str, place: str) -> KubeNode:
        return free_node(name, labels={names.FLEET_LABEL: "team.demo", zone: place})

    nodes = (at("w0", "b"), at("w1", "a"), at("w2", "b"), at("w3", "a"))
    states = {f"h100-{number}": OFF for number in range(2)}
    assert sorted(moves(look(pool(0, 2), seen(*nodes, states=states)))) == ["w1", "w3"]
    busy = {"w1": (foreign("w1"),)}
    assert sorted(moves(look(pool(0, 2), seen(*nodes, states=states, foreign=busy)))) == ["w0", "w3"]


@pytest.mark.parametrize(
    "node",
    [
        free_node("w0", labels={}),
        free_node("w0", labels={names.FLEET_LABEL: "team.other"}),
        free_node("w0", ready=False),
        free_node("w0", schedulable=False),
        free_node("w0", allocatable={"nvidia.com/gpu": "7"}),
        free_node("w0", allocatable={"nvidia.com/gpu": "9"}),
        free_node("w0", taints=(Taint("dedicated", "slurm", "NoSchedule"),)),
        kube_node("w0", owner="team.other", tainted="team.other"),
        kube_node("w0", labels={names.FLEET_LABEL: "team.demo_team.other"}, owner="team.other", tainted="team.other"),
    ],
)
def test_what_is_not_granted_not_fit_or_anothers_is_not_touched(node: KubeNode) -> None:
    plan = look(pool(0, 1), seen(node, states={"h100-0": OFF}))
    assert (moves(plan), plan.closed) == ({}, {"h100-0": NO_MACHINE})


@pytest.mark.parametrize(("gpus", "claimed"), [("", {"w0": "Claiming"}), ("1 nvidia.com/gpu", {})])
def test_a_pool_without_gpus_leaves_machines_with_some_to_others(gpus: str, claimed: dict[str, str]) -> None:
    whole = pool(0, 1, machine={"cpus": 1, "memory": "1Gi"})
    plan = look(whole, seen(free_node("w0", gpus=gpus), states={"h100-0": OFF}))
    assert (moves(plan), plan.feasible) == (claimed, {"h100": len(claimed)})


def test_why_granted_nodes_do_not_fit_is_told() -> None:
    few = {"gpus": "4 nvidia.com/gpu", "allocatable": {"nvidia.com/gpu": "4"}}
    words = "not fit (w0 has 4 nvidia.com/gpu, machine says 8 nvidia.com/gpu)"
    whole, states = pool(2, 3), dict.fromkeys(("h100-0", "h100-1", "h100-2"), OFF)
    plan = look(whole, seen(free_node("w0", **few), free_node("w1", **few), free_node("w2"), states=states))
    assert plan.shared["h100"] == f"2 granted do {words}"
    told = pool_reasons(whole, plan.feasible, plan.seats, plan.memory, plan.closed, plan.shared, NOW)
    assert told["h100"].endswith(f", ready and fit; 2 granted do {words}")

    def unfit(*nodes: KubeNode, **changes: Any) -> str:
        return look(pool(0, 1, **changes), seen(*nodes, states={"h100-0": OFF})).shared["h100"]

    assert unfit(free_node("w0", **few)) == f"1 granted does {words}"
    assert unfit(free_node("w0", **few), nodeSelector={"kind": "big"}) == "", "the pool does not choose it"
    kept_off = "1 granted does not fit (w0 has the taint dedicated, which the pool does not tolerate)"
    assert unfit(free_node("w0", taints=(DEDICATED,))) == kept_off
    assert unfit(free_node("w0", gpus="", allocatable={})).endswith("(w0 has no GPU, machine says 8 nvidia.com/gpu)")


@pytest.mark.parametrize("capacity", ["Fixed", "Autoscaled"])
def test_a_node_of_the_minimum_that_was_given_up_leaves_the_machine_to_the_others(capacity: str) -> None:
    whole = pool(2, 2, capacity=capacity)
    hold = Hold(
        "ImageNotPullable", "no such image", 1, NOW + timedelta(seconds=30), template_hash(whole, whole.pools[0])
    )
    states = {"h100-0": f"DOWN+CLOUD+POWERED_DOWN~{FAILED}: no such image", "h100-1": OFF}
    observed = seen(kube_node("w0", seat="team.demo/h100-0"), states=states)
    plan = look(whole, observed, Memory(holds={"h100-0": hold}))
    assert created(plan) == {"h100-1": "w0"}
    plan = look(
        whole,
        seen(kube_node("w0"), kube_node("w1"), states=states),
        Memory(holds={"h100": replace(hold, pool_wide=True)}),
    )
    told = pool_reasons(whole, plan.feasible, plan.seats, plan.memory, plan.closed, plan.shared, NOW)["h100"]
    assert told == "pool h100: 0 of 2 nodes ready; h100-0: no such image (tried again at 03:04:35 UTC)"


@pytest.mark.parametrize(("minutes", "told"), [(4, False), (5, True)])
def test_a_pod_that_was_asked_to_go_and_stays_is_told(minutes: int, *, told: bool) -> None:
    whole = pool(0, 1)
    left = slurmd_pod("h100-0", deleting=True, asked_to_go=NOW - timedelta(minutes=minutes), node_name="w0")
    observed = seen(kube_node("w0"), states={"h100-0": "IDLE+CLOUD+DRAIN"}, pods=(left,))
    plan = look(whole, observed)
    reason = pool_reasons(whole, plan.feasible, plan.seats, plan.memory, plan.closed, plan.shared, NOW)["h100"]
    words = f"h100-0: pod {left.name} was asked to go at {left.asked_to_go:%H:%M:%S} UTC and is still there"
    assert reason.startswith(words) is told
    assert bool(reason) is told


def test_what_another_pool_can_use_is_not_told_as_unfit() -> None:
    two = [pool_json(0, 1), pool_json(0, 1, name="plain", machine={"cpus": 1, "memory": "1Gi"})]
    whole = cluster(pools=two, partitions=[{"name": "all", "pools": ["h100", "plain"], "default": True}])
    nodes = (free_node("w0"), free_node("w1", gpus="", allocatable={}))
    plan = look(whole, seen(*nodes, states={"h100-0": OFF, "plain-0": OFF}))
    assert (plan.shared, plan.feasible) == ({"h100": "", "plain": ""}, {"h100": 1, "plain": 1})


DEDICATED = Taint("dedicated", "slurm", "NoSchedule")


@pytest.mark.parametrize(
    ("tolerations", "taints", "let_in"),
    [
        ([], (), True),
        ([], (DEDICATED,), False),
        ([], (Taint("nvidia.com/gpu", "present", "NoSchedule"),), True),
        ([], (Taint("amd.com/gpu", "present", "NoSchedule"),), False),
        ([{"operator": "Exists"}], (DEDICATED,), True),
        ([{"key": "dedicated", "operator": "Exists"}], (DEDICATED,), True),
        ([{"key": "dedicated", "value": "slurm"}], (DEDICATED,), True),
        ([{"key": "dedicated", "operator": "Equal", "value": "web"}], (DEDICATED,), False),
        ([{"key": "dedicated"}], (DEDICATED,), False),
        ([{"key": "dedicated"}], (Taint("dedicated", "", "NoSchedule"),), True),
        ([{"key": "other", "operator": "Exists"}], (DEDICATED,), False),
        ([{"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}], (DEDICATED,), False),
        ([{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}], (DEDICATED,), True),
        ([{"key": "dedicated", "operator": "Exists"}], (DEDICATED, Taint("more", "", "NoExecute")), False),
    ],
)
def test_a_machine_counts_where_its_taints_let_the_pools_pods_in(
    tolerations: list[dict[str, str]], taints: tuple[Taint, ...], *, let_in: bool
) -> None:
    whole = pool(0, 1, tolerations=tolerations)
    seats = seen(free_node("w0", taints=taints), states={"h100-0": OFF})
    plan = look(whole, seats)
    assert moves(plan) == ({"w0": "Claiming"} if let_in else {})
    assert bool(plan.feasible["h100"]) is let_in
    assert bool(plan.closed) is not let_in


def test_a_machine_of_the_clusters_is_kept_while_a_taint_keeps_its_pods_off() -> None:
    whole = pool(0, 1)
    short = Taint("node.kubernetes.io/disk-pressure", "", "NoSchedule")
    for state in ("Owned", "Claiming"):
        node = kube_node("w0", taints=(short,), state=state)
        plan = look(whole, seen(node, states={"h100-0": OFF}))
        assert (moves(plan), plan.closed) == ({}, {"h100-0": NO_MACHINE})
    other = kube_node("w0", taints=(short,), allocatable={"nvidia.com/gpu": "7"})
    assert moves(look(whole, seen(other, states={"h100-0": OFF}))) == {"w0": "Releasing"}


def test_a_taint_without_an_owner_does_not_stay_for_ever() -> None:
    whole = pool(0, 1, sharing="Elastic")
    for node in (
        free_node("w0", tainted="team.demo"),
        kube_node("w0", owner="", tainted="", labels={**FREE, names.SERVES: "team.demo"}),
    ):
        plan = look(whole, seen(node, states={"h100-0": OFF}))
        assert [one for one in plan.actions if isinstance(one, Move)] == [
            Move("w0", "Claiming", "it has marks of its owner")
        ]


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (free_node("w0"), "its slurmd is there"),
        (kube_node("w0", tainted=""), "its slurmd is there"),
        (kube_node("w0", state=""), "its slurmd is there"),
        (kube_node("w0", labels={names.FLEET_LABEL: "team.demo"}), "its slurmd is there"),
    ],
)
def test_marks_that_somebody_has_spoilt_are_mended(node: KubeNode, why: str) -> None:
    whole = pool(0, 1)
    plan = look(whole, seen(node, states={"h100-0": "MIXED+CLOUD"}, slurmds=(slurmd_pod("h100-0", whole),)))
    assert [one for one in plan.actions if isinstance(one, Move)] == [Move("w0", "Claiming", why)]
    assert not [one for one in plan.actions if isinstance(one, DeletePod | Drain)]


def test_what_is_left_of_its_marks_is_put_back_without_a_grant_too_so_that_all_of_them_can_be_taken_off() -> None:
    whole = pool(0, 1)
    for node in (
        free_node("w0", labels={}, tainted="team.demo"),
        kube_node("w0", labels=UNGRANTED, tainted=""),
        free_node("w0", labels=UNGRANTED),
    ):
        assert moves(look(whole, seen(node, states={"h100-0": OFF}))) == {"w0": "Claiming"}
        busy = look(whole, seen(node, states={"h100-0": "MIXED+CLOUD"}, slurmds=(slurmd_pod("h100-0", whole),)))
        assert moves(busy) == {"w0": "Claiming"}
        assert not [one for one in busy.actions if isinstance(one, DeletePod)]
    again = kube_node("w0", labels={}, state="Claiming")
    assert moves(look(whole, seen(again, states={"h100-0": OFF}))) == {"w0": ""}
    runs = seen(again, states={"h100-0": "MIXED+CLOUD"}, slurmds=(slurmd_pod("h100-0", whole),))
    assert moves(look(whole, runs)) == {}, "it would be refused, again and again"
    unmarked = seen(free_node("w0", labels={}), states={"h100-0": OFF}, slurmds=(slurmd_pod("h100-0", whole),))
    assert moves(look(whole, unmarked)) == {}, "a slurmd alone is no grant: whoever makes pods could take a node"


def test_a_start_for_which_no_machine_comes_is_given_up_so_that_its_job_goes_elsewhere() -> None:
    whole, observed = pool(0, 1), seen(states={"h100-0": "ALLOCATED+CLOUD+POWERING_UP"})
    first = look(whole, observed)
    assert not [one for one in first.actions if isinstance(one, GiveUp)]
    later = look(whole, observed, first.memory, seconds=13)
    (given_up,) = [one for one in later.actions if isinstance(one, GiveUp)]
    assert given_up.reason == "slurmcluster: could not be started: there is no Kubernetes node for it"


def test_surplus_nodes_of_an_exclusive_pool_go_back_at_once() -> None:
    observed = seen(kube_node("w0"), kube_node("w1"), states={"h100-0": OFF})
    assert moves(look(pool(0, 1), observed)) == {"w1": "Releasing"}


def test_without_slurms_answer_nodes_are_claimed_and_none_with_a_slurmd_goes() -> None:
    whole = pool(1, 2)
    observed = seen(free_node("w0"), kube_node("w1"), slurmds=(slurmd_pod("h100-0", whole, node_name="w1"),))
    assert isinstance(observed.slurm, Slurm)
    plan = look(whole, replace(observed, slurm=unknown()))
    assert moves(plan) == {"w0": "Claiming"}


def test_a_node_that_was_given_up_comes_back_when_there_is_a_machine_for_it() -> None:
    whole = pool(0, 1)
    failed = {
        "h100-0": "DOWN+CLOUD+POWERED_DOWN~slurmcluster: could not be started: there is no Kubernetes node for it"
    }
    assert not [one for one in look(whole, seen(states=failed)).actions if isinstance(one, Resume)]
    assert [one for one in look(whole, seen(kube_node("w0"), states=failed)).actions if isinstance(one, Resume)]
