"""Every way onto a node that a Slurm cluster owns is tried and refused, and what has a right to be there goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.conftest import RELEASE
from tests.e2e.owned import (
    BELONGS,
    BLANKET,
    DAEMON_SETS,
    DENIED,
    EVERY_TAINT,
    FOREIGN,
    MEDDLER,
    OWN_KEY,
    OWNER,
    OWNERS,
    Owned,
    an_owned_node,
)
from tests.e2e.support import FLEET, Kubectl, eventually

Case = Callable[[Owned], dict[str, Any]]

OUR_TAINT = f"this pod asks for GPUs and tolerates the taint {OWNER}"
NOBODY_ELSE = f"this pod tolerates the taint {OWNER} of nodes that Slurm clusters own: only slurmd pods"


@pytest.fixture(scope="module")
def owned(kubectl: Kubectl, operator: str) -> Iterator[Owned]:
    with an_owned_node(kubectl, operator, RELEASE) as made:
        yield made


def test_the_policies_fit_the_types_that_they_are_about(owned: Owned) -> None:
    policies = [one for one in _policies(owned) if one["metadata"]["name"].startswith(RELEASE)]
    # Kubernetes checks no types inside variables and conditions: twins that nothing binds have them as validations.
    twins = [twin for policy in policies if (twin := _twin(policy))["spec"]["validations"]]
    assert (len(policies), len(twins)) == (6, 5)
    owned.kubectl.apply(*twins)
    names = {one["metadata"]["name"] for one in (*policies, *twins)}

    def warnings() -> list[Any]:
        found = [one for one in _policies(owned) if one["metadata"]["name"] in names]
        assert all(one["status"].get("observedGeneration") == one["metadata"]["generation"] for one in found), found
        return [one["status"]["typeChecking"] for one in found]

    try:
        assert eventually("the API server has checked them", warnings, within=20) == [{}] * len(names)
    finally:
        owned.kubectl("delete", "validatingadmissionpolicy", *(one["metadata"]["name"] for one in twins))


def _policies(owned: Owned) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = owned.kubectl.json("get", "validatingadmissionpolicies")["items"]
    return found


def _twin(policy: dict[str, Any]) -> dict[str, Any]:
    spec = policy["spec"]
    inner = [one["expression"] for kind in ("variables", "matchConditions") for one in spec.get(kind, ())]
    validations = [{"expression": f"[{expression}].size() == 1"} for expression in inner]
    metadata = {"name": f"types-{policy['metadata']['name']}"}
    return {
        "apiVersion": policy["apiVersion"],
        "kind": policy["kind"],
        "metadata": metadata,
        "spec": {**spec, "validations": validations},
    }


PODS: dict[str, tuple[Case, str]] = {
    "a blanket toleration with GPUs": (lambda o: o.pod("p", gpus=1, tolerations=[BLANKET]), EVERY_TAINT),
    "a blanket toleration of NoSchedule with GPUs": (
        lambda o: o.pod("p", gpus=1, tolerations=[{**BLANKET, "effect": "NoSchedule"}]),
        EVERY_TAINT,
    ),
    "a blanket toleration with the GPUs of an init container": (
        lambda o: o.pod(
            "p",
            tolerations=[BLANKET],
            initContainers=[{"name": "i", "image": o.image, "resources": {"limits": {"amd.com/gpu": "1"}}}],
        ),
        EVERY_TAINT,
    ),
    "a blanket toleration with claimed devices": (
        lambda o: o.pod("p", tolerations=[BLANKET], resourceClaims=[{"name": "g", "resourceClaimName": "g"}]),
        EVERY_TAINT,
    ),
    "an own-key toleration with GPUs": (lambda o: o.pod("p", gpus=1, tolerations=[OWN_KEY]), OUR_TAINT),
    "an own-key toleration of one owner with GPUs": (
        lambda o: o.pod("p", gpus=1, tolerations=[{"key": OWNER, "value": f"{OWNERS}.demo"}]),
        OUR_TAINT,
    ),
    "an own-key toleration without GPUs": (lambda o: o.pod("p", tolerations=[OWN_KEY]), NOBODY_ELSE),
    "an own-key toleration of the owner's own people": (
        lambda o: o.pod("demo-h100-0", OWNERS, gpus=1, tolerations=[OWN_KEY]),
        OUR_TAINT,
    ),
    "a node's name": (lambda o: o.pod("p", nodeName=o.worker), BELONGS),
    "a node's name with GPUs": (lambda o: o.pod("p", gpus=8, nodeName=o.worker), BELONGS),
    "a node's name in the owner's namespace": (lambda o: o.pod("other", OWNERS, nodeName=o.worker), BELONGS),
    "a node's name, named like a slurmd pod elsewhere": (lambda o: o.pod("demo-h100-0", nodeName=o.worker), BELONGS),
    "a node's name with GPUs, named like a DaemonSet's pod": (
        lambda o: o.pod("agent-abcde", gpus=8, nodeName=o.worker),
        BELONGS,
    ),
}


@pytest.mark.parametrize(("pod", "words"), PODS.values(), ids=PODS.keys())
def test_a_pod_is_refused(owned: Owned, pod: Case, words: str) -> None:
    said = owned.create(pod(owned))
    assert DENIED in said
    assert words in said
    if words == BELONGS:
        assert f"kubectl label node {owned.worker} {FLEET}-" in said


def test_a_pod_is_refused_what_it_did_not_ask_for_at_first(owned: Owned) -> None:
    assert "created" in owned.create(owned.pod("late", gpus=8, schedulerName="nobody"))
    for toleration, words in ((BLANKET, EVERY_TAINT), (OWN_KEY, OUR_TAINT)):
        change = json.dumps([{"op": "add", "path": "/spec/tolerations/-", "value": toleration}])
        said = owned.kubectl("-n", FOREIGN, "patch", "pod", "late", "--type=json", "-p", change, check=False)
        assert DENIED + words in said


@pytest.mark.parametrize("legacy", [False, True], ids=["pods/binding", "bindings"])
@pytest.mark.parametrize("user", ["", MEDDLER], ids=["cluster-admin", "a scheduler's account"])
def test_a_binding_posted_by_hand_is_refused(owned: Owned, user: str, *, legacy: bool) -> None:
    name = f"bound-{'a' if user else 'b'}{'c' if legacy else 'd'}"
    assert "created" in owned.create(owned.pod(name, schedulerName="second", tolerations=[BLANKET]))

    said = owned.bind(name, owned.worker, user=user, legacy=legacy)

    assert f"{DENIED}node {owned.worker} {BELONGS}" in said
    assert f"Keep pod {name} off such nodes" in said
    # To any other node it is bound.
    other = next(n for n in owned.kubectl.json("get", "nodes")["items"] if OWNER not in n["metadata"]["labels"])
    assert "Success" in owned.bind(name, other["metadata"]["name"], user=user, legacy=legacy)


def test_the_scheduler_is_refused_what_it_chose(owned: Owned) -> None:
    assert "created" in owned.create(owned.pod("stray", tolerations=[BLANKET], nodeSelector=owned.here))
    said = owned.event("Pod", "stray", BELONGS)
    assert "DefaultBinder" in said
    assert "nodeName" not in owned.kubectl.json("-n", FOREIGN, "get", "pod", "stray")["spec"]


@pytest.mark.parametrize(("kind", "teller"), [("Deployment", "ReplicaSet"), ("Job", "Job"), ("DaemonSet", "DaemonSet")])
def test_workloads_with_gpus_that_put_up_with_every_taint_get_no_pod(owned: Owned, kind: str, teller: str) -> None:
    name = f"greedy-{kind.lower()}"
    assert "created" in owned.create(owned.workload(kind, name, gpus=1))
    assert DENIED + EVERY_TAINT in owned.event(teller, name, EVERY_TAINT)
    assert not owned.kubectl.json("-n", FOREIGN, "get", "pods", "-l", f"app={name}")["items"]


@pytest.mark.parametrize("name", DAEMON_SETS, ids=["short", "long", "cut at a dash"])
def test_a_daemon_set_without_gpus_runs_there_and_comes_back(owned: Owned, name: str) -> None:
    manifest = owned.workload("DaemonSet", name, gpus=0)
    # Two of the names are too long for a label's value.
    labels = {"app": name[-20:]}
    manifest["spec"]["selector"]["matchLabels"] = manifest["spec"]["template"]["metadata"]["labels"] = labels
    assert "created" in owned.create(manifest)
    first = owned.runs_here(f"app={labels['app']}")
    owned.kubectl("-n", FOREIGN, "delete", "pod", first["metadata"]["name"])
    assert owned.runs_here(f"app={labels['app']}")["metadata"]["uid"] != first["metadata"]["uid"]
    owned.kubectl("-n", FOREIGN, "delete", "daemonset", name)


def test_a_daemon_set_may_name_our_taint(owned: Owned) -> None:
    manifest = owned.workload("DaemonSet", "agent", gpus=0)
    manifest["spec"]["template"]["spec"]["tolerations"] = [OWN_KEY]
    assert "created" in owned.create(manifest)
    owned.runs_here("app=agent")
    owned.kubectl("-n", FOREIGN, "delete", "daemonset", "agent")


def test_pods_of_system_namespaces_run_there(owned: Owned) -> None:
    for name, spec in (("by-name", {"nodeName": owned.worker}), ("by-scheduler", {"nodeSelector": owned.here})):
        pod = owned.pod(f"e2e-{name}", "kube-system", tolerations=[BLANKET], **spec)
        assert "created" in owned.create(pod)
        try:
            owned.runs_here(f"app=e2e-{name}", "kube-system")
        finally:
            owned.kubectl("-n", "kube-system", "delete", "pod", f"e2e-{name}", "--wait=false")


def test_a_kubelet_shows_its_static_pods_there(owned: Owned) -> None:
    static = owned.pod("static", gpus=1, tolerations=[BLANKET], nodeName=owned.worker)
    uid = owned.node()["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": owned.worker, "uid": uid, "controller": True}
    static["metadata"] |= {"annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]}

    assert DENIED in owned.create(static, dry_run=True)
    kubelet = ("--as", f"system:node:{owned.worker}", "--as-group", "system:nodes")
    said = owned.kubectl("create", "-f", "-", "--dry-run=server", *kubelet, text=json.dumps(static))
    assert "created" in said


def test_the_owners_slurmd_pod_runs_there_and_no_other_of_its_namespace(owned: Owned) -> None:
    operator = f"system:serviceaccount:{owned.operator_namespace}:{RELEASE}"
    for name in ("demo-h100-12", "demo-login-0"):
        pod = owned.pod(name, OWNERS, gpus=8, tolerations=[OWN_KEY], nodeSelector=owned.here)
        assert "created" in owned.create(pod, user=operator)
    owned.runs_here("app=demo-h100-12", OWNERS)
    owned.kubectl("-n", OWNERS, "delete", "pod", "demo-h100-12")
    assert BELONGS in owned.event("Pod", "demo-login-0", BELONGS, OWNERS)
