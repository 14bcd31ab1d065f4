"""What only the operator can see: named within ten seconds, harming nothing, healing when it is corrected."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import Kubectl, SlurmCluster

SPEC: dict[str, Any] = {
    "accounting": {"enabled": False},
    "pools": [{"name": "none", "nodes": {"min": 0, "max": 1}, "machine": {"cpus": 1, "memory": "1Gi"}}],
    "partitions": [{"name": "all", "pools": ["none"], "default": True}],
    "home": {"size": "1Gi"},
}


@pytest.fixture
def broken(kubectl: Kubectl, operator: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    """A small cluster without nodes, not applied yet."""
    del operator
    namespace = "e2e-" + request.node.name.removeprefix("test_").replace("_", "-")[:50].strip("-")
    cluster = SlurmCluster(kubectl, namespace, "small", copy.deepcopy(SPEC), (), tmp_path / "known_hosts")
    yield cluster
    kubectl("delete", "namespace", namespace, "--wait=false")


def test_a_missing_secret(broken: SlurmCluster) -> None:
    broken.spec["login"] = {"authorizedKeysSecret": "nowhere"}
    broken.create()
    broken.wait_condition("SpecValid", "False", words="Secret nowhere does not exist", within=10)
    broken.ctl("create", "secret", "generic", "nowhere", "--from-literal=alice=x")
    broken.wait_condition("SpecValid", "True", within=15)
    broken.wait_condition("Ready", "True", within=60)


def test_an_unknown_storage_class(broken: SlurmCluster) -> None:
    broken.spec["home"]["storageClassName"] = "nosuch"
    broken.create()
    broken.wait_condition("SpecValid", "False", words="StorageClass nosuch does not exist", within=10)
    seen = broken.wait_condition("LoginReady", "False", reason="VolumeNotBound", within=15)
    assert "nosuch" in seen["message"]
    broken.wait_condition("ControllerReady", "True", within=60)
    default = next(
        one
        for one in broken.kubectl.json("get", "storageclass")["items"]
        if one["metadata"].get("annotations", {}).get("storageclass.kubernetes.io/is-default-class") == "true"
    )
    metadata = {"name": "nosuch"}
    kept = {
        key: default[key]
        for key in ("apiVersion", "kind", "provisioner", "volumeBindingMode", "reclaimPolicy")
        if key in default
    }
    broken.kubectl.apply({**kept, "metadata": metadata})
    try:
        broken.wait_condition("Ready", "True", within=90)
    finally:
        broken.kubectl("delete", "storageclass", "nosuch")


def test_an_image_that_cannot_be_pulled(broken: SlurmCluster) -> None:
    broken.spec["images"] = {"registry": "registry.invalid/nothing"}
    broken.create()
    for kind in ("ControllerReady", "RestReady", "LoginReady"):
        seen = broken.wait_condition(kind, "False", reason="ImageNotPullable", within=10)
        assert "registry.invalid/nothing" in seen["message"]
    del broken.spec["images"]
    broken.apply()
    broken.wait_condition("Ready", "True", within=90)


def test_nodes_that_nobody_granted(broken: SlurmCluster) -> None:
    broken.spec["pools"][0]["nodes"]["min"] = 1
    broken.create()
    seen = broken.wait_condition("PoolsReady", "False", reason="TooFewNodes", within=60)
    assert f"slurmcluster.dev/fleet={broken.namespace}.small" in seen["message"]
    broken.wait_condition("SlurmReachable", "True", within=30)
    # No pod is made before there is a node for it.
    assert not broken.json("get", "pods", "-l", "app.kubernetes.io/component=slurmd")["items"]
