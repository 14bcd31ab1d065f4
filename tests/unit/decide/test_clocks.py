"""Clocks that differ, and stamps on Nodes that somebody has spoilt: what was seen, and since when, is what counts."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from slurmcluster_operator.decide.ledger import ASKED
from slurmcluster_operator.decide.nodes import DRIFT, YOUNG
from slurmcluster_operator.decide.ownership import ASK_HOLDS, RESERVED, SETTLE, SETTLE_UNENFORCED, asked
from slurmcluster_operator.decide.plan import make_plan, resolve
from slurmcluster_operator.decide.turns import GRACE, asks
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import Action, Ask, DeletePod, Drain, Move
from slurmcluster_operator.model.fleet import KubeNode
from slurmcluster_operator.model.holds import Memory
from slurmcluster_operator.model.observed import Observed
from tests.builders import (
    NOW,
    cluster,
    container,
    fleet,
    free_node,
    healthy,
    kube_node,
    pod,
    pool_json,
    slurm,
    slurmd_pod,
)

HOUR, MOMENT = timedelta(hours=1), timedelta(milliseconds=1)
OFF = "IDLE+CLOUD+POWERED_DOWN"
BOTH = {names.FLEET_LABEL: "team.demo_team.other"}
STAMPS = pytest.mark.parametrize("since", [None, NOW + HOUR, NOW - HOUR], ids=["missing or garbled", "ahead", "behind"])


class Operator:
    """An operator that has just begun, and looks again and again."""

    def __init__(self) -> None:
        self.cluster = cluster(pools=[pool_json(0, 1)])
        self.memory = Memory()

    def look(self, observed: Observed, now: datetime) -> tuple[Action, ...]:
        plan = make_plan(resolve(self.cluster, observed, self.memory), observed, self.memory, now)
        self.memory = plan.memory
        return plan.actions

    def moves(self, node: KubeNode, now: datetime, *, enforced: bool = True) -> list[str]:
        observed = healthy(slurmds=(), slurm=slurm(**{"h100-0": OFF}), fleet=fleet(node, enforced=enforced))
        return [one.to for one in self.look(observed, now) if isinstance(one, Move)]


@STAMPS
@pytest.mark.parametrize(("enforced", "settle"), [(True, SETTLE), (False, SETTLE_UNENFORCED)])
def test_a_claim_settles_when_it_has_been_seen_for_so_long(
    since: datetime | None, settle: timedelta, *, enforced: bool
) -> None:
    operator, node = Operator(), kube_node("w0", state="Claiming", since=since)
    assert operator.moves(node, NOW, enforced=enforced) == []
    assert operator.moves(node, NOW + settle - MOMENT, enforced=enforced) == []
    assert operator.moves(node, NOW + settle, enforced=enforced) == ["Owned"]


@STAMPS
def test_so_does_a_release(since: datetime | None) -> None:
    operator, node = Operator(), kube_node("w0", state="Releasing", since=since, labels={})
    assert operator.moves(node, NOW) == []
    assert operator.moves(node, NOW + SETTLE_UNENFORCED - MOMENT) == []
    assert operator.moves(node, NOW + SETTLE_UNENFORCED) == [""]


def test_a_step_that_is_taken_anew_is_waited_for_anew() -> None:
    operator = Operator()
    operator.moves(kube_node("w0", state="Claiming", since=NOW), NOW)
    operator.moves(kube_node("w0", state="Claiming", since=NOW + 2 * SETTLE), NOW + 2 * SETTLE)
    assert operator.moves(kube_node("w0", state="Claiming", since=NOW + 2 * SETTLE), NOW + 3 * SETTLE - MOMENT) == []


def test_a_clock_that_is_set_back_makes_nothing_older() -> None:
    operator, node = Operator(), kube_node("w0", state="Claiming", since=NOW)
    operator.moves(node, NOW)
    assert operator.moves(node, NOW - HOUR) == []
    assert operator.moves(node, NOW - HOUR + SETTLE) == ["Owned"]


@pytest.mark.parametrize("since", [None, NOW + HOUR])
def test_a_turn_ends_whatever_stands_on_the_node(since: datetime | None) -> None:
    operator, whole = Operator(), cluster(pools=[pool_json(0, 1)])
    labels = {**BOTH, names.SERVES: "team.demo"}
    node = kube_node("w0", labels=labels, since=since, asked_by="team.other", asked_at=NOW)
    pods = (slurmd_pod("h100-0", whole),)
    observed = healthy(slurmds=pods, slurm=slurm(**{"h100-0": "IDLE+CLOUD"}), fleet=fleet(node))
    assert not [one for one in operator.look(observed, NOW) if isinstance(one, Drain)]
    assert not [one for one in operator.look(observed, NOW + GRACE - MOMENT) if isinstance(one, Drain)]
    (drain,) = [one for one in operator.look(observed, NOW + GRACE) if isinstance(one, Drain)]
    assert drain.reason == f"{ASKED}: team.other"


@pytest.mark.parametrize("since", [None, NOW + HOUR])
def test_a_node_is_not_reserved_for_ever_for_who_asked(since: datetime | None) -> None:
    operator = Operator()
    node = free_node("w0", labels=BOTH, since=since, asked_by="team.other", asked_at=NOW)
    assert operator.moves(node, NOW) == []
    assert operator.moves(node, NOW + RESERVED) == ["Claiming"]


def test_a_wish_from_the_future_counts_as_none_and_is_written_anew() -> None:
    ahead = NOW + ASK_HOLDS + MOMENT
    node = kube_node("w0", labels=BOTH, owner="team.other", tainted="team.other", asked_by="team.demo", asked_at=ahead)
    assert not asked(node, NOW)
    assert next(iter(asks([node], "team.demo", 1, NOW))) == Ask("w0", "team.demo")


@pytest.mark.parametrize("slow", [timedelta(), DRIFT / 2, DRIFT])
def test_a_kubelet_whose_clock_is_slow_makes_no_slurmctld_old(slow: timedelta) -> None:
    operator = Operator()
    whole = cluster(pools=[pool_json(0, 1)])
    parts = (
        pod(names.CONTROLLER, "demo-controller-0", containers=(container("slurmctld", started=NOW - slow),)),
        slurmd_pod("h100-0", whole),
    )
    observed = healthy(pods=parts, slurm=slurm(**{"h100-0": OFF}), fleet=fleet(kube_node("w0")))
    assert not [one for one in operator.look(observed, NOW) if isinstance(one, DeletePod)]
    assert not [one for one in operator.look(observed, NOW + YOUNG) if isinstance(one, DeletePod)]
    assert [one for one in operator.look(observed, NOW + YOUNG + MOMENT) if isinstance(one, DeletePod)]


def test_an_operator_that_has_just_begun_need_not_wait_for_a_slurmctld_that_has_run_for_long() -> None:
    whole = cluster(pools=[pool_json(0, 1)])
    observed = healthy(
        slurmds=(slurmd_pod("h100-0", whole),), slurm=slurm(**{"h100-0": OFF}), fleet=fleet(kube_node("w0"))
    )
    assert [one for one in Operator().look(observed, NOW) if isinstance(one, DeletePod)]
