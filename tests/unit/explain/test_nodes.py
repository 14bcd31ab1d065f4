"""Which nodes a job may use, and how lists of them are written."""

from __future__ import annotations

from typing import Any

import pytest

from slurmcluster_operator.explain.nodes import candidates, condition, describe
from slurmcluster_operator.explain.records import host_list, hosts, listed, number, span

NODES: list[dict[str, Any]] = [
    {"name": "h-0", "partitions": ["gpu"], "features": ["h100", "ib"], "gres": "gpu:h100:8", "state": ["IDLE"]},
    {"name": "h-1", "partitions": ["gpu", "h"], "features": ["h100"], "gres": "gpu:h100:8(S:0-1)", "state": ["IDLE"]},
    {"name": "a-0", "partitions": ["gpu"], "features": ["a100"], "gres": "gpu:a100:8", "state": ["IDLE"]},
    {"name": "c-0", "partitions": ["cpu"], "features": [], "gres": "", "state": ["IDLE"]},
]


@pytest.mark.parametrize(
    ("job", "names"),
    [
        ({"partition": "gpu"}, ["h-0", "h-1", "a-0"]),
        ({"partition": "gpu,cpu"}, ["h-0", "h-1", "a-0", "c-0"]),
        ({"partition": "gpu", "excluded_nodes": "h-[0-1]"}, ["a-0"]),
        ({"partition": "gpu", "features": "h100&ib"}, ["h-0"]),
        ({"partition": "gpu", "features": "ib|a100"}, ["h-0", "a-0"]),
        ({"partition": "gpu", "features": "[h100*1&a100*1]"}, ["h-0", "h-1", "a-0"]),
        ({"partition": "gpu", "tres_per_node": "gres/gpu:h100:2"}, ["h-0", "h-1"]),
        ({"partition": "gpu,cpu", "tres_per_job": "gres:gpu:1"}, ["h-0", "h-1", "a-0"]),
        ({"partition": "gpu", "required_nodes": "h-1"}, ["h-1"]),
        ({"partition": "gpu", "required_nodes": "a-0", "tres_req_str": "cpu=2,node=2"}, ["a-0", "h-0", "h-1"]),
    ],
)
def test_nodes_that_a_job_may_use(job: dict[str, Any], names: list[str]) -> None:
    assert [node["name"] for node in candidates(job, NODES)] == names


@pytest.mark.parametrize(
    ("state", "what"),
    [
        (["IDLE", "CLOUD"], "free"),
        (["IDLE", "CLOUD", "POWERED_DOWN"], "powered off, ready to be started"),
        (["IDLE", "CLOUD", "NOT_RESPONDING", "POWERING_UP"], "being started"),
        (["IDLE", "CLOUD", "POWERING_DOWN"], "being stopped"),
        (["IDLE", "CLOUD", "DRAIN", "POWERED_DOWN"], "drained"),
        (["MIXED", "DRAIN"], "draining"),
        (["IDLE", "DRAIN", "INVALID_REG"], "misfitting"),
        (["DOWN", "CLOUD", "NOT_RESPONDING", "POWERING_UP"], "down"),
        (["ALLOCATED"], "busy"),
        (["MIXED"], "partly busy"),
        (["IDLE", "PLANNED"], "kept for a job that comes before it"),
        (["IDLE", "NOT_RESPONDING"], "not responding"),
    ],
)
def test_what_keeps_a_node(state: list[str], what: str) -> None:
    assert condition({"name": "n", "state": state, "reason": "r"})[0] == what


def test_a_reason_that_no_longer_holds_is_not_told() -> None:
    assert condition({"name": "n", "state": ["IDLE", "POWERED_DOWN"], "reason": "slurmcluster: old"})[1] == ""


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        ("ResumeTimeout reached", "The operator tries again by itself."),
        ("slurmcluster: could not be started: x", "The operator tries again by itself."),
        ("Not responding", "a-0 comes back once its pod is confirmed gone or its slurmd answers."),
        ("burnt", "Only an administrator can bring back a-0."),
    ],
)
def test_who_brings_back_a_node_that_is_down(reason: str, end: str) -> None:
    down = [{"name": "a-0", "partitions": ["gpu"], "state": ["DOWN", "CLOUD", "POWERED_DOWN"], "reason": reason}]
    assert describe({"partition": "gpu"}, down).endswith(f"). {end}")


def test_a_persons_drain_stays_a_persons_whatever_its_words() -> None:
    drained = [{"name": "a-0", "partitions": ["gpu"], "state": ["IDLE", "DRAIN"], "reason": "Not responding to ping"}]
    assert describe({"partition": "gpu"}, drained).endswith("Only an administrator can bring back a-0.")


def test_several_lost_nodes_are_told_together() -> None:
    lost = {"partitions": ["gpu"], "state": ["DOWN", "NOT_RESPONDING"], "reason": "Not responding"}
    said = describe({"partition": "gpu"}, [{**lost, "name": f"a-{number}"} for number in (0, 1)])
    assert said.endswith("a-[0-1] come back once their pods are confirmed gone or their slurmd answer.")


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("h-0", ["h-0"]),
        ("h-[0-2,7]", ["h-0", "h-1", "h-2", "h-7"]),
        ("a,h-[8-10]", ["a", "h-8", "h-9", "h-10"]),
        ("", []),
    ],
)
def test_host_lists(written: str, names: list[str]) -> None:
    assert hosts(written) == names
    assert host_list(names) == written


def test_host_lists_keep_leading_zeros() -> None:
    assert hosts("n[08-11]") == ["n08", "n09", "n10", "n11"]
    assert hosts(host_list(["n08", "n09"])) == ["n08", "n09"]


def test_numbers_and_words() -> None:
    assert number({"a": {"set": True, "infinite": False, "number": 4}}, "a") == 4
    assert number({"a": {"set": True, "infinite": True, "number": 4}}, "a") is None
    assert number({"a": {"set": False, "infinite": False, "number": 4}}, "a") is None
    assert number({"a": 4}, "a") == 4
    assert number({}, "a") is None
    assert [span(each) for each in (-1, 59, 60, 3661, 200_000)] == ["0 s", "59 s", "1 min", "1 h 1 min", "2 days"]
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
