"""The ledger of the fleet: one entry for each node that is granted, marked or used, and what is wrong there."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from slurmcluster_operator.decide.entries import ABSENT, UNKNOWN, Entry, Look, Slurmd, confirmed, entries
from slurmcluster_operator.model import names
from slurmcluster_operator.model.fleet import ForeignPod, KubeNode
from slurmcluster_operator.model.kube import Pod
from tests.builders import NOW, free_node, slurm, slurmd_pod, unknown
from tests.builders import kube_node as held_node


def kube_node(name: str, **changes: Any) -> KubeNode:
    """Return a node as the operator marks it, but for ``changes``."""
    node = held_node(name, **changes)
    serves = {names.SERVES: node.owner} if node.owner and node.state == "Owned" else {}
    return replace(node, labels={**serves, **node.labels})


def ours(node: str, where: str = "", **changes: Any) -> Pod:
    fields: dict[str, Any] = {"namespace": "team"} | ({"node_name": where} if where else {})
    return slurmd_pod(node, **(fields | changes))


def foreign(name: str, node: str) -> ForeignPod:
    return ForeignPod("web", name, f"uid-of-{name}", node)


def look(*nodes: KubeNode, **changes: Any) -> Look:
    fields: dict[str, Any] = {"pods": (), "foreign": (), "clusters": frozenset({"team.demo", "team.other"})}
    return Look(nodes, **(fields | changes))


def only(seen: Look) -> Entry:
    (entry,) = entries(seen, NOW)
    return entry


def test_an_entry_has_all_that_is_known_of_a_node() -> None:
    since = NOW - timedelta(minutes=7)
    node = kube_node("w0", since=since, why="nobody else runs there; for pool h100")
    entry = only(look(node, pods=(ours("h100-0"),), slurm={"team.demo": slurm(**{"h100-0": "MIXED+CLOUD+DRAIN"})}))
    assert entry == Entry(
        node="w0",
        granted_to=("team.demo",),
        owner="team.demo",
        state="Owned",
        since=since,
        slurmds=(Slurmd("team.demo", "h100-0", "MIXED+DRAIN"),),
        foreign=(),
        why="nobody else runs there; for pool h100",
    )


def test_only_nodes_that_are_granted_or_marked_or_used_are_in_it() -> None:
    bare = {"labels": {"role": "web"}}
    nodes = (
        free_node("plain", **bare),
        free_node("granted"),
        kube_node("owned", **bare),
        free_node("tainted", tainted="team.demo", **bare),
        free_node("stated", state="Claiming", **bare),
        free_node("used", **bare),
        free_node("served", labels={names.SERVES: "team.demo"}),
        free_node("emptied", labels={names.FLEET_LABEL: ""}),
    )
    found = entries(look(*nodes, pods=(ours("h100-0", "used"),)), NOW)
    assert [entry.node for entry in found] == ["emptied", "granted", "owned", "served", "stated", "tainted", "used"]


def test_a_healthy_fleet_has_no_problems() -> None:
    nodes = (
        kube_node("w0"),
        kube_node("w1", state="Claiming"),
        kube_node("w2", state="Releasing"),
        free_node("w3", since=None, labels={names.FLEET_LABEL: "team.demo_team.other"}),
    )
    others = (foreign("shop", "w1"), foreign("shop", "w3"))
    found = entries(look(*nodes, pods=(ours("h100-0"),), foreign=others), NOW)
    assert [entry.problems for entry in found] == [(), (), (), ()]
    assert [entry.foreign for entry in found] == [(), ("web/shop",), (), ("web/shop",)]
    assert found[3].granted_to == ("team.demo", "team.other")


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (kube_node("w0", tainted=""), "its label says that team.demo has it, its taint that nobody has"),
        (kube_node("w0", owner=""), "its label says that nobody has it, its taint that team.demo has"),
        (
            kube_node("w0", labels={names.SERVES: "team.other"}),
            "its label slurmcluster.dev/serves says team.other, and should say team.demo",
        ),
        (
            held_node("w0", labels={names.FLEET_LABEL: "team.demo"}),
            "its label slurmcluster.dev/serves says nobody, and should say team.demo",
        ),
        (
            kube_node("w0", state="Releasing", labels={names.SERVES: "team.demo"}),
            "its label slurmcluster.dev/serves says team.demo, and should say nobody",
        ),
        (kube_node("w0", state=""), "annotation slurmcluster.dev/owner-state is missing"),
        (free_node("w0", state="Owned"), "annotation slurmcluster.dev/owner-state says Owned, and it has no owner"),
        (kube_node("w0", owner="lab.old", tainted="lab.old"), "its owner lab.old is no SlurmCluster that exists"),
        (free_node("w0", labels={names.FLEET_LABEL: ""}), "the grant slurmcluster.dev/fleet is empty"),
    ],
)
def test_marks_that_are_wrong_are_told(node: KubeNode, words: str) -> None:
    found = only(look(node))
    assert any(words in problem for problem in found.problems), found.problems
    assert found.double_claims == ()


def test_a_time_that_lies_in_the_future_is_explained() -> None:
    assert only(look(kube_node("w0", since=NOW + timedelta(seconds=59), why="needed"))).why == "needed"
    ahead = only(look(kube_node("w0", since=NOW + timedelta(hours=1), why="needed")))
    assert ahead.why == "needed; clocks differ: slurmcluster.dev/owner-since says 2026-01-02T04:04:05+00:00"
    assert ahead.problems == ()


def test_what_is_wrong_with_a_grant_is_told() -> None:
    assert only(look(free_node("w0"), misgrants={"w0": ["bad grant"], "w1": ["another"]})).problems == ("bad grant",)


def test_pods_of_others_on_an_owned_node_are_double_claims() -> None:
    entry = only(look(kube_node("w0"), foreign=(foreign("shop", "w0"), foreign("elsewhere", "w1"))))
    assert entry.double_claims == ("pod web/shop runs on node w0, which is team.demo's",)
    assert entry.problems == entry.double_claims


def test_two_slurmds_on_a_node_are_told_from_both_sides_and_nothing_is_told_twice() -> None:
    stranger = replace(ours("h100-7", "w0"), cluster="other", name="other-h100-7")
    entry = only(look(kube_node("w0"), pods=(ours("h100-0"), stranger)))
    assert entry.double_claims == (
        "slurmd team/other-h100-7 is on node w0, which is team.demo's",
        "slurmd team/demo-h100-0 is on node w0, where team.other runs a slurmd",
    )
    assert [slurmd.cluster for slurmd in entry.slurmds] == ["team.demo", "team.other"]


def test_a_cluster_that_is_gone_still_has_its_double_claims_found() -> None:
    node = kube_node("w0", owner="lab.old", tainted="lab.old")
    entry = only(look(node, foreign=(foreign("shop", "w0"),)))
    assert entry.double_claims == ("pod web/shop runs on node w0, which is lab.old's",)


def test_a_slurmd_on_a_node_without_owner_is_wrong() -> None:
    assert only(look(free_node("w0"), pods=(ours("h100-0"),))).faults == (
        "slurmd team/demo-h100-0 is on it, and it has no owner",
    )


def test_other_parts_of_slurm_count_as_work_of_others() -> None:
    part = replace(ours("h100-0", "w0"), component=names.LOGIN, name="demo-login-0")
    entry = only(look(kube_node("w0"), pods=(part,)))
    assert entry.foreign == ("team/demo-login-0",)
    assert entry.slurmds == ()
    assert len(entry.double_claims) == 1


def test_a_slurm_node_is_shown_as_unknown_or_absent_rather_than_guessed() -> None:
    seen = look(kube_node("w0"), pods=(ours("h100-0"),))
    assert only(seen).slurmds[0].state == UNKNOWN
    assert only(replace(seen, slurm={"team.demo": unknown()})).slurmds[0].state == UNKNOWN
    assert only(replace(seen, slurm={"team.demo": slurm(**{"h100-9": "IDLE"})})).slurmds[0].state == ABSENT


def test_why_tells_that_a_node_is_to_be_left() -> None:
    node = kube_node("w0", labels={}, why="nobody else runs there")
    entry = only(look(node, pods=(ours("h100-0"),)))
    assert entry.why == "nobody else runs there; its Kubernetes node is no longer granted"
    assert entry.problems == ()


@pytest.mark.parametrize(
    ("namespace", "cluster", "shown"),
    [
        ("", "", ["w0", "w1", "w2", "w3"]),
        ("team", "", ["w0", "w1", "w3"]),
        ("", "other", ["w1"]),
        ("lab", "", ["w1", "w2"]),
        ("team", "old", []),
    ],
)
def test_entries_are_of_those_who_may_use_the_node_have_it_or_are_on_it(
    namespace: str, cluster: str, shown: list[str]
) -> None:
    nodes = (
        kube_node("w0"),
        free_node("w1", labels={names.FLEET_LABEL: "lab.old_team.other"}),
        kube_node("w2", labels={}, owner="lab.old", tainted="lab.old"),
        free_node("w3", labels={}),
    )
    found = entries(look(*nodes, pods=(ours("h100-3", "w3"),)), NOW)
    assert [entry.node for entry in found if entry.concerns(namespace, cluster)] == shown


def test_what_only_one_of_two_looks_has_found_is_no_problem() -> None:
    seen = look(kube_node("w0", state=""), kube_node("w1"), foreign=(foreign("shop", "w0"), foreign("shop", "w1")))
    later = replace(seen, foreign=(foreign("shop", "w1"), foreign("bank", "w1")), nodes=seen.nodes)
    one, two = confirmed(entries(later, NOW), entries(seen, NOW))
    assert len(one.faults) == 1
    assert one.double_claims == ()
    assert two.double_claims == ("pod web/shop runs on node w1, which is team.demo's",)
    assert confirmed(entries(look(kube_node("w9", state="")), NOW), ())[0].problems == ()
