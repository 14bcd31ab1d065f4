"""What others do to a node on which a cluster's slurmd runs: it is refused, seen and told, or mended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.e2e.conftest import RELEASE
from tests.e2e.elastic import Elastic
from tests.e2e.fleet import IMAGE, OWNER, Json, Node, fleet, own
from tests.e2e.owned import DENIED, OWN_KEY, enforcement
from tests.e2e.support import Kubectl, SlurmCluster, eventually

SHOP = "e2e-shop"
"""Namespace of people who have nothing to do with Slurm."""
SHARED = "slurmcluster: other work is on its Kubernetes node"
IN_OPERATOR = ("exec", f"deploy/{RELEASE}", "--", "python")
SCRAPE = "import urllib.request; print(urllib.request.urlopen('http://localhost:8080/metrics').read().decode())"


@dataclass(frozen=True)
class Busy:
    """A node on which a job runs."""

    elastic: Elastic
    job: str
    seat: str
    pod: Json
    node: Node

    @property
    def cluster(self) -> SlurmCluster:
        return self.elastic.cluster

    @property
    def belongs(self) -> str:
        """How the API server begins when it refuses others the node."""
        return f"node {self.node.name} belongs to the Slurm cluster {self.cluster.namespace}/{self.cluster.name}"

    def drain(self) -> str:
        """Return why Slurm gives the seat no further job; empty if it does."""
        shown = self.cluster.admin(f"scontrol -o show node {self.seat}")
        found = re.search(r"Reason=(.*?) \[", shown)
        return found[1] if found and "DRAIN" in shown else ""

    def the_job_completes(self) -> None:
        """Let the job end, and see that it ran once, to its end, in the pod in which it began."""
        assert self.cluster.job_state(self.job) == "RUNNING"
        self.cluster.ssh(self.elastic.alice, f"touch end-{self.job}")
        self.cluster.wait_job(self.job)
        assert self.elastic.job(self.job)["restart_cnt"] == 0
        assert self.pod_is_the_same()

    def pod_is_the_same(self) -> bool:
        """Tell whether the slurmd pod is there as it was, and nobody has told it to go."""
        now = self.cluster.json("get", "pod", self.pod["metadata"]["name"])["metadata"]
        return (now["uid"], "deletionTimestamp" in now) == (self.pod["metadata"]["uid"], False)


@pytest.fixture
def calm(elastic: Elastic) -> Elastic:
    """The elastic cluster with nothing running on it."""
    elastic.clear()
    return elastic


@pytest.fixture
def busy(calm: Elastic) -> Iterator[Busy]:
    """A node on which a job runs for a while."""
    cluster = calm.cluster
    cluster.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}})
    job = calm.sbatch("until [ -e end-$SLURM_JOB_ID ]; do sleep 0.2; done", "-p h100 -N 1 --exclusive")
    cluster.wait_job(job, "RUNNING")
    seat = calm.job(job)["nodes"]
    pod = cluster.json("get", "pod", f"{cluster.name}-{seat}")
    yield Busy(calm, job, seat, pod, Node(cluster.kubectl, pod["spec"]["nodeName"]))
    cluster.kubectl("-n", SHOP, "delete", "pod", "--all", "--wait=true")
    calm.cancel()


def pod_json(name: str, **spec: object) -> Json:
    """Return a pod of the shop's that sleeps."""
    container = {"name": "main", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["sleep", "3600"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": SHOP},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], **spec},
    }


def create(kubectl: Kubectl, manifest: Json, *options: str) -> str:
    """Create an object; return what kubectl said, for better or worse."""
    return kubectl("create", "-f", "-", *options, text=json.dumps(manifest), check=False)


def test_whoever_is_not_its_slurmd_is_refused_a_node_and_told_whose_it_is(busy: Busy) -> None:
    kubectl, slurmd = busy.cluster.kubectl, busy.pod["metadata"]["name"]
    busy.node.is_owned(own(busy.cluster))
    for name in ("web", slurmd):
        said = create(kubectl, pod_json(name, nodeName=busy.node.name), "--dry-run=server")
        assert f"{DENIED}{busy.belongs}" in said
    here = {"kubernetes.io/hostname": busy.node.name}
    said = create(kubectl, pod_json(slurmd, nodeSelector=here, tolerations=[OWN_KEY]), "--dry-run=server")
    assert f"{DENIED}this pod tolerates the taint {OWNER}" in said

    # A scheduler that knows neither taints nor owners.
    for name in ("web", slurmd):
        assert "created" in create(kubectl, pod_json(name, schedulerName="second"))
        target = {"apiVersion": "v1", "kind": "Node", "name": busy.node.name}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        path = f"/api/v1/namespaces/{SHOP}/pods/{name}/binding?dryRun=All"
        said = kubectl("create", "--raw", path, "-f", "-", text=json.dumps(binding), check=False)
        assert f"{DENIED}{busy.belongs}" in said
    assert busy.pod_is_the_same()


@contextmanager
def audit(busy: Busy, operator: str) -> Iterator[None]:
    """Let in for a while what is refused otherwise."""
    kubectl = busy.cluster.kubectl
    probe = pod_json("probe", nodeName=busy.node.name)
    enforcement(kubectl, operator, "Audit")
    try:
        eventually("it is let in", lambda: "denied" not in create(kubectl, probe, "--dry-run=server"), within=30)
        yield
    finally:
        enforcement(kubectl, operator, "Enforce")
        eventually("it is refused again", lambda: "denied" in create(kubectl, probe, "--dry-run=server"), within=30)


def test_a_pod_that_gets_there_is_seen_and_told_everywhere_and_left_alone(busy: Busy, operator: str) -> None:
    cluster, kubectl, node, title = busy.cluster, busy.cluster.kubectl, busy.node, f"{SHOP}/intruder"
    node.is_owned(own(cluster))
    with audit(busy, operator):
        create(kubectl, pod_json("intruder", nodeName=node.name))
        kubectl("-n", SHOP, "wait", "--for=condition=Ready", "pod/intruder", "--timeout=30s")
    intruder = kubectl.json("-n", SHOP, "get", "pod", "intruder")

    words = f"pod {title} runs on node {node.name}, which is {own(cluster)}'s"
    cluster.wait_condition("FleetConsistent", "False", reason="DoubleClaim", words=words)
    assert fleet(cluster)["doubleClaims"] == 1
    for kind, name, where in (("SlurmCluster", cluster.name, cluster.namespace), ("Node", node.name, "default")):
        chosen = f"involvedObject.kind={kind},involvedObject.name={name},reason=DoubleClaim,type=Warning"
        events = kubectl.json("-n", where, "get", "events", "--field-selector", chosen)["items"]
        assert words in {one["message"] for one in events}, events
    labels = {"cluster": cluster.name, "namespace": cluster.namespace, "node": node.name, "pod": title}
    assert labels in _double_claims(kubectl, operator)
    shown = kubectl("-n", operator, *IN_OPERATOR, "-m", "slurmcluster_operator", "fleet", "--problems", check=False)
    (line,) = (one for one in shown.splitlines() if one.startswith(node.name))
    assert f"WRONG: {words}" in line
    assert "exit code 1" in shown
    eventually("its seat takes no further job", lambda: busy.drain() == f"{SHARED}: {title}", within=15)

    # Nothing is done to either.
    assert cluster.job_state(busy.job) == "RUNNING"
    assert busy.pod_is_the_same()
    now = kubectl.json("-n", SHOP, "get", "pod", "intruder")
    assert now["metadata"] == intruder["metadata"]
    assert now["status"]["phase"] == "Running"

    kubectl("-n", SHOP, "delete", "pod", "intruder")
    cluster.wait_condition("FleetConsistent", "True")
    eventually("its seat takes jobs", lambda: not busy.drain(), within=15)
    assert fleet(cluster)["doubleClaims"] == 0
    assert labels not in _double_claims(kubectl, operator)
    busy.the_job_completes()


def _double_claims(kubectl: Kubectl, operator: str) -> list[dict[str, str]]:
    """Return the labels of each double claim that the operator's metrics tell."""
    text = kubectl("-n", operator, *IN_OPERATOR, "-c", SCRAPE)
    found = re.findall(r"^slurmcluster_fleet_double_claim\{(.*)\} 1\.0$", text, re.MULTILINE)
    return [dict(re.findall(r'(\w+)="([^"]*)"', one)) for one in found]


def test_marks_that_an_administrator_takes_off_under_a_job_come_back(busy: Busy) -> None:
    cluster, node = busy.cluster, busy.node
    node.is_owned(own(cluster))
    cluster.kubectl("taint", "node", node.name, f"{OWNER}-")
    cluster.kubectl("label", "node", node.name, f"{OWNER}-")
    node.is_owned(own(cluster))
    busy.the_job_completes()
    cluster.wait_condition("FleetConsistent", "True")
