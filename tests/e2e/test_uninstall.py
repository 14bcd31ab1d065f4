"""The operator is uninstalled: nodes stay whose they are and jobs go on, until one command hands all nodes back."""

from __future__ import annotations

import os
import re
import subprocess
import time
from typing import Any

from tests.e2e.conftest import OPERATOR_NAMESPACE, RELEASE, ROOT, install
from tests.e2e.elastic import Elastic
from tests.e2e.fleet import OWNER, Node, own
from tests.e2e.machines import needs_localkube
from tests.e2e.support import FLEET, Kubectl, eventually

OURS = "slurmcluster.dev/"


def hand_back() -> str:
    """Return the one command that docs/operations.md has for it."""
    _, _, section = (ROOT / "docs/operations.md").read_text().partition("### After the operator\n")
    section, _, _ = section.partition("\n#")
    found = re.search(r"(?:^    .*\n)+", section, re.MULTILINE)
    assert found
    return found[0]


def marks(raw: dict[str, Any]) -> set[str]:
    """Return the keys of everything of ours on a Node, but for the grant."""
    metadata = raw["metadata"]
    keys = {*metadata["labels"], *metadata["annotations"], *(one["key"] for one in raw["spec"].get("taints", ()))}
    return {key for key in keys if key.startswith(OURS)} - {FLEET}


def nodes(kubectl: Kubectl) -> dict[str, set[str]]:
    """Return our marks on each node."""
    return {raw["metadata"]["name"]: marks(raw) for raw in kubectl.json("get", "nodes")["items"]}


def ready_clusters(kubectl: Kubectl) -> set[tuple[str, str]]:
    return {
        (one["metadata"]["namespace"], one["metadata"]["name"])
        for one in kubectl.json("get", "slc", "-A")["items"]
        for condition in one.get("status", {}).get("conditions", ())
        if (condition["type"], condition["status"]) == ("Ready", "True") and "deletionTimestamp" not in one["metadata"]
    }


def test_owners_outlive_the_operator_and_one_command_hands_their_nodes_back(
    elastic: Elastic, kubectl: Kubectl, operator: str
) -> None:
    needs_localkube(kubectl, "not on a cluster of somebody's: every node is handed back")
    elastic.clear()
    cluster = elastic.cluster
    job = elastic.sbatch("until [ -e end-$SLURM_JOB_ID ]; do sleep 0.2; done", "-p h100 -N 1 --exclusive")
    cluster.wait_job(job, "RUNNING")
    before, ready = nodes(kubectl), ready_clusters(kubectl)
    owned = [Node(kubectl, worker) for worker in cluster.workers]
    uninstall = ["helm", "uninstall", RELEASE, "--namespace", OPERATOR_NAMESPACE, "--wait"]
    subprocess.run([*uninstall, "--kubeconfig", kubectl.kubeconfig], check=True)
    try:
        assert {node.owner() for node in owned} == {f"{own(cluster)} Owned"}
        assert nodes(kubectl) == before
        env = {**os.environ, "KUBECONFIG": kubectl.kubeconfig}
        with subprocess.Popen(["sh", "-c", hand_back()], env=env) as handing_back:
            deleted = lambda: "deletionTimestamp" in _slurmd(elastic, job)["metadata"]  # noqa: E731
            eventually("the slurmd pod is told to go", deleted, within=15)
            # It waits for its job, and the node for it.
            for _ in range(5):
                assert cluster.job_state(job) == "RUNNING"
                assert {node.owner() for node in owned} == {f"{own(cluster)} Owned"}
                assert handing_back.poll() is None
                time.sleep(1)
            cluster.ssh(elastic.alice, f"touch end-{job}")
            cluster.wait_job(job)
            assert elastic.job(job)["restart_cnt"] == 0
            assert handing_back.wait(timeout=60) == 0
        assert nodes(kubectl) == {name: set() if OWNER in had else had for name, had in before.items()}
    finally:
        install(kubectl)
    for node in owned:
        node.is_owned(own(cluster))
    for namespace, name in ready:
        kubectl("-n", namespace, "wait", "--for=condition=Ready", f"slc/{name}", "--timeout=120s")
    cluster.wait_job(elastic.sbatch("hostname", "-p h100 -N 1 --exclusive"), within=120)
    cluster.wait_condition("FleetConsistent", "True", reason="OneOwner", within=90)


def _slurmd(elastic: Elastic, job: str) -> dict[str, Any]:
    cluster = elastic.cluster
    found: dict[str, Any] = cluster.json("get", "pod", f"{cluster.name}-{elastic.job(job)['nodes']}")
    return found
