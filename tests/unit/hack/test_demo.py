from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hack import check, demo, kube, local


def test_a_cluster_of_ones_own_needs_nodes_named() -> None:
    assert demo.Options.from_environment({}) == demo.Options()
    named = demo.Options.from_environment({"KUBECONFIG_DEMO": "/k", "DEMO_NODES": "a, b,", "DEMO_REGISTRY": "r/x"})
    assert named == demo.Options("/k", "r/x", ("a", "b"))
    with pytest.raises(demo.DemoError, match="DEMO_NODES"):
        demo.Options.from_environment({"KUBECONFIG_DEMO": "/k"})


def test_an_address_where_nothing_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert demo.reach(f"127.0.0.1:{port}", limit=1) == ("127.0.0.1", port)
    assert demo.reach(f"127.0.0.1:{port}", limit=0) is None


def test_condition() -> None:
    resource = {"status": {"conditions": [{"type": "Ready", "message": "x"}]}}
    assert kube.condition(resource, "Ready")["message"] == "x"
    assert kube.condition(resource, "Other") == {}
    assert kube.condition({}, "Ready") == {}


def test_tools_are_found_on_path_or_in_our_own_folder() -> None:
    there = local.Kubernetes(Path("/k/config"), Path("/our/bin"))
    assert there.env["KUBECONFIG"] == "/k/config"
    assert there.env["PATH"].startswith("/our/bin:")
    assert not local.Kubernetes(Path("/k/config")).env["PATH"].startswith("/our/bin")


def test_each_image_has_one_archive() -> None:
    names = [path.name.rsplit("-", 1)[0] for path in local.archives()]
    assert names == ["slurm-26.05", "slurmd-26.05", "login-26.05", "mariadb-11.8", "operator-dev"]


def test_localkube_is_not_built_for_a_cluster_of_ones_own() -> None:
    everything = [task.name for part in check.parts({}) for task in part]
    assert everything == ["programs", "venv", "lint-code", "unit", "images 26.05", "images 24.11"]
    assert [task.name for part in check.parts({"KUBECONFIG_E2E": "/k"}) for task in part] == [
        "venv",
        "lint-code",
        "unit",
    ]
    assert [task.name for part in check.trials({}) for task in part] == ["soak", "lint-chart", "test-localkube"]
    assert [task.name for part in check.trials({"KUBECONFIG_E2E": "/k"}) for task in part] == ["lint-chart"]
