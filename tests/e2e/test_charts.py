"""The charts' tests once more: beside the unit tests Helm may not be built yet, here it is."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks.apiserver import api_server
from localkube.layout import Cache
from tests.e2e.owned import DENIED, EVERY_TAINT, NOT_YOURS
from tests.e2e.support import eventually
from tests.unit.charts.conftest import CHARTS, find_helm, helm, render
from tests.unit.charts.test_admission import *  # noqa: F403 - their tests
from tests.unit.charts.test_cluster_chart import *  # noqa: F403
from tests.unit.charts.test_operator_chart import *  # noqa: F403

__all__ = ["helm", "render"]


def test_helm_is_there() -> None:
    assert find_helm()


NEWER = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: newer}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: 'object.metadata.?labels.orValue({}).all(key, value, key != value)'}]
"""

SCENE = """
{apiVersion: v1, kind: Node, metadata: {name: gpu-1}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: meddler}
rules: [{apiGroups: [""], resources: [nodes], verbs: [get, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: meddler}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: meddler}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: meddler}]
"""
GREEDY = """
apiVersion: v1
kind: Pod
metadata: {name: greedy, namespace: default}
spec:
  tolerations: [{operator: Exists}]
  containers: [{name: main, image: docker.io/library/busybox:1, resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def denied(done: subprocess.CompletedProcess[str], words: str) -> bool:
    """Tell whether a policy has refused it with these words; one that only warns has not."""
    return done.returncode != 0 and DENIED in done.stderr and words in done.stderr


def test_the_rules_use_nothing_that_kubernetes_1_30_does_not_know(tmp_path: Path) -> None:
    servers = list(Cache.from_environment().toolchains.glob("*/kube-apiserver"))
    if not servers:
        pytest.skip("kube-apiserver is not built here: python3 -m localkube bin")
    newest = max(servers, key=lambda path: path.stat().st_mtime)
    # 1.34 goes back no further than to 1.31. What 1.31 brought is this library and selectors of authorizer checks.
    rules = "".join(file.read_text() for file in CHARTS.glob("*/[ft]*/**/*") if file.is_file())
    assert "quantity(" in rules
    assert not re.search(r"\bformat\.named\(|\.(label|field)Selector\(", rules)
    with api_server(newest.parent, tmp_path, "--emulated-version=1.31") as kubeconfig:

        def run(*command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
            env = {**os.environ, "KUBECONFIG": str(kubeconfig)}
            return subprocess.run(
                command, env=env, input=stdin, capture_output=True, text=True, check=False, timeout=60
            )

        kubectl = str(newest.parent / "kubectl")
        refused = run(kubectl, "create", "-f", "-", stdin=NEWER)
        assert "undeclared reference to 'all'" in refused.stderr, "it does not keep to its version"
        where = ("--namespace", "operator", "--create-namespace")
        installed = run(find_helm(), "install", "operator", str(CHARTS / "slurmcluster-operator"), *where)
        assert installed.returncode == 0, installed.stderr
        policies = run(kubectl, "get", "validatingadmissionpolicies", "-o", "name").stdout.split()
        assert len(policies) == 6, policies
        run(kubectl, "wait", "--for=condition=Established", "crd/slurmclusters.slurmcluster.dev")
        applied = run(kubectl, "apply", "-f", str(CHARTS.parent / "examples/demo.yaml"))
        assert applied.returncode == 0, applied.stderr
        # And they are understood there: what they forbid is refused, what they do not is let in.
        run(kubectl, "apply", "-f", "-", stdin=SCENE)
        grant = ["label", "node", "gpu-1", "slurmcluster.dev/fleet=team.demo", "--as=meddler"]
        eventually("grants are refused", lambda: denied(run(kubectl, *grant), NOT_YOURS), within=30)
        assert run(kubectl, *(word.replace("slurmcluster.dev", "example.com") for word in grant)).returncode == 0
        assert run(kubectl, *grant[:-1]).returncode == 0, "an administrator may"
        create = (kubectl, "create", "--dry-run=server", "-f", "-")
        eventually("such a pod is refused", lambda: denied(run(*create, stdin=GREEDY), EVERY_TAINT), within=30)
        modest = run(*create, stdin=GREEDY.replace("operator: Exists", "key: gpu, operator: Exists"))
        assert modest.returncode == 0, modest.stderr
