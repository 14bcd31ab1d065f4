from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from slurmcluster_operator.api.group import API_VERSION, KIND
from slurmcluster_operator.api.spec import SlurmClusterSpec
from slurmcluster_operator.manifests.build import standing_objects
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model.names import Names

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def documents(name: str) -> list[dict[str, Any]]:
    return [found for found in yaml.safe_load_all((EXAMPLES / name).read_text()) if found]


def cluster(name: str) -> Cluster:
    (found,) = (document for document in documents(name) if document["kind"] == KIND)
    assert found["apiVersion"] == API_VERSION
    metadata = found["metadata"]
    return Cluster(
        Names(metadata.get("namespace", "default"), metadata["name"]),
        "uid",
        SlurmClusterSpec.model_validate(found["spec"]),
    )


def test_there_are_examples() -> None:
    assert {path.name for path in EXAMPLES.glob("*.yaml")} == {"minimal.yaml", "demo.yaml", "production.yaml"}


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.yaml")))
def test_is_valid_and_renders(name: str) -> None:
    assert standing_objects(cluster(name))


def test_the_demos_namespace_is_there_first() -> None:
    first, second = documents("demo.yaml")
    assert first["kind"] == "Namespace"
    assert first["metadata"]["name"] == second["metadata"]["namespace"] == "slurm-demo"


def test_the_demo_fits_localkube() -> None:
    spec = cluster("demo.yaml").spec

    assert {pool.name: (pool.nodes.min, pool.nodes.max) for pool in spec.pools} == {"h100": (0, 2), "a100": (0, 2)}
    assert all(pool.machine.cpus == 2 for pool in spec.pools)
    assert spec.login.authorized_keys_secret == "demo-ssh-keys"
    assert not any(user.ssh_keys for user in spec.users)


def test_production_shows_what_it_says() -> None:
    spec = cluster("production.yaml").spec

    assert spec.accounting.database.external
    assert {pool.isolation for pool in spec.pools} == {"Cgroup", "Pod"}
    assert all(pool.machine.gpus and pool.machine.memory == "1000Gi" for pool in spec.pools)
