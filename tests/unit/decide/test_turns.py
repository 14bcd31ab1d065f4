"""Kubernetes nodes that are granted to two clusters."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from slurmcluster_operator.decide.ledger import ASKED, double_claims, leaving
from slurmcluster_operator.decide.ownership import RESERVED, obstacle
from slurmcluster_operator.decide.turns import GRACE, TURN, asks
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import Ask
from slurmcluster_operator.model.fleet import ForeignPod, KubeNode
from tests.builders import NOW, cluster, fleet, free_node, healthy, kube_node, pool_json, slurm, slurmd_pod

BOTH = {names.FLEET_LABEL: "team.demo_team.other"}
MINE, OTHER = "team.demo", "team.other"


def node(
    name: str, owner: str = "", asked_by: str = "", asked_at: datetime | None = NOW, **changes: object
) -> KubeNode:
    state = "Owned" if owner else ""
    fields = {"labels": BOTH, "owner": owner, "tainted": owner, "state": state}
    return free_node(name, **{**fields, "asked_by": asked_by, "asked_at": asked_at if asked_by else None, **changes})


@pytest.mark.parametrize(
    ("nodes", "asked"),
    [
        ([node("w0", OTHER)], ["w0"]),
        ([node("w0", OTHER), node("w1", OTHER)], ["w0"]),
        ([node("w0", MINE), node("w1", OTHER)], []),
        ([node("w0", MINE), node("w1", OTHER), node("w2", OTHER)], []),
        ([node("w0", MINE), node("w1", OTHER), node("w2", OTHER), node("w3", OTHER)], ["w1"]),
        # One that has been asked for counts as ours already.
        ([node("w0", OTHER, MINE), node("w1", OTHER)], []),
        # Not shared with us, or free.
        ([node("w0", OTHER, labels={names.FLEET_LABEL: OTHER})], []),
        ([node("w0")], []),
    ],
)
def test_a_cluster_asks_where_it_has_none_or_two_less_than_the_other(nodes: list[KubeNode], asked: list[str]) -> None:
    assert list(asks(nodes, MINE, 3, NOW)) == [Ask(name, MINE) for name in asked]


def test_a_wish_is_renewed_while_it_lasts_and_taken_back_when_it_is_over_or_fulfilled() -> None:
    old = node("w0", OTHER, MINE, NOW - timedelta(minutes=6))
    assert list(asks([old], MINE, 1, NOW)) == [Ask("w0", MINE)]
    assert list(asks([node("w0", OTHER, MINE)], MINE, 1, NOW)) == []
    assert list(asks([old], MINE, 0, NOW)) == [Ask("w0", "")]
    # A free one is claimed, which ends the wish as well.
    assert list(asks([node("w0", "", MINE)], MINE, 0, NOW)) == []
    assert list(asks([node("w0", MINE, MINE)], MINE, 1, NOW)) == [Ask("w0", "")]


def test_an_idle_seat_leaves_soon_and_a_busy_one_after_its_turn() -> None:
    whole = cluster(pools=[pool_json(1, 1)])
    pods = (slurmd_pod("h100-0", whole),)

    def leaves(state: str, since: timedelta) -> dict[str, str]:
        asked = node("w0", MINE, OTHER, since=NOW - since)
        return leaving(whole, healthy(slurmds=pods, slurm=slurm(**{"h100-0": state}), fleet=fleet(asked)), {}, NOW)

    assert leaves("IDLE+CLOUD", GRACE - timedelta(seconds=1)) == {}
    assert leaves("IDLE+CLOUD", GRACE) == {"h100-0": f"{ASKED}: {OTHER}"}
    assert leaves("MIXED+CLOUD", TURN - timedelta(seconds=1)) == {}
    assert leaves("MIXED+CLOUD", TURN) == {"h100-0": f"{ASKED}: {OTHER}"}


@pytest.mark.parametrize(
    "asked",
    [
        node("w0", MINE, OTHER, NOW - timedelta(minutes=11)),
        node("w0", MINE, OTHER, labels={names.FLEET_LABEL: MINE}),
        node("w0", MINE, MINE),
    ],
)
def test_an_old_wish_or_one_of_somebody_without_a_grant_does_not_count(asked: KubeNode) -> None:
    whole = cluster(pools=[pool_json(1, 1)])
    pods = (slurmd_pod("h100-0", whole),)
    assert leaving(whole, healthy(slurmds=pods, slurm=slurm(**{"h100-0": "IDLE"}), fleet=fleet(asked)), {}, NOW) == {}


def test_a_node_that_was_given_up_is_left_to_who_asked_for_a_while() -> None:
    given = node("w0", "", OTHER, since=NOW)
    assert obstacle("Claiming", MINE, given, None, None, NOW, enforced=True) == f"it was given up for {OTHER}"
    assert not obstacle("Claiming", OTHER, given, None, None, NOW, enforced=True)
    assert not obstacle("Claiming", MINE, given, None, None, NOW + RESERVED, enforced=True)


def test_double_claims_name_the_pod_and_the_node() -> None:
    whole = cluster(pools=[pool_json(1, 1)])
    shop = ForeignPod("web", "shop", "uid", "w0")

    def words(on: KubeNode, *, slurmd: bool = True, others: dict[str, tuple[str, ...]] | None = None) -> list[str]:
        seen = fleet(on, foreign={"w0": (shop,)} if others is None else {}, slurmds=others or {})
        pods = (slurmd_pod("h100-0", whole),) if slurmd else ()
        return [claim.words for claim in double_claims(whole, healthy(slurmds=pods, fleet=seen))]

    assert words(kube_node("w0")) == ["pod web/shop runs on node w0, which is team.demo's"]
    assert words(kube_node("w0"), slurmd=False) == ["pod web/shop runs on node w0, which is team.demo's"]
    assert words(free_node("w0")) == ["pod web/shop runs on node w0, where team.demo runs a slurmd"]
    assert words(free_node("w0"), slurmd=False) == []
    assert words(kube_node("w0", state="Claiming"), slurmd=False) == []
    assert words(kube_node("w0"), others={"w0": ("team/other-h100-0",)}) == [
        "slurmd team/other-h100-0 is on node w0, which is team.demo's"
    ]
    assert words(kube_node("w0", owner=OTHER, tainted=OTHER), others={}) == [
        "slurmd team/demo-h100-0 is on node w0, which is team.other's"
    ]
