from __future__ import annotations

from typing import Any

import pytest
import yaml

from slurmcluster_operator.kube.client import path_of
from slurmcluster_operator.model import names
from slurmcluster_operator.settings import Settings
from tests.unit.charts.conftest import CHARTS, Helm, Render

CHART = "slurmcluster-operator"
NAMESPACE = ("--namespace", "slurmcluster-system")

APPLIED = {"get", "list", "watch", "create", "patch"}
GRANTED = {
    "slurmcluster.dev/slurmclusters": {"get", "list", "watch", "patch"},
    "slurmcluster.dev/slurmclusters/status": {"patch"},
    "slurmcluster.dev/slurmclusters/finalizers": {"update"},
    "/nodes": {"get", "list", "watch", "patch"},
    "/pods": APPLIED | {"delete"},
    "/pods/eviction": {"create"},
    "/configmaps": APPLIED,
    "/services": APPLIED,
    "/persistentvolumeclaims": APPLIED,
    "/secrets": {"get", "create"},
    "/events": {"create"},
    "apps/deployments": APPLIED,
    "apps/statefulsets": APPLIED,
    "apps/daemonsets": {"get", "list", "watch"},
    "networking.k8s.io/networkpolicies": APPLIED,
    "storage.k8s.io/storageclasses": {"get"},
    "/podtemplates": {"create"},
    "autoscaling.x-k8s.io/provisioningrequests": {"create"},
    "admissionregistration.k8s.io/validatingadmissionpolicybindings": {"get"},
}
"""All that the operator may do, anywhere. A widening has to be written down here."""
GRANTED_AT_HOME = {"/configmaps": {"delete"}}
"""What it may do besides in its own namespace."""


@pytest.fixture(scope="module")
def installed(render: Render) -> dict[str, Any]:
    return render(CHART, *NAMESPACE)


@pytest.fixture(scope="module")
def role(installed: dict[str, Any]) -> dict[str, Any]:
    return dict(installed["ClusterRole/slurmcluster-operator"])


@pytest.fixture(scope="module")
def pod(installed: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = installed["Deployment"]["spec"]["template"]
    return found


@pytest.fixture(scope="module")
def container(pod: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod["spec"]["containers"]
    return dict(found)


def granted(role: dict[str, Any]) -> dict[str, set[str]]:
    verbs: dict[str, set[str]] = {}
    for rule in role["rules"]:
        assert "resourceNames" not in rule
        assert "nonResourceURLs" not in rule
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                verbs.setdefault(f"{group}/{resource}", set()).update(rule["verbs"])
    return verbs


def test_the_operators_chart_lints(helm: Helm) -> None:
    done = helm("lint", CHART, "--strict")
    assert done.returncode == 0, done.stdout


def test_grants_exactly_what_is_written_down(role: dict[str, Any]) -> None:
    assert granted(role) == GRANTED


def test_grants_exactly_what_is_written_down_in_its_own_namespace(installed: dict[str, Any]) -> None:
    role, binding = installed["Role"], installed["RoleBinding"]
    assert granted(role) == GRANTED_AT_HOME
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == installed["ClusterRoleBinding"]["subjects"]
    assert {one["metadata"]["namespace"] for one in (role, binding)} == {"slurmcluster-system"}


def test_never_lists_or_changes_secrets(role: dict[str, Any]) -> None:
    assert granted(role)["/secrets"].isdisjoint({"list", "watch", "update", "patch", "delete", "*"})


def test_grants_nothing_by_wildcard(role: dict[str, Any]) -> None:
    assert not [resource for resource, verbs in granted(role).items() if "*" in resource or "*" in verbs]


@pytest.mark.parametrize("kind", ["Pod", "Node", "Secret", "ConfigMap", "StatefulSet", "NetworkPolicy", "SlurmCluster"])
def test_grants_cover_the_kinds_that_the_operator_calls(kind: str) -> None:
    plural = path_of("v1", kind).rsplit("/", 1)[1]
    assert plural in {resource.split("/", 1)[1] for resource in GRANTED}


def test_binds_the_role_to_the_pods_account(
    installed: dict[str, Any], role: dict[str, Any], pod: dict[str, Any]
) -> None:
    account = installed["ServiceAccount"]["metadata"]["name"]
    binding = installed["ClusterRoleBinding"]

    assert pod["spec"]["serviceAccountName"] == account
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "slurmcluster-system"}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]


def test_carries_the_label_that_network_policies_let_in(installed: dict[str, Any], pod: dict[str, Any]) -> None:
    assert pod["metadata"]["labels"][names.COMPONENT] == "operator"
    assert installed["Deployment"]["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


def test_is_not_taken_for_one_of_the_operators_own_objects(pod: dict[str, Any]) -> None:
    assert pod["metadata"]["labels"][names.MANAGED_BY] != names.MANAGER


def test_runs_without_rights_on_the_node(pod: dict[str, Any], container: dict[str, Any]) -> None:
    assert pod["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - the pod's own
    assert pod["spec"]["volumes"] == [{"name": "tmp", "emptyDir": {}}]


def test_is_bounded_and_asked_after(container: dict[str, Any]) -> None:
    assert container["resources"]["limits"]["memory"] == "256Mi"
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/healthz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    assert container["ports"] == [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
    assert all(probe["port"] == "http" for probe in probes.values())


def test_there_is_only_ever_one(installed: dict[str, Any]) -> None:
    assert installed["Deployment"]["spec"]["replicas"] == 1
    assert installed["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}


def test_passes_the_settings_on(render: Render) -> None:
    values = ("--set", "registry=r.example.com/x", "--set", "clusterDomain=k8s.example", "--set", "logLevel=DEBUG")
    (made,) = render(CHART, *NAMESPACE, *values, "--set", "tag=1.2")["Deployment"]["spec"]["template"]["spec"][
        "containers"
    ]
    environment = {one["name"]: one.get("value", "slurmcluster-system") for one in made["env"]}

    settings = Settings.from_environment(environment)

    assert made["image"] == "r.example.com/x/operator:1.2"
    assert settings.platform.registry == "r.example.com/x"
    assert settings.platform.cluster_domain == "k8s.example"
    assert settings.platform.operator_namespace == "slurmcluster-system"
    assert settings.log_level == "DEBUG"
    assert {"name": "SLURMCLUSTER_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}} in made[
        "env"
    ]


def test_runs_the_image_of_the_charts_version(container: dict[str, Any]) -> None:
    assert container["image"] == "docker.io/slurmcluster/operator:dev"


def test_brings_the_crd_as_it_is_generated_and_keeps_it(installed: dict[str, Any]) -> None:
    crd = installed["CustomResourceDefinition"]
    generated = yaml.safe_load((CHARTS.parent / "crds/slurmclusters.yaml").read_text())

    assert crd["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    crd["metadata"].pop("labels")
    assert crd == generated


def test_the_crd_can_be_left_out_or_given_away(render: Render) -> None:
    assert "CustomResourceDefinition" not in render(CHART, "--set", "crds.install=false")
    given_away = render(CHART, "--set", "crds.keep=false")["CustomResourceDefinition"]
    assert "annotations" not in given_away["metadata"]


def test_another_releases_objects_have_other_names(render: Render) -> None:
    assert render(CHART, release="two")["Deployment"]["metadata"]["name"] == "two-slurmcluster-operator"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("logLevel=LOUD", "logLevel"),
        ("registry=has a space", "registry"),
        ("replicas=2", "replicas"),
        ("crds.keep=perhaps", "keep"),
        ("pullPolicy=Sometimes", "pullPolicy"),
    ],
)
def test_refuses_bad_values(helm: Helm, value: str, words: str) -> None:
    done = helm("template", CHART, "--set", value)
    assert done.returncode != 0
    assert words in done.stderr


def test_the_values_and_their_schema_name_the_same() -> None:
    values = yaml.safe_load((CHARTS / CHART / "values.yaml").read_text())
    schema = yaml.safe_load((CHARTS / CHART / "values.schema.json").read_text())
    assert schema["properties"].keys() - {"global"} == values.keys()
