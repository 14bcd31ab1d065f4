"""Who may change what on a Node that a Slurm cluster owns; enforcement that only warns, or was away for a while."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.conftest import OPERATOR_NAMESPACE, RELEASE
from tests.e2e.owned import (
    BELONGS,
    BLANKET,
    DENIED,
    EVERY_TAINT,
    FOREIGN,
    MEDDLER,
    NOT_YOURS,
    OWNER,
    OWNERS,
    Owned,
    an_owned_node,
    enforcement,
)
from tests.e2e.support import Kubectl, eventually

OPERATOR = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{RELEASE}"
LIMITED = "the Slurm operator may change nothing on node"
OURS = "slurmcluster.dev"
KEPT = "example.com/kept"


@pytest.fixture(scope="module")
def owned(kubectl: Kubectl, operator: str) -> Iterator[Owned]:
    with an_owned_node(kubectl, operator, RELEASE) as made:
        yield made


def labels(**values: str | None) -> dict[str, Any]:
    return {"metadata": {"labels": {f"{OURS}/{key}": value for key, value in values.items()}}}


def taints(*found: tuple[str, str]) -> dict[str, Any]:
    return {"spec": {"taints": [{"key": key, "value": value, "effect": "NoSchedule"} for key, value in found] or None}}


MEDDLING = {
    "the taint is removed": (taints(), ""),
    "the taint's value is changed": (taints((OWNER, "team.other")), ""),
    "another taint of ours is added": (taints((OWNER, f"{OWNERS}.demo"), (f"{OURS}/more", "x")), ""),
    "the owner's label is removed": (labels(owner=None), ""),
    "the owner's label is changed": (labels(owner="team.other"), ""),
    "the state is removed": ({"metadata": {"annotations": {f"{OURS}/owner-state": None}}}, ""),
    "an annotation of ours is added": ({"metadata": {"annotations": {f"{OURS}/asked-by": "team.other"}}}, ""),
    "a grant is made": (labels(fleet="team.other"), ""),
    "a grant is made by way of the status": (labels(fleet="team.other"), "--subresource=status"),
    "the owner is removed by way of the status": (labels(owner=None), "--subresource=status"),
}


@pytest.mark.parametrize(("changes", "option"), MEDDLING.values(), ids=MEDDLING.keys())
def test_marks_of_ownership_are_not_for_everybody(owned: Owned, changes: dict[str, Any], option: str) -> None:
    before = owned.node()
    said = owned.patch(changes, "--as", MEDDLER, *filter(None, [option]))
    assert DENIED in said
    assert NOT_YOURS in said
    assert f"which one has it (now {OWNERS}.demo)" in said
    after = owned.node()
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert after["spec"] == before["spec"]


def test_a_person_cannot_take_the_taint_away_with_kubectl(owned: Owned) -> None:
    said = owned.kubectl("taint", "node", owned.worker, f"{OWNER}-", "--as", MEDDLER, check=False)
    assert NOT_YOURS in said


def test_a_kubelet_cannot_grant_its_own_node(owned: Owned) -> None:
    user = ("--as", f"system:node:{owned.worker}", "--as-group", "system:nodes")
    assert NOT_YOURS in owned.patch(labels(fleet="team.other"), *user)


def test_all_else_on_the_node_is_for_whoever_may_patch_it(owned: Owned) -> None:
    as_meddler = ("--as", MEDDLER)
    for value in ("x", None):
        other = {"metadata": {"labels": {"example.com/a": value}, "annotations": {"example.com/b": value}}}
        assert "patched" in owned.patch(other, *as_meddler)
    owned.kubectl("cordon", owned.worker, *as_meddler)
    owned.kubectl("uncordon", owned.worker, *as_meddler)
    owned.kubectl("taint", "node", owned.worker, "example.com/c=x:NoSchedule", *as_meddler)
    owned.kubectl("taint", "node", owned.worker, "example.com/c-", *as_meddler)
    (left,) = owned.node()["spec"]["taints"]
    assert left["key"] == OWNER


def test_the_kubelet_goes_on_with_its_status(owned: Owned) -> None:
    ready = {"type": "Ready", "status": "True", "reason": "e2e", "message": "to be corrected by the kubelet"}
    patch = json.dumps({"status": {"conditions": [ready]}})
    owned.kubectl("patch", "node", owned.worker, "--subresource=status", "--type=strategic", "-p", patch)

    def corrected() -> bool:
        (found,) = (one for one in owned.node()["status"]["conditions"] if one["type"] == "Ready")
        assert found["reason"] == "KubeletReady", found
        return True

    eventually("the kubelet has written its own status", corrected, within=60)


def test_administrators_grant(owned: Owned) -> None:
    # cluster-admin, and whoever is bound to the chart's role.
    assert "patched" in owned.patch(labels(fleet=f"{OWNERS}.demo"))
    assert "patched" in owned.patch(labels(fleet=None))
    assert NOT_YOURS in owned.patch(labels(fleet=f"{OWNERS}.demo"), "--as", MEDDLER)
    owned.kubectl("create", "clusterrolebinding", f"{FOREIGN}-admin", f"--clusterrole={RELEASE}-fleet-admin",
                  f"--serviceaccount={FOREIGN}:meddler")  # fmt: skip
    try:
        granted = labels(fleet=f"{OWNERS}.demo")
        eventually("the role counts", lambda: "patched" in owned.patch(granted, "--as", MEDDLER), within=10)
        assert "patched" in owned.patch(labels(fleet=None), "--as", MEDDLER)
    finally:
        owned.kubectl("delete", "clusterrolebinding", f"{FOREIGN}-admin")


BEYOND = {
    "a grant": labels(fleet=f"{OWNERS}.demo"),
    "a label of others": {"metadata": {"labels": {"example.com/a": "x"}}},
    "a label of others removed": {"metadata": {"labels": {KEPT: None}}},
    "an annotation of others": {"metadata": {"annotations": {"example.com/a": "x"}}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/a"]}},
    "cordoning": {"spec": {"unschedulable": True}},
    "a provider": {"spec": {"providerID": "e2e://a"}},
    "a taint of others": taints((OWNER, f"{OWNERS}.demo"), ("example.com/a", "x")),
}


@pytest.mark.parametrize("changes", BEYOND.values(), ids=BEYOND.keys())
def test_the_operator_may_change_its_own_marks_and_nothing_else(owned: Owned, changes: dict[str, Any]) -> None:
    owned.patch({"metadata": {"labels": {KEPT: "x"}}})
    said = owned.patch(changes, "--as", OPERATOR)
    owned.patch({"metadata": {"labels": {KEPT: None}}})
    assert f"{LIMITED} {owned.worker}" in said
    assert DENIED in said


def test_the_operator_writes_its_marks(owned: Owned) -> None:
    why = {"metadata": {"annotations": {f"{OURS}/owner-why": "a test"}}}
    assert "patched" in owned.patch({**labels(owner="team.other"), **taints((OWNER, "team.other"))}, "--as", OPERATOR)
    assert "patched" in owned.patch({**labels(owner=None), **taints()}, "--as", OPERATOR)
    mine = f"{OWNERS}.demo"
    assert "patched" in owned.patch({**labels(owner=mine), **taints((OWNER, mine))}, "--as", OPERATOR)
    assert "patched" in owned.patch(why, "--as", OPERATOR)


@contextmanager
def audit(owned: Owned) -> Iterator[None]:
    """Only tell, for a while. The API server learns of each binding by itself: all are waited for."""
    placed = owned.pod("probe", nodeName=owned.worker)
    greedy = owned.pod("probe", gpus=1, tolerations=[BLANKET])
    meddling = {"metadata": {"annotations": {f"{OURS}/owner-why": "tried"}}}

    def refused() -> list[bool]:
        tried = [owned.create(pod, dry_run=True) for pod in (placed, greedy)]
        return ["denied" in words for words in (*tried, owned.patch(meddling, "--as", MEDDLER, "--dry-run=server"))]

    enforcement(owned.kubectl, owned.operator_namespace, "Audit")
    try:
        eventually("all of it is let in", lambda: not any(refused()), within=30)
        yield
    finally:
        enforcement(owned.kubectl, owned.operator_namespace, "Enforce")
        eventually("all of it is refused again", lambda: all(refused()), within=30)


def warned(owned: Owned, arguments: list[str], manifest: dict[str, Any] | None = None) -> str:
    """Run kubectl, which has to succeed, and return the warnings that came with the answer."""
    done = subprocess.run(
        ["kubectl", "--kubeconfig", owned.kubectl.kubeconfig, *arguments],
        input=json.dumps(manifest),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_audit_lets_everything_in_and_warns_and_what_is_there_stays_untouched(owned: Owned) -> None:
    create = ["create", "-f", "-"]
    with audit(owned):
        greedy = owned.pod("greedy", gpus=1, tolerations=[BLANKET], schedulerName="nobody")
        assert EVERY_TAINT in warned(owned, create, greedy)
        assert BELONGS in warned(owned, create, owned.pod("placed", nodeName=owned.worker))
        annotate = ["annotate", "node", owned.worker, f"{OURS}/owner-why=meddling", "--overwrite", "--as", MEDDLER]
        assert NOT_YOURS in warned(owned, annotate)

    # Pods that were there before the policies: what they tolerate is not held against whoever labels or deletes them.
    for change in (
        {"labels": {"example.com/a": "x"}},
        {"annotations": {"example.com/a": "x"}},
        {"finalizers": ["example.com/a"]},
        {"finalizers": None},
    ):
        patch = json.dumps({"metadata": change})
        owned.kubectl("-n", FOREIGN, "patch", "pod", "greedy", "--type=merge", "-p", patch)
    more = {"key": "example.com/a", "operator": "Exists"}
    add = json.dumps([{"op": "add", "path": "/spec/tolerations/-", "value": more}])
    owned.kubectl("-n", FOREIGN, "patch", "pod", "greedy", "--type=json", "-p", add)
    owned.kubectl("-n", FOREIGN, "delete", "pod", "greedy", "placed", "--timeout=60s")


def test_enforcement_comes_back_after_it_was_taken_away(owned: Owned) -> None:
    # API servers stop to read ConfigMaps once no policy has them as parameters, and begin again only when restarted.
    kinds = [f"validatingadmissionpolicybinding/{RELEASE}-{name}" for name in ("node-names", "bindings")]
    probe = owned.pod("probe", nodeName=owned.worker)
    owned.kubectl("delete", *kinds)
    try:
        eventually("it is let in", lambda: "denied" not in owned.create(probe, dry_run=True), within=30)
    finally:
        enforcement(owned.kubectl, owned.operator_namespace, "Enforce")
    newer = owned.index
    newer["data"]["nodes"] += "e2e-nowhere\n"
    owned.kubectl.apply(newer)
    probe = owned.pod("probe", nodeName="e2e-nowhere")
    eventually("what is owned since is known", lambda: BELONGS in owned.create(probe, dry_run=True), within=30)
