"""A node that a made-up Slurm cluster owns, marked by hand as the operator marks it, and pods that try to get there.

The operator is away meanwhile: it would give back the node of a cluster that is not there. The API server enforces the
rules by itself.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from slurmcluster_operator.manifests.owner import index_data
from tests.e2e.conftest import RELEASE, ROOT
from tests.e2e.support import FLEET, Kubectl, eventually

FOREIGN = "e2e-admission"
"""Namespace of everybody else's pods."""
OWNERS = "e2e-admission-owner"
"""Namespace of the made-up cluster, which is called demo and has one pool, h100."""
OWNER = "slurmcluster.dev/owner"
MEDDLER = f"system:serviceaccount:{FOREIGN}:meddler"
"""May change Nodes and bind pods, and is no administrator of the fleet."""
DENIED = "denied request: "
BELONGS = f"belongs to the Slurm cluster {OWNERS}/demo: only its slurmd pods"
NOT_YOURS = "only the operator and administrators change them"
EVERY_TAINT = "this pod asks for GPUs and tolerates every taint"
GPU = "nvidia.com/gpu"
BLANKET = {"operator": "Exists"}
OWN_KEY = {"key": OWNER, "operator": "Exists", "effect": "NoSchedule"}

# The API server's work, done by hand in the operator's words: a name is cut at 58 characters before its random end.
SHORT = "agent"
LONG = "agent-with-a-name-that-is-longer-than-the-names-of-pods-let"
CUT_AT_A_DASH = "agent-with-a-name-that-is-cut-right-behind-one-of-its-own-dash-es"[:57] + "-x"
DAEMON_SETS = {SHORT: SHORT, LONG: LONG[:58], CUT_AT_A_DASH: CUT_AT_A_DASH[:57]}
"""DaemonSets of FOREIGN that ask for no GPU, and what the operator writes for each into the index."""


@dataclass(frozen=True)
class Owned:
    """The owned node, and who asks about it."""

    kubectl: Kubectl
    operator_namespace: str
    worker: str
    image: str

    @property
    def index(self) -> dict[str, Any]:
        """What the operator keeps for the admission policies."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"fleet-{OWNERS}.demo",
                "namespace": self.operator_namespace,
                "labels": {"slurmcluster.dev/fleet-index": "true"},
                "annotations": {
                    "slurmcluster.dev/cluster": f"{OWNERS}/demo",
                    "slurmcluster.dev/slurmd-pods": "^demo-(h100)-[0-9]+$",
                },
            },
            "data": index_data([self.worker], [f"{FOREIGN}.{stem}" for stem in DAEMON_SETS.values()]),
        }

    def claim(self) -> None:
        """Mark the node as the operator does, and wait until the policies know."""
        for namespace in (FOREIGN, OWNERS):
            self.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        self.kubectl.apply(self.index, *_meddler())
        self.kubectl("label", "node", self.worker, f"{OWNER}={OWNERS}.demo")
        self.kubectl("annotate", "node", self.worker, "slurmcluster.dev/owner-state=Owned")
        self.kubectl("taint", "node", self.worker, f"{OWNER}={OWNERS}.demo:NoSchedule")
        probe = self.pod("probe", nodeName=self.worker)
        eventually("the policies are in force", lambda: "denied" in self.create(probe, dry_run=True), within=30)

    def free(self) -> None:
        """Undo all of it."""
        self.kubectl("delete", "namespace", FOREIGN, OWNERS, "--ignore-not-found", "--timeout=120s")
        for kind in ("clusterrole", "clusterrolebinding"):
            self.kubectl("delete", kind, FOREIGN, "--ignore-not-found")
        self.kubectl("taint", "node", self.worker, f"{OWNER}-", check=False)
        self.kubectl("label", "node", self.worker, f"{OWNER}-", f"{FLEET}-")
        self.kubectl("annotate", "node", self.worker, "slurmcluster.dev/owner-state-", "slurmcluster.dev/owner-why-")
        index = self.index["metadata"]["name"]
        self.kubectl("delete", "configmap", "-n", self.operator_namespace, index, "--ignore-not-found")

    def node(self) -> dict[str, Any]:
        """Return the Node."""
        found: dict[str, Any] = self.kubectl.json("get", "node", self.worker)
        return found

    def patch(self, changes: dict[str, Any], *options: str) -> str:
        """Patch the Node; return what kubectl said, for better or worse."""
        return self.kubectl(
            "patch", "node", self.worker, "--type=merge", "-p", json.dumps(changes), *options, check=False
        )

    def pod(
        self,
        name: str,
        namespace: str = FOREIGN,
        *,
        gpus: int = 0,
        tolerations: Sequence[dict[str, str]] = (),
        **spec: Any,
    ) -> dict[str, Any]:
        """Return a pod that sleeps."""
        container = {
            "name": "main",
            "image": self.image,
            "command": ["sleep", "3600"],
            "resources": {"limits": {GPU: str(gpus)}} if gpus else {},
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
                "tolerations": list(tolerations),
                **spec,
            },
        }

    def workload(self, kind: str, name: str, *, gpus: int) -> dict[str, Any]:
        """Return a Deployment, Job or DaemonSet for the owned node, whose pods put up with every taint."""
        template = self.pod(name, gpus=gpus, tolerations=[BLANKET], nodeSelector=self.here)
        del template["metadata"]["name"], template["metadata"]["namespace"]
        spec: dict[str, Any] = {"template": {"metadata": template["metadata"], "spec": template["spec"]}}
        if kind == "Job":
            template["spec"]["restartPolicy"] = "Never"
        else:
            spec["selector"] = {"matchLabels": {"app": name}}
        api_version = "batch/v1" if kind == "Job" else "apps/v1"
        return {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": name, "namespace": FOREIGN},
            "spec": spec,
        }

    @property
    def here(self) -> dict[str, str]:
        """Select the owned node."""
        return {"kubernetes.io/hostname": self.worker}

    def create(self, manifest: dict[str, Any], *, user: str = "", dry_run: bool = False) -> str:
        """Create an object; return what kubectl said, for better or worse."""
        options = [*(["--as", user] if user else []), *(["--dry-run=server"] if dry_run else [])]
        return self.kubectl("create", "-f", "-", *options, text=json.dumps(manifest), check=False)

    def bind(self, pod: str, node: str, *, user: str = "", legacy: bool = False) -> str:
        """Post a Binding, as a scheduler does; return what came of it."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        path = f"/api/v1/namespaces/{FOREIGN}/" + ("bindings" if legacy else f"pods/{pod}/binding")
        options = ["--as", user] if user else []
        return self.kubectl("create", "--raw", path, "-f", "-", *options, text=json.dumps(binding), check=False)

    def runs_here(self, selector: str, namespace: str = FOREIGN) -> dict[str, Any]:
        """Wait until a pod runs on the owned node, and return it."""

        def probe() -> dict[str, Any]:
            pods = self.kubectl.json("-n", namespace, "get", "pods", "-l", selector)["items"]
            seen = {one["metadata"]["name"]: (one["spec"].get("nodeName"), one["status"]["phase"]) for one in pods}
            live = [one for one in pods if "deletionTimestamp" not in one["metadata"]]
            assert [seen[one["metadata"]["name"]] for one in live] == [(self.worker, "Running")], seen
            found: dict[str, Any] = live[0]
            return found

        return eventually(f"{selector} runs on {self.worker}", probe, within=45)

    def event(self, kind: str, name: str, words: str, namespace: str = FOREIGN) -> str:
        """Wait for an Event with these words about an object whose name begins so, and return its message."""

        def probe() -> str:
            events = self.kubectl.json("-n", namespace, "get", "events")["items"]
            said = [
                one["message"]
                for one in events
                if one["involvedObject"]["kind"] == kind and one["involvedObject"]["name"].startswith(name)
            ]
            assert any(words in message for message in said), said
            return next(str(message) for message in said if words in message)

        return eventually(f"{kind} {name}: {words}", probe, within=30)


@contextmanager
def an_owned_node(kubectl: Kubectl, operator_namespace: str, deployment: str) -> Iterator[Owned]:
    """Let a cluster, of which there is no more than that, own the last node with GPUs that nobody is granted."""
    free = [
        node["metadata"]["name"]
        for node in kubectl.json("get", "nodes")["items"]
        if int(node["status"]["allocatable"].get(GPU, "0")) and not {FLEET, OWNER} & node["metadata"]["labels"].keys()
    ]
    assert free, "these tests need a node with GPUs that is granted to no cluster"
    in_namespace = ("-n", operator_namespace)
    template = kubectl.json(*in_namespace, "get", "deployment", deployment)["spec"]["template"]
    made = Owned(kubectl, operator_namespace, max(free), template["spec"]["containers"][0]["image"])
    try:
        kubectl(*in_namespace, "scale", f"deployment/{deployment}", "--replicas=0")
        kubectl(*in_namespace, "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/component=operator")
        made.claim()
        yield made
    finally:
        made.free()
        kubectl(*in_namespace, "scale", f"deployment/{deployment}", "--replicas=1")
        kubectl(*in_namespace, "rollout", "status", f"deployment/{deployment}", "--timeout=60s")


def enforcement(kubectl: Kubectl, operator_namespace: str, mode: str) -> None:
    """Apply the chart's bindings of this mode, in Helm's name: an upgrade would bring the operator back."""
    rendered = subprocess.run(
        [
            "helm", "template", RELEASE, str(ROOT / "charts/slurmcluster-operator"),
            "--namespace", operator_namespace, "--set", f"fleet.enforcement={mode}",
            "--show-only", "templates/admission/policybindings.yaml",
        ],
        check=True,
        capture_output=True,
        text=True,
    )  # fmt: skip
    # What `helm template` leaves out and an uninstallation goes by.
    whose = {"meta.helm.sh/release-name": RELEASE, "meta.helm.sh/release-namespace": operator_namespace}
    bindings = list(filter(None, yaml.safe_load_all(rendered.stdout)))
    for binding in bindings:
        metadata = binding["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), **whose}
        metadata["labels"] = {**metadata.get("labels", {}), "app.kubernetes.io/managed-by": "Helm"}
    kubectl(
        "apply", "--server-side", "--field-manager=helm", "-f", "-",
        text=json.dumps({"apiVersion": "v1", "kind": "List", "items": bindings}),
    )  # fmt: skip


def _meddler() -> list[dict[str, Any]]:
    rules = [
        {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["get", "patch", "update"]},
        {"apiGroups": [""], "resources": ["pods/binding", "bindings"], "verbs": ["create"]},
    ]
    group = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "meddler", "namespace": FOREIGN}},
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": FOREIGN}, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": FOREIGN},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": FOREIGN},
            "subjects": [{"kind": "ServiceAccount", "name": "meddler", "namespace": FOREIGN}],
        },
    ]
