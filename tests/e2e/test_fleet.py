"""One owner a node: claims, foreign work, nodes that come and go, two clusters on the same nodes, a silent kubelet."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import RELEASE, parts, pool
from tests.e2e.elastic import Elastic
from tests.e2e.fleet import IMAGE, OWNER, SERVES, Json, Node, fleet, no_double_claims, own
from tests.e2e.machines import localkube, needs_localkube
from tests.e2e.owned import enforcement
from tests.e2e.support import FLEET, Kubectl, Person, SlurmCluster, eventually

PRODUCT = "nvidia.com/gpu.product"
H100 = "NVIDIA-H100-80GB-HBM3"
TEAM = "e2e-inference"
SOON = {"sharing": "Elastic", "returnAfter": "2s"}


@pytest.fixture(scope="module")
def team(kubectl: Kubectl) -> Iterator[str]:
    """A namespace of people who have nothing to do with Slurm, with two priorities of theirs."""
    kubectl.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}},
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "e2e-spare"},
            "value": -10,
            "preemptionPolicy": "Never",
        },
    )
    yield TEAM
    kubectl("delete", "namespace", TEAM, "--wait=false")
    kubectl("delete", "priorityclass", "e2e-spare", "--ignore-not-found")


@pytest.fixture
def calm(elastic: Elastic) -> Elastic:
    """The elastic cluster with nothing running on it."""
    elastic.clear()
    return elastic


def gpu_pod(name: str, node: str, *, priority: str = "", seconds: int = 3600, labels: Json | None = None) -> Json:
    """Return a pod of the team's that wants all GPUs of a node and goes by the scheduler."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": TEAM, "labels": labels or {}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/hostname": node},
            **({"priorityClassName": priority} if priority else {}),
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["sleep", str(seconds)],
                    "resources": {"limits": {"nvidia.com/gpu": "8"}},
                }
            ],
        },
    }


@contextmanager
def running(kubectl: Kubectl, pod: Json) -> Iterator[None]:
    """Run a pod of the team's for a while."""
    name = pod["metadata"]["name"]
    kubectl.apply(pod)
    try:
        kubectl("-n", TEAM, "wait", "--for=condition=Ready", f"pod/{name}", "--timeout=40s")
        yield
    finally:
        kubectl("-n", TEAM, "delete", "pod", name, "--ignore-not-found", "--wait=true")


@contextmanager
def elastic_pools(calm: Elastic, **h100: Any) -> Iterator[tuple[Node, Node]]:
    """Make both pools Elastic for a while; yield the two nodes of pool h100, free."""
    with calm.edited(h100={**SOON, **h100}, a100=SOON):
        cluster = calm.cluster
        nodes = cluster.kubectl.json(
            "get", "nodes", "-l", f"{FLEET}={cluster.namespace}.{cluster.name},{PRODUCT}={H100}"
        )
        first, second = (Node(cluster.kubectl, one["metadata"]["name"]) for one in nodes["items"])
        first.is_free()
        second.is_free()
        yield first, second
        calm.clear()


def _unschedulable(cluster: SlurmCluster, pod: str) -> str:
    conditions = cluster.kubectl.json("-n", TEAM, "get", "pod", pod)["status"].get("conditions", ())
    return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")


def test_an_exclusive_pool_has_its_nodes_and_says_so(calm: Elastic) -> None:
    cluster = calm.cluster
    for worker in cluster.workers:
        Node(cluster.kubectl, worker).is_owned(own(cluster))
    eventually("figures", lambda: fleet(cluster)["owned"] == 4, within=10)
    assert fleet(cluster) == {
        "granted": 4, "owned": 4, "claiming": 0, "releasing": 0, "foreign": 0, "doubleClaims": 0
    }  # fmt: skip
    cluster.wait_condition("FleetConsistent", "True", reason="OneOwner")


def test_elastic_nodes_serve_kubernetes_until_slurm_needs_them_and_again_afterwards(
    calm: Elastic, team: str, tmp_path: Path
) -> None:
    cluster = calm.cluster
    with elastic_pools(calm) as (first, second), no_double_claims(cluster, tmp_path):
        with running(cluster.kubectl, gpu_pod("inference", first.name)):
            job = calm.sbatch("hostname; sleep 3", "-p h100 -N 1 --exclusive")
            cluster.wait_job(job, within=40)
            # It went to the node on which nobody else runs.
            assert not first.owner()
            second.is_owned(own(cluster))
            owned_since, why = second.since_and_why()
            assert why == "nobody else runs there; for pool h100"
        second.is_free()
        free_since, why = second.since_and_why()
        assert why == "no job has needed it lately"
        assert free_since > owned_since
        said = second.events()
        for words in ("claimed by", "owned by", "being given back by", "given back by"):
            assert any(one.startswith(f"{words} SlurmCluster {own(cluster)}") for one in said), said
        with running(cluster.kubectl, gpu_pod("again", second.name)):
            pass


def test_other_work_is_waited_for_and_the_reason_is_told(calm: Elastic, team: str) -> None:
    cluster = calm.cluster
    with elastic_pools(calm) as (first, second):
        training, serving = gpu_pod("training", first.name), gpu_pod("serving", second.name)
        with running(cluster.kubectl, training), running(cluster.kubectl, serving):
            job = calm.sbatch("hostname", "-p h100 -N 1 --exclusive")
            eventually("a node is being claimed", lambda: own(cluster) in first.owner() + second.owner(), within=20)
            words = "Kubernetes nodes for 0 of its 2"
            eventually("the job is told", lambda: words in calm.job(job)["admin_comment"], within=20)
            assert f"{TEAM}/" in calm.pool("h100")["reason"], calm.pool("h100")
            assert calm.job(job)["job_state"] == ["PENDING"]
            # Nothing new is placed on the node that is being claimed, and what runs there goes on.
            claimed = first if first.owner() else second
            try:
                cluster.kubectl.apply(gpu_pod("late", claimed.name))
                words = "untolerated taint"
                eventually("it is not placed", lambda: words in _unschedulable(cluster, "late"), within=20)
                assert cluster.kubectl("-n", TEAM, "get", "pods", "--no-headers").count("Running") == 2
                for _ in range(5):  # looks enough for a claim that waits for nobody
                    time.sleep(1)
                    assert claimed.owner() == f"{own(cluster)} Claiming"
            finally:
                cluster.kubectl("-n", TEAM, "delete", "pod", "late", "--wait=true")
        cluster.wait_job(job, within=60)


@contextmanager
def held_by_a_budget(calm: Elastic, deadline: str) -> Iterator[tuple[str, Node, Node]]:
    """Let a job need a node on which a budget holds a pod that may be evicted, and another whose pod may not be.

    Yield the job and both nodes, once the reasons have been told.
    """
    cluster = calm.cluster
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "held", "namespace": TEAM},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "held"}}},
    }
    before = cluster.events()
    with elastic_pools(calm, reclaim={"policy": "Evict", "belowPriority": 0, "deadline": deadline}) as (first, second):
        held = gpu_pod("held", first.name, priority="e2e-spare", labels={"app": "held"})
        with running(cluster.kubectl, held), running(cluster.kubectl, gpu_pod("important", second.name)):
            cluster.kubectl.apply(budget)
            eventually(
                "the budget counts",
                lambda: cluster.kubectl.json("-n", TEAM, "get", "pdb", "held")["status"].get("currentHealthy") == 1,
                within=20,
            )
            job = calm.sbatch("hostname", "-p h100 -N 1 --exclusive")
            first.is_owned(own(cluster), "Claiming")
            told = lambda: f"{TEAM}/held runs there" in calm.pool("h100")["reason"]  # noqa: E731
            eventually("the reason is told", told, within=20)
            stays = f"pod {TEAM}/held stays on node {first.name}: "
            assert "The disruption budget held needs 1" in cluster.wait_event(stays, before, within=20)
            try:
                yield job, first, second
            finally:
                cluster.kubectl("-n", TEAM, "delete", "pdb", "held", "--ignore-not-found")


def test_a_disruption_budget_holds_a_node_and_without_it_the_pod_is_evicted(calm: Elastic, team: str) -> None:
    cluster = calm.cluster
    with held_by_a_budget(calm, "2m") as (job, _, second):
        pod = cluster.kubectl.json("-n", TEAM, "get", "pod", "held")
        assert "deletionTimestamp" not in pod["metadata"]
        cluster.kubectl("-n", TEAM, "delete", "pdb", "held")
        cluster.wait_job(job, within=60)
        assert not cluster.kubectl("-n", TEAM, "get", "pod", "held", "--ignore-not-found", "-o", "name")
        # What is not below the priority was never asked.
        assert cluster.kubectl.json("-n", TEAM, "get", "pod", "important")["status"]["phase"] == "Running"
        assert not second.owner()


def test_a_node_that_a_disruption_budget_holds_for_too_long_is_let_go_again(calm: Elastic, team: str) -> None:
    cluster = calm.cluster
    before = cluster.events()
    with held_by_a_budget(calm, "10s") as (job, first, second):
        pod = cluster.kubectl.json("-n", TEAM, "get", "pod", "held")
        first.is_free(within=30)
        why = f"within 10s it did not become empty: {TEAM}/held runs there"
        words = f"given back by SlurmCluster {own(cluster)}: {why}"
        eventually("an Event", lambda: words in first.events(), within=5)
        assert first.since_and_why()[1] == why
        # It is left alone, and so is its pod.
        now = cluster.kubectl.json("-n", TEAM, "get", "pod", "held")
        assert now["metadata"] == pod["metadata"]
        assert now["status"]["containerStatuses"] == pod["status"]["containerStatuses"]
        assert "deletionTimestamp" not in now["metadata"]
        left = f"Kubernetes node {first.name} did not become empty for it: {TEAM}/held runs there"
        told = lambda: any(left in text for name, text in cluster.events().items() if name not in before)  # noqa: E731
        eventually("the start's end is told", told, within=20)
        eventually("the job waits on", lambda: calm.job(job)["job_state"] == ["PENDING"], within=10)
        assert not first.owner() + second.owner()


def system_pods(node: str) -> tuple[Json, Json]:
    """Return a DaemonSet that puts up with every taint, and a Deployment on a node that, as DNS, does not with ours."""
    container = {"name": "main", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["sleep", "3600"]}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}

    def made(kind: str, name: str, **more: Any) -> Json:
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {**spec, **more}}
        return {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }

    return (
        made("DaemonSet", "e2e-network", tolerations=[{"operator": "Exists"}]),
        made("Deployment", "e2e-dns", nodeSelector={"kubernetes.io/hostname": node}),
    )


def test_a_daemon_without_gpus_dns_and_the_network_go_on_through_a_claim_and_back(calm: Elastic, team: str) -> None:
    kubectl, cluster = calm.cluster.kubectl, calm.cluster
    # By this policy every pod that counted as work of others would be evicted.
    reclaim = {"policy": "Evict", "belowPriority": 1000}

    def lives() -> dict[str, tuple[str, int]]:
        seen = {}
        for where in (TEAM, "kube-system"):
            for pod in kubectl.json("-n", where, "get", "pods")["items"]:
                restarts = sum(one["restartCount"] for one in pod["status"].get("containerStatuses", ()))
                seen[f"{where}/{pod['metadata']['name']}"] = (pod["metadata"]["uid"], restarts)
        return seen

    with elastic_pools(calm, reclaim=reclaim) as (first, second):
        network, dns = system_pods(first.name)
        agent = {**network, "metadata": {"name": "agent", "namespace": TEAM}}
        kubectl.apply(network, dns, agent)
        try:
            for where, what in (
                (TEAM, "daemonset/agent"), ("kube-system", "daemonset/e2e-network"), ("kube-system", "deploy/e2e-dns")
            ):  # fmt: skip
                kubectl("-n", where, "rollout", "status", what, "--timeout=60s")
            before = lives()
            assert len([name for name in before if name.startswith(TEAM)]) >= 8
            assert [name for name in before if name.startswith("kube-system/e2e-dns-")]
            job = calm.sbatch(
                "srun getent hosts kubernetes.default.svc.cluster.local; sleep 6", "-p h100 -N 2 --exclusive"
            )
            first.is_owned(own(cluster))
            second.is_owned(own(cluster))
            assert lives() == before
            # Its pod comes back onto a node that is owned.
            mine = kubectl.json("-n", TEAM, "get", "pods", "--field-selector", f"spec.nodeName={first.name}")
            gone = mine["items"][0]["metadata"]["name"]
            kubectl("-n", TEAM, "delete", "pod", gone)
            kubectl("-n", TEAM, "rollout", "status", "daemonset/agent", "--timeout=60s")
            during = lives()
            del before[f"{TEAM}/{gone}"]
            assert {name: during.get(name) for name in before} == before
            cluster.wait_job(job, within=40)
            assert calm.output(job).count("kubernetes.default.svc") == 2, "names are found on both nodes"
            assert lives() == during
            first.is_free()
            second.is_free()
            assert lives() == during
            cluster.wait_condition("FleetConsistent", "True", reason="OneOwner")
        finally:
            kubectl("-n", TEAM, "delete", "daemonset", "agent", "--wait=true")
            kubectl("-n", "kube-system", "delete", "daemonset/e2e-network", "deploy/e2e-dns", "--wait=true")


@pytest.mark.parametrize(
    ("labels", "spec", "meanwhile", "within"),
    [
        ((FLEET,), {}, "Owned", 0),
        ((FLEET, OWNER, SERVES), {}, "Claiming", 10),
        ((FLEET, OWNER), {"taints": None}, "Claiming", 10),
    ],
    ids=["the grant alone", "the owner's labels as well", "all but one label"],
)
def test_a_withdrawn_grant_lets_the_job_end_and_then_the_node_leaves(
    calm: Elastic, labels: tuple[str, ...], spec: Json, meanwhile: str, within: float
) -> None:
    cluster = calm.cluster
    job = calm.sbatch("sleep 12; echo done", "-p h100 -N 1 --exclusive")
    cluster.wait_job(job, "RUNNING")
    seat = calm.job(job)["nodes"]
    pod = cluster.json("get", "pod", f"{cluster.name}-{seat}")
    node = Node(cluster.kubectl, pod["spec"]["nodeName"])
    without = {"metadata": {"labels": dict.fromkeys(labels)}, "spec": spec}
    cluster.kubectl("patch", "node", node.name, f"--patch={json.dumps(without)}")
    try:
        eventually(
            "its seat takes no further job",
            lambda: "its Kubernetes node is no longer granted" in cluster.admin(f"sinfo -R -h -n {seat} -o %E"),
            within=15,
        )
        node.is_owned(own(cluster), meanwhile, within)
        assert calm.job(job)["job_state"] == ["RUNNING"]
        cluster.wait_job(job)
        assert calm.output(job) == "done\n"
        node.is_free()
    finally:
        cluster.kubectl("label", "node", node.name, f"{FLEET}={own(cluster)}", "--overwrite")
    node.is_owned(own(cluster))


@pytest.mark.parametrize(
    "tolerations", [[], [{"operator": "Exists"}]], ids=["as ever", "a pool that tolerates every taint"]
)
def test_a_node_that_is_not_granted_is_never_taken(calm: Elastic, tolerations: list[Json]) -> None:
    cluster, last = calm.cluster, calm.cluster.workers[-1]
    cluster.kubectl("label", "node", last, f"{FLEET}-", f"e2e-only={last}")
    try:
        with calm.edited(a100={"nodeSelector": {"e2e-only": last}, "tolerations": tolerations}):
            job = calm.sbatch("true", "-p a100")
            eventually(
                "it is told", lambda: "Kubernetes nodes for 0 of its 2" in calm.job(job)["admin_comment"], within=30
            )
            node = Node(cluster.kubectl, last)
            node.is_free()
            assert not calm.pods()
            calm.cancel()
    finally:
        cluster.kubectl("label", "node", last, "e2e-only-", f"{FLEET}={own(cluster)}", "--overwrite")


def test_grants_to_nobody_are_told_on_the_node(calm: Elastic) -> None:
    cluster, last = calm.cluster, calm.cluster.workers[-1]
    node = Node(cluster.kubectl, last)
    for value, words in (
        ("team-x.nothing", "there is none of name team-x/nothing"),
        ("oops", "it must be NAMESPACE.NAME"),
    ):
        cluster.kubectl("label", "node", last, f"{FLEET}={value}", "--overwrite")
        try:
            eventually("an Event", lambda: any(words in one for one in node.events()), within=20)  # noqa: B023
        finally:
            cluster.kubectl("label", "node", last, f"{FLEET}={own(cluster)}", "--overwrite")


def test_two_clusters_on_the_same_nodes_share_none_and_neither_starves(
    calm: Elastic, people: dict[str, Person], tmp_path: Path
) -> None:
    cluster, alice = calm.cluster, people["alice"]
    machine = {"cpus": 2, "memory": "2Gi", "gpus": {"type": "h100", "count": 8}}
    spec = {
        "users": [{"name": alice.name, "uid": alice.uid, "sshKeys": [alice.public]}],
        "accounting": {"enabled": False},
        "pools": [
            {"name": "h100", "nodes": {"min": 0, "max": 2}, "machine": machine, "idleTimeout": "4s",
             "nodeSelector": {PRODUCT: H100}},
        ],
        "partitions": [{"name": "gpu", "pools": ["h100"], "default": True}],
        "home": {"size": "1Gi"},
    }  # fmt: skip
    rival = SlurmCluster(cluster.kubectl, "e2e-rival", "rival", spec, (), tmp_path / "known_hosts")
    both = f"{own(cluster)}_{own(rival)}"
    nodes = cluster.kubectl.json("get", "nodes", "-l", f"{FLEET}={own(cluster)},{PRODUCT}={H100}")["items"]
    shared = [Node(cluster.kubectl, one["metadata"]["name"]) for one in nodes]
    try:
        rival.create()
        with no_double_claims(cluster, tmp_path):
            for node in shared:
                cluster.kubectl("label", "node", node.name, f"{FLEET}={both}", "--overwrite")
            rival.wait_ready(120)
            assert {node.owner() for node in shared} == {f"{own(cluster)} Owned"}
            # The first cluster has both, and uses none: the second asks for one, and gets it.
            job = rival.sbatch(alice, "hostname; sleep 2", "-N 1 --exclusive")
            # Each cluster has a node for two minutes at least.
            rival.wait_job(job, within=200)
            owners = sorted(node.owner() for node in shared)
            assert owners == [f"{own(cluster)} Owned", f"{own(rival)} Owned"]
            # And each goes on with one.
            mine = calm.sbatch("hostname", "-p h100 -N 1 --exclusive")
            theirs = rival.sbatch(alice, "hostname", "-N 1 --exclusive")
            cluster.wait_job(mine)
            rival.wait_job(theirs)
            for one in (cluster, rival):
                one.wait_condition("FleetConsistent", "True")
    finally:
        rival.ctl("delete", "slc", rival.name, "--timeout=60s", check=False)
        cluster.kubectl("delete", "namespace", rival.namespace, "--wait=false")
        for node in shared:
            cluster.kubectl("label", "node", node.name, f"{FLEET}={own(cluster)}", "--overwrite")
    # What a deleted cluster had comes back by itself.
    for node in shared:
        node.is_owned(own(cluster), within=60)


def test_others_use_what_a_deleted_cluster_has_given_back_while_a_silent_node_is_still_its(
    calm: Elastic, team: str, tmp_path: Path
) -> None:
    del team
    cluster, kubectl = calm.cluster, calm.cluster.kubectl
    needs_localkube(kubectl, "pulling a node's cable needs localkube")
    spec = {
        **parts(kubectl),
        "accounting": {"enabled": False},
        "pools": [pool("h100", 2)],
        "partitions": [{"name": "gpu", "pools": ["h100"], "default": True}],
        "home": {"size": "1Gi"},
    }
    nodes = kubectl.json("get", "nodes", "-l", f"{FLEET}={own(cluster)},{PRODUCT}={H100}")["items"]
    lent = [Node(kubectl, one["metadata"]["name"]) for one in nodes]
    granted = tuple(node.name for node in lent)
    leaver = SlurmCluster(kubectl, "e2e-leaver", "leaver", spec, granted, tmp_path / "known_hosts")
    silent, heard = lent
    try:
        leaver.create()
        leaver.wait_ready(120)
        localkube("node", "cut", silent.name)
        leaver.ctl("delete", "slc", leaver.name, "--timeout=60s")
        heard.is_free()
        # The scheduler tries again only after seconds what was refused.
        with running(kubectl, gpu_pod("next", heard.name)):
            silent.is_owned(own(leaver), "Releasing")
    finally:
        localkube("node", "start", silent.name)
        kubectl("delete", "namespace", leaver.namespace, "--wait=false")
        for name in granted:
            kubectl("label", "node", name, f"{FLEET}={own(cluster)}", "--overwrite")
    for node in lent:
        node.is_owned(own(cluster), within=90)


def test_the_ledger_tells_who_has_which_node(calm: Elastic) -> None:
    cluster = calm.cluster
    where = ["-n", "slurmcluster-system", "exec", "deploy/slurmcluster-operator", "--"]
    command = ["python", "-m", "slurmcluster_operator", "fleet", "-n", cluster.namespace, "-c", cluster.name]
    printed = cluster.kubectl(*where, *command)
    for worker in cluster.workers:
        line = next(one for one in printed.splitlines() if one.startswith(worker))
        assert own(cluster) in line, printed
        assert "Owned" in line, printed


def test_enforcement_that_only_warns_is_told(calm: Elastic, operator: str) -> None:
    kubectl = calm.cluster.kubectl

    def switched(mode: str, reason: str, words: str = "") -> None:
        enforcement(kubectl, operator, mode)
        # The next operator looks at once; this one would within a minute.
        kubectl("-n", operator, "delete", "pod", "-l", f"app.kubernetes.io/instance={RELEASE}", "--wait=true")
        calm.cluster.wait_condition("FleetConsistent", "True", reason=reason, words=words, within=60)

    try:
        switched("Audit", "Unenforced", "only warns (fleet.enforcement is Audit in the operator's chart)")
    finally:
        switched("Enforce", "OneOwner")


def test_a_silent_kubelets_node_is_neither_given_back_nor_used_twice(
    calm: Elastic, kubectl: Kubectl, tmp_path: Path
) -> None:
    needs_localkube(kubectl, "pulling a node's cable needs localkube")
    cluster = calm.cluster
    job = calm.sbatch("hostname", "-p h100 -N 1 --exclusive")
    eventually("a pod", calm.pods, within=20)
    cluster.wait_job(job)
    seat = calm.output(job).strip()
    pod = cluster.json("get", "pod", f"{cluster.name}-{seat}")
    node = Node(kubectl, pod["spec"]["nodeName"])
    mine = [pod["metadata"]["uid"]]

    def untouched() -> bool:
        """Tell whether the node is still the cluster's, and its pod there and the only one."""
        assert node.owner() == f"{own(cluster)} Owned"
        there = cluster.json("get", "pods", "--field-selector", f"spec.nodeName={node.name}")["items"]
        assert [one["metadata"]["uid"] for one in there] == mine
        assert "deletionTimestamp" in there[0]["metadata"]
        return True

    with no_double_claims(cluster, tmp_path):
        localkube("node", "cut", node.name)
        try:
            kubectl("label", "node", node.name, f"{FLEET}-")
            cluster.ctl("delete", "pod", pod["metadata"]["name"], "--wait=false")
            other = calm.sbatch("hostname", "-p h100 -N 1 --exclusive")
            cluster.wait_job(other, within=90)
            other_seat = calm.output(other).strip()
            assert other_seat != seat
            there = cluster.json("get", "pod", f"{cluster.name}-{other_seat}")
            assert there["spec"]["nodeName"] != node.name
            assert untouched()
            kubectl("wait", "--for=condition=Ready=Unknown", f"node/{node.name}", "--timeout=90s")
            for _ in range(10):
                assert untouched()
                time.sleep(1)
        finally:
            localkube("node", "start", node.name)
        node.is_free(within=90)
    kubectl("label", "node", node.name, f"{FLEET}={own(cluster)}", "--overwrite")
    node.is_owned(own(cluster))


def test_a_machine_that_joins_is_given_to_the_job_that_waits_for_it(calm: Elastic, kubectl: Kubectl) -> None:
    needs_localkube(kubectl, "switching a node off needs localkube")
    cluster, machine = calm.cluster, calm.cluster.workers[3]
    localkube("node", "stop", machine)
    try:
        kubectl("delete", "node", machine)
        job = calm.sbatch("srun hostname", "-p a100 -N 2 --exclusive")
        words = "pool a100: there are Kubernetes nodes for 1 of its 2 nodes now"
        eventually("the job is told", lambda: words in calm.job(job)["admin_comment"], within=20)
        assert calm.job(job)["job_state"] == ["PENDING"]
    finally:
        localkube("node", "start", machine)
    # As a node pool would: with its grant from the first second, long before it is ready and has its GPUs.
    grant = ("label", "node", machine, f"{FLEET}={own(cluster)}", "--overwrite")
    eventually("it has joined", lambda: "labeled" in kubectl(*grant, check=False), within=60, every=0.1)
    cluster.wait_job(job, within=60)
    assert set(calm.output(job).split()) == {"a100-0", "a100-1"}
    assert calm.job(job)["restart_cnt"] == 0
    cluster.wait_condition("FleetConsistent", "True", reason="OneOwner")


def test_a_node_that_is_made_anew_under_its_name_has_no_owner_until_it_is_granted_again(
    calm: Elastic, kubectl: Kubectl
) -> None:
    needs_localkube(kubectl, "switching a node off needs localkube")
    cluster = calm.cluster
    job = calm.sbatch("hostname", "-p a100 -N 1 --exclusive")
    cluster.wait_job(job)
    seat = calm.output(job).strip()
    node = Node(kubectl, cluster.json("get", "pod", f"{cluster.name}-{seat}")["spec"]["nodeName"])
    localkube("node", "stop", node.name)
    try:
        kubectl("delete", "node", node.name)
        eventually(
            "no further job goes there",
            lambda: "its Kubernetes node is gone" in cluster.admin(f"sinfo -R -h -n {seat} -o %E"),
            within=15,
        )
    finally:
        localkube("node", "start", node.name)
    kubectl("wait", "--for=condition=Ready", f"node/{node.name}", "--timeout=60s")
    assert node.owner() == ""
    kubectl("label", "node", node.name, f"{FLEET}={own(cluster)}", "--overwrite")
    node.is_owned(own(cluster))
    eventually("what was there is gone", lambda: seat not in calm.pods(), within=90)
    again = calm.sbatch("hostname", "-p a100 -N 2 --exclusive")
    cluster.wait_job(again, within=120)
    cluster.wait_condition("FleetConsistent", "True")


def test_without_the_operator_nodes_keep_their_owner_and_can_be_handed_back(calm: Elastic, operator: str) -> None:
    cluster = calm.cluster
    nodes = [Node(cluster.kubectl, worker) for worker in cluster.workers]
    values = cluster.kubectl("-n", operator, "get", "deploy", "slurmcluster-operator", "-o", "name")
    assert values
    cluster.kubectl("-n", operator, "scale", "deploy/slurmcluster-operator", "--replicas=0")
    try:
        eventually(
            "the operator is gone",
            lambda: (
                not cluster.kubectl.json("-n", operator, "get", "pods", "-l", "app.kubernetes.io/component=operator")[
                    "items"
                ]
            ),
            within=40,
        )
        assert {node.owner() for node in nodes} == {f"{own(cluster)} Owned"}
        selector = f"{OWNER}={own(cluster)}"
        cluster.kubectl("taint", "nodes", "-l", selector, f"{OWNER}-")
        cluster.kubectl("label", "nodes", "-l", selector, f"{OWNER}-", f"{SERVES}-")
        assert {node.owner() for node in nodes} <= {"", "Owned"}
    finally:
        cluster.kubectl("-n", operator, "scale", "deploy/slurmcluster-operator", "--replicas=1")
        cluster.kubectl("-n", operator, "rollout", "status", "deploy/slurmcluster-operator", "--timeout=60s")
    for node in nodes:
        node.is_owned(own(cluster))
    assert json.loads(json.dumps(fleet(cluster)))["doubleClaims"] == 0
