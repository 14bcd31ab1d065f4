"""The operator is not in the data path: without it jobs are submitted, run and finish, and nothing is lost."""

from __future__ import annotations

import time
from typing import Any

from tests.e2e.support import Kubectl, Person, SlurmCluster, eventually

KINDS = "statefulsets,deployments,services,configmaps,persistentvolumeclaims,networkpolicies"
DEPLOYMENT = "deployment/slurmcluster-operator"


def test_a_minute_without_the_operator(
    main: SlurmCluster, kubectl: Kubectl, operator: str, people: dict[str, Person]
) -> None:
    main.wait_condition("Ready", "True", within=60)
    long = main.sbatch(people["alice"], "sleep 40; echo survived", "-p gpu")
    main.wait_job(long, "RUNNING")
    before = _versions(main)
    workers = _pods(main)
    kubectl("-n", operator, "scale", DEPLOYMENT, "--replicas=0")
    eventually("the operator is gone", lambda: not _operator_pods(kubectl, operator), within=40)
    started = time.monotonic()
    try:
        first = main.run_job(people["bob"], "echo without", "-p iso")
        main.ctl("delete", "pod", "main-controller-0", "--wait=true")
        eventually("slurmctld is back", lambda: main.admin("scontrol ping").count("UP"), within=60)
        second = main.run_job(people["bob"], "echo after the restart", "-p iso")
        time.sleep(max(0.0, 60 - (time.monotonic() - started)))
    finally:
        kubectl("-n", operator, "scale", DEPLOYMENT, "--replicas=1")
        kubectl("-n", operator, "rollout", "status", DEPLOYMENT, "--timeout=60s")
    assert (first, second) == ("without\n", "after the restart\n")
    main.wait_job(long)
    assert main.output(people["alice"], long) == "survived\n"
    time.sleep(10)
    main.wait_condition("Ready", "True", within=30)
    assert _versions(main) == before
    assert _pods(main) == workers


def _operator_pods(kubectl: Kubectl, namespace: str) -> list[Any]:
    found: list[Any] = kubectl.json("-n", namespace, "get", "pods", "-l", "app.kubernetes.io/component=operator")[
        "items"
    ]
    return found


def _versions(cluster: SlurmCluster) -> dict[str, Any]:
    """What changes when somebody changes an object: the generation of workloads, the version of all others."""
    items = cluster.json("get", KINDS)["items"]
    return {
        f"{item['kind']}/{item['metadata']['name']}": (
            item["metadata"].get("generation")
            if "Set" in item["kind"] or item["kind"] == "Deployment"
            else item.get("data") or item["spec"]
        )
        for item in items
    }


def _pods(cluster: SlurmCluster) -> dict[str, str]:
    items = cluster.json("get", "pods", "-l", "app.kubernetes.io/component=slurmd")["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}
