"""The ledger on paper."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from slurmcluster_operator.decide.entries import Entry, Slurmd
from slurmcluster_operator.decide.report import age, summary, sums, table, to_json
from tests.builders import NOW


def entry(node: str, **changes: Any) -> Entry:
    fields: dict[str, Any] = {
        "granted_to": ("team.demo",),
        "owner": "team.demo",
        "state": "Owned",
        "since": NOW - timedelta(minutes=5),
        "slurmds": (Slurmd("team.demo", "h100-3", "IDLE"),),
        "foreign": (),
        "why": "nobody else runs there",
    }
    return Entry(node, **(fields | changes))


FREE: dict[str, Any] = {"owner": "", "state": "", "slurmds": (), "since": None, "why": ""}
MIXED = (
    entry("gpu-1"),
    entry("gpu-2", state="Claiming", slurmds=(), foreign=("web/a", "web/b", "web/c"), why="pool h100 needs it"),
    entry("gpu-3", state="Releasing", granted_to=()),
    entry("gpu-4", **FREE),
    entry("gpu-5", state="", double_claims=("one",), faults=("two", "three", "four")),
    entry("gpu-6", granted_to=("team.demo", "lab.x"), slurmds=(Slurmd("lab.x", "a-0", "?"),)),
)


def test_the_table_reads_as_those_of_kubectl_do() -> None:
    lines = table(MIXED, NOW).splitlines()
    assert [re.split(" {3,}", line) for line in lines] == [
        ["NODE", "GRANTED TO", "OWNER", "STATE", "SINCE", "SLURM NODE", "FOREIGN PODS", "WHY"],
        ["gpu-1", "team.demo", "team.demo", "Owned", "5m", "h100-3 IDLE", "-", "nobody else runs there"],
        ["gpu-2", "team.demo", "team.demo", "Claiming", "5m", "-", "3: web/a, web/b and 1 more", "pool h100 needs it"],
        ["gpu-3", "-", "team.demo", "Releasing", "5m", "h100-3 IDLE", "-", "nobody else runs there"],
        ["gpu-4", "team.demo", "-", "Free", "-", "-", "-", "-"],
        ["gpu-5", "team.demo", "team.demo", "?", "5m", "h100-3 IDLE", "-", "WRONG: one; two; three; and 1 more"],
        ["gpu-6", "team.demo,lab.x", "team.demo", "Owned", "5m", "lab.x/a-0 ?", "-", "nobody else runs there"],
    ]
    column = lines[0].index("FOREIGN")
    assert {line[column] for line in lines[1:]} == {"-", "3"}
    assert {line[column - 3 : column] for line in lines} == {"   "}


def test_a_clock_that_was_ahead_makes_a_claim_new() -> None:
    assert "   0s   " in table([entry("gpu-1", since=NOW + timedelta(minutes=3))], NOW)


def test_sums_count_each_node_where_it_belongs() -> None:
    assert sums(MIXED) == {
        "granted": 5,
        "owned": 2,
        "claiming": 1,
        "releasing": 1,
        "free": 1,
        "doubleClaims": 1,
        "problems": 1,
    }
    assert sums([entry("gpu-7", owner="", state="Owned")])["owned"] == 0
    assert summary(sums(MIXED)) == (
        "granted: 5, owned: 2, claiming: 1, releasing: 1, free: 1, double claims: 1, nodes with problems: 1"
    )


def test_json_has_everything_unshortened() -> None:
    found = json.loads(to_json(MIXED[4:], sums(MIXED)))
    assert found["summary"] == sums(MIXED)
    assert found["nodes"][0] == {
        "node": "gpu-5",
        "grantedTo": ["team.demo"],
        "owner": "team.demo",
        "state": "",
        "since": (NOW - timedelta(minutes=5)).isoformat(),
        "slurmNodes": [{"cluster": "team.demo", "name": "h100-3", "state": "IDLE"}],
        "foreignPods": [],
        "why": "nobody else runs there",
        "doubleClaims": ["one"],
        "problems": ["one", "two", "three", "four"],
    }
    assert json.loads(to_json([entry("gpu-4", **FREE)], {}))["nodes"][0]["since"] is None


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        # As k8s.io/apimachinery/pkg/util/duration.HumanDuration writes them.
        (-5, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (123, "2m3s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 61, "3h1m"),
        (8 * 3600 + 60, "8h"),
        (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400 + 3600, "8d"),
        (2 * 365 * 86400 - 1, "729d"),
        (2 * 365 * 86400, "2y"),
        (2 * 365 * 86400 + 86400, "2y1d"),
        (9 * 365 * 86400 + 86400, "9y"),
    ],
)
def test_ages_are_written_as_kubectl_writes_them(seconds: float, written: str) -> None:
    assert age(seconds) == written
