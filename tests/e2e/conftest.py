"""One operator and a few SlurmClusters, shared by all end-to-end tests: real Kubernetes, real Slurm."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.elastic import IDLE_SECONDS, Elastic
from tests.e2e.machines import localkube
from tests.e2e.support import FLEET, Kubectl, Person, SlurmCluster

ROOT = Path(__file__).resolve().parents[2]
OPERATOR_NAMESPACE = "slurmcluster-system"
RELEASE = "slurmcluster-operator"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure what the operator and each slurmctld logged meanwhile: the clusters are gone soon after it."""
    report = yield
    kubectl = getattr(item, "funcargs", {}).get("kubectl")
    if report.failed and kubectl:
        report.sections += _logs(kubectl, f"--since={call.duration + 10:.0f}s")
    return report


def _logs(kubectl: Kubectl, since: str) -> list[tuple[str, str]]:
    """Return the last lines of each log, by name."""
    found = []
    for component in ("operator", "controller"):
        labels = f"app.kubernetes.io/component={component}"
        for pod in kubectl("get", "pods", "-A", "-l", labels, "--no-headers", check=False).splitlines():
            namespace, name, *_ = pod.split()
            lines = kubectl("-n", namespace, "logs", name, since, "--tail=400", check=False)
            found.append((f"log of {namespace}/{name}", lines))
    return found


@pytest.fixture(scope="session")
def kubectl() -> Kubectl:
    """kubectl on the cluster that KUBECONFIG_E2E names, else on localkube."""
    given = os.environ.get("KUBECONFIG_E2E")
    if not given:
        os.environ["PATH"] = f"{localkube('bin')}{os.pathsep}{os.environ['PATH']}"
    found = Kubectl(given or localkube("kubeconfig"))
    found("get", "nodes")
    return found


@pytest.fixture(scope="session")
def workers(kubectl: Kubectl) -> tuple[str, ...]:
    """Eight nodes with GPUs, four of each of two kinds, free of earlier grants."""
    nodes = kubectl.json("get", "nodes")["items"]
    found = sorted(
        n["metadata"]["name"] for n in nodes if int(n["status"]["allocatable"].get("nvidia.com/gpu", "0")) >= 8
    )
    assert len(found) >= 8, f"the end-to-end tests need eight nodes with 8 GPUs each; found {found}"
    for worker in found:
        kubectl("label", "node", worker, f"{FLEET}-")
    return tuple(found)


def install(kubectl: Kubectl) -> None:
    """Install the operator with Helm, or bring it up to date."""
    registry = os.environ.get("E2E_REGISTRY")
    subprocess.run(
        [
            "helm", "upgrade", "--install", RELEASE, str(ROOT / "charts/slurmcluster-operator"),
            "--kubeconfig", kubectl.kubeconfig, "--namespace", OPERATOR_NAMESPACE, "--create-namespace",
            "--wait", "--timeout", "120s", *(["--set", f"registry={registry}"] if registry else []),
        ],
        check=True,
    )  # fmt: skip


@pytest.fixture(scope="session")
def operator(kubectl: Kubectl) -> str:
    """Install the operator with Helm, and return its namespace."""
    install(kubectl)
    return OPERATOR_NAMESPACE


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Person]:
    """Alice and Bob, and Carol who joins later."""
    folder = tmp_path_factory.mktemp("keys")
    who = {"alice": (2001, ("vision",)), "bob": (2002, ("speech", "vision")), "carol": (2003, ())}
    for name in who:
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)], check=True
        )
    return {name: Person(name, uid, groups, folder / name) for name, (uid, groups) in who.items()}


def user(person: Person) -> dict[str, Any]:
    """Return a person as an entry of spec.users."""
    return {"name": person.name, "uid": person.uid, "groups": list(person.groups), "sshKeys": [person.public]}


def pool(name: str, count: int, **changes: Any) -> dict[str, Any]:
    """Return a pool of machines as localkube has them."""
    machine = {"cpus": 2, "memory": "2Gi", "gpus": {"type": name, "count": 8}}
    return {"name": name, "nodes": {"min": count, "max": count}, "machine": machine, **changes}


def parts(kubectl: Kubectl) -> dict[str, Any]:
    """Return where a cluster's parts run: off the nodes that are granted to another cluster later, which would wait.

    Where no node is set apart for them, they run anywhere.
    """
    if not kubectl("get", "nodes", "-l", "localkube.dev/role=system", "-o", "name"):
        return {}
    placed = {"nodeSelector": {"localkube.dev/role": "system"}}
    return {
        "controller": placed,
        "accounting": {**placed, "database": {"embedded": placed}},
        "restApi": placed,
        "login": placed,
    }


@pytest.fixture(scope="session")
def main(
    kubectl: Kubectl,
    operator: str,
    workers: tuple[str, ...],
    people: dict[str, Person],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SlurmCluster]:
    """Slurm 26.05 with all parts on: two fenced nodes and one without privilege."""
    del operator
    spec = {
        **parts(kubectl),
        "users": [user(people["alice"]), user(people["bob"])],
        "pools": [pool("h100", 2), pool("iso", 1, isolation="Pod")],
        "partitions": [
            {"name": "gpu", "pools": ["h100"], "default": True, "maxTime": "1d"},
            {"name": "iso", "pools": ["iso"]},
        ],
        "home": {"size": "1Gi"},
    }
    cluster = SlurmCluster(
        kubectl, "e2e-main", "main", spec, workers[:3], tmp_path_factory.mktemp("main") / "known_hosts"
    )
    yield from _lifetime(cluster)


@pytest.fixture(scope="session")
def second(
    kubectl: Kubectl,
    operator: str,
    workers: tuple[str, ...],
    people: dict[str, Person],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SlurmCluster]:
    """Slurm 24.11 in a namespace of its own, beside ``main``."""
    del operator
    spec = {
        **parts(kubectl),
        "slurmVersion": "24.11",
        "users": [user(people["alice"]), user(people["bob"])],
        "pools": [pool("h100", 1)],
        "partitions": [{"name": "gpu", "pools": ["h100"], "default": True}],
        "home": {"size": "1Gi"},
    }
    cluster = SlurmCluster(
        kubectl, "e2e-second", "second", spec, workers[3:4], tmp_path_factory.mktemp("two") / "known_hosts"
    )
    yield from _lifetime(cluster)


def _lifetime(cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    cluster.create()
    cluster.wait_ready(180)
    yield cluster
    if not os.environ.get("E2E_KEEP"):
        cluster.kubectl("delete", "namespace", cluster.namespace, "--wait=false")
        for worker in cluster.workers:
            cluster.kubectl("label", "node", worker, f"{FLEET}-")


@pytest.fixture(scope="session")
def elastic(
    kubectl: Kubectl,
    operator: str,
    workers: tuple[str, ...],
    people: dict[str, Person],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Elastic]:
    """Two pools from zero, h100 and a100, on two machines each."""
    del operator
    product = "nvidia.com/gpu.product"
    spec = {
        **parts(kubectl),
        "users": [user(people["alice"]), user(people["bob"])],
        "pools": [
            pool(
                name,
                0,
                nodes={"min": 0, "max": 2},
                idleTimeout=f"{idle}s",
                startTimeout="2m",
                nodeSelector={product: model},
            )
            for name, model, idle in (
                ("h100", "NVIDIA-H100-80GB-HBM3", IDLE_SECONDS),
                ("a100", "NVIDIA-A100-SXM4-80GB", IDLE_SECONDS + 1),
            )
        ],
        "partitions": [
            {"name": "gpu", "pools": ["h100", "a100"], "default": True},
            # The machines here have two cores and eight GPUs.
            {"name": "h100", "pools": ["h100"], "overSubscribe": "FORCE:4"},
            {"name": "a100", "pools": ["a100"]},
        ],
        "home": {"size": "1Gi"},
        "slurmConf": {"AccountingStorageEnforce": "associations,limits"},
    }
    cluster = SlurmCluster(
        kubectl, "e2e-elastic", "elastic", spec, workers[4:8], tmp_path_factory.mktemp("elastic") / "known_hosts"
    )
    lifetime = _lifetime(cluster)
    next(lifetime)
    for command in (
        "add account science Description=science Organization=lab",
        "add account small Description=small Organization=lab",
        "add user alice Account=science DefaultAccount=science",
        "add user alice Account=small",
        "add user bob Account=science DefaultAccount=science",
        "modify account small set GrpTRES=gres/gpu=1",
    ):
        # On a cluster that was kept they are there already, which sacctmgr calls an error.
        cluster.admin(f"sacctmgr -i {command} || true")
    yield Elastic(cluster, people["alice"])
    next(lifetime, None)
