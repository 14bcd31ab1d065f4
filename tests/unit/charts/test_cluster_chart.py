from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slurmcluster_operator.api.spec import SlurmClusterSpec
from tests.bad_input import BAD, GOOD, VALID, Bad, Changes, changed
from tests.unit.charts.conftest import Helm, Render

CHART = "slurm-cluster"

BEYOND_JSON_SCHEMA = (
    "nothing",  # the chart has defaults
    "a key of a later version",
    "two pools of a name",
    "two partitions of a name",
    "two users of a name",
    "a partition over an unknown pool",
    "two default partitions",
    "a partition named DEFAULT",
    "a partition of ours",
    "defaultTime beyond maxTime",
    "no defaultTime limit below maxTime",
    "min above max",
    "warm above max",
    "more than 65000 nodes in all",
    "odd cpus",
    "a pool named after a part",
    "a toleration of nothing",
    "a toleration with a value too many",
    "a uid used twice",
    "a user named root",
    "a group of the images",
    "a key of a kind that is not accepted",
    "a key cut off",
    "a key cut off before its comment",
    "a class for a claim that is there",
    "two databases",
    "no database",
    "a negative limit",
)
"""What only the API server can refuse: rules between fields."""


def values(folder: Path, spec: dict[str, Any], **others: Any) -> tuple[str, str]:
    path = folder / "values.json"
    path.write_text(json.dumps({"spec": spec, **others}))
    return "--values", str(path)


def test_the_clusters_chart_lints(helm: Helm) -> None:
    done = helm("lint", CHART, "--strict")
    assert done.returncode == 0, done.stdout


def test_its_defaults_are_a_valid_cluster_named_after_the_release(render: Render) -> None:
    made = render(CHART, "--namespace", "team", release="demo")["SlurmCluster"]

    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("demo", "team")
    SlurmClusterSpec.model_validate(made["spec"])


def test_passes_the_spec_on_as_it_is(render: Render, tmp_path: Path) -> None:
    made = render(CHART, *values(tmp_path, VALID, name="other", labels={"team": "a"}, annotations={"note": "b"}))

    assert made["SlurmCluster"]["spec"] == VALID
    assert made["SlurmCluster"]["metadata"]["name"] == "other"
    assert made["SlurmCluster"]["metadata"]["labels"]["team"] == "a"
    assert made["SlurmCluster"]["metadata"]["annotations"] == {"note": "b"}


@pytest.mark.parametrize("changes", GOOD.values(), ids=GOOD.keys())
def test_takes_what_is_fine(render: Render, tmp_path: Path, changes: Changes) -> None:
    render(CHART, *values(tmp_path, changed(changes)))


@pytest.mark.parametrize("bad", [bad for bad in BAD if bad.name not in BEYOND_JSON_SCHEMA], ids=lambda bad: bad.name)
def test_refuses_what_json_schema_can_tell(helm: Helm, tmp_path: Path, bad: Bad) -> None:
    done = helm("template", CHART, *values(tmp_path, changed(bad.changes)))
    assert done.returncode != 0, "it was accepted"
    assert "values don't meet the specifications of the schema" in done.stderr


@pytest.mark.parametrize("name", ["Demo", "1st", "a.b", "x" * 31])
def test_refuses_a_name_that_pods_cannot_carry(helm: Helm, name: str) -> None:
    done = helm("template", CHART, "--set-string", f"name={name}")
    assert done.returncode != 0
    assert "name" in done.stderr


def test_refuses_a_release_name_that_pods_cannot_carry(helm: Helm) -> None:
    done = helm("template", CHART, release="x" * 31)
    assert done.returncode != 0
    assert "must be 1 to 30 lower-case letters" in done.stderr


def test_refuses_a_name_too_long_for_the_label_that_grants_nodes(helm: Helm) -> None:
    done = helm("template", CHART, "--namespace", "n" * 50, release="a-long-name-of-a-cluster")
    assert done.returncode != 0
    assert "longer than 63 characters" in done.stderr


def test_says_what_to_do_next(helm: Helm) -> None:
    done = helm("install", CHART, "--dry-run=client", "--namespace", "team", release="demo")

    assert done.returncode == 0, done.stderr
    assert "kubectl label node NODE... slurmcluster.dev/fleet=team.demo" in done.stdout
    assert "kubectl -n team wait --for=condition=Ready slc/demo" in done.stdout
    assert "ssh -p" in done.stdout
