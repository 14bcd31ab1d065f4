"""The admission policies as the chart renders them; tests/e2e/test_admission.py shows what they refuse."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.charts.conftest import CHARTS, Helm, Render

CHART = "slurmcluster-operator"
NAMESPACE = ("--namespace", "slurm-system")
POLICIES = {f"slurmcluster-operator-{what}" for what in ("tolerations", "node-names", "bindings", "nodes", "limits")}
WATCH = "slurmcluster-operator-watch"
"""The policy that matches nothing."""

# What `helm install` finds on a server, cut down to what matters here.
SERVER = ("--api-versions", "v1/Pod", "--api-versions", "admissionregistration.k8s.io/v1")
WITH_POLICIES = (*SERVER, "--api-versions", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")


def named(objects: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in objects.values() if one["kind"] == kind}


def policies(objects: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return _refusing(named(objects, "ValidatingAdmissionPolicy"))


def bindings(objects: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return _refusing(named(objects, "ValidatingAdmissionPolicyBinding"))


def _refusing(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: one["spec"] for name, one in found.items() if not name.endswith("-watch")}


def environment(objects: dict[str, Any]) -> dict[str, str]:
    (container,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value", "") for one in container["env"]}


@pytest.mark.parametrize(
    ("mode", "actions"), [((), ["Deny"]), (("--set", "fleet.enforcement=Audit"), ["Audit", "Warn"])]
)
def test_each_policy_has_a_binding_that_does_what_the_mode_says(
    render: Render, mode: tuple[str, ...], actions: list[str]
) -> None:
    objects = render(CHART, *NAMESPACE, *mode)

    assert policies(objects).keys() == POLICIES
    assert {name: one["policyName"] for name, one in bindings(objects).items()} == {name: name for name in POLICIES}
    assert [one["validationActions"] for one in bindings(objects).values()] == [actions] * len(POLICIES)


def test_every_policy_fails_closed_and_says_why_it_refuses(render: Render) -> None:
    for spec in policies(render(CHART, *NAMESPACE)).values():
        assert spec["failurePolicy"] == "Fail"
        for rule in spec["validations"]:
            assert rule["reason"] == "Forbidden"
            assert rule.get("message") or rule["messageExpression"]


def test_the_operator_is_told_the_bindings_that_are_there(render: Render) -> None:
    for release in ("slurmcluster-operator", "two"):
        objects = render(CHART, *NAMESPACE, release=release)
        assert set(environment(objects)["SLURMCLUSTER_ADMISSION"].split(",")) == bindings(objects).keys()


@pytest.mark.parametrize("off", ["Off", "false"], ids=["by its name", "as YAML reads it without quotes"])
def test_off_installs_nothing_and_tells_the_operator_so(render: Render, off: str) -> None:
    objects = render(CHART, *NAMESPACE, "--set", f"fleet.enforcement={off}")

    assert not named(objects, "ValidatingAdmissionPolicy")
    assert not named(objects, "ValidatingAdmissionPolicyBinding")
    assert environment(objects)["SLURMCLUSTER_ADMISSION"] == ""


def test_installs_nothing_where_the_server_does_not_know_the_kind(render: Render) -> None:
    assert policies(render(CHART, *NAMESPACE, *WITH_POLICIES)).keys() == POLICIES

    objects = render(CHART, *NAMESPACE, *SERVER)
    assert not named(objects, "ValidatingAdmissionPolicy")
    assert not named(objects, "ValidatingAdmissionPolicyBinding")
    assert environment(objects)["SLURMCLUSTER_ADMISSION"] == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), {"ClusterRole slurmcluster-operator-fleet-admin"}),
        (
            ("--set", "fleet.enforcement=Audit"),
            {"ClusterRole slurmcluster-operator-fleet-admin", "fleet.enforcement=Audit"},
        ),
        (("--set", "fleet.enforcement=Off"), {"Enforcement is off", "fleet.enforcement=Off"}),
        (SERVER, {"Enforcement is off", "has no ValidatingAdmissionPolicy"}),
    ],
    ids=["enforce", "audit", "off", "old server"],
)
def test_the_notes_tell_what_holds(helm: Helm, arguments: tuple[str, ...], said: set[str], tmp_path: Path) -> None:
    # Only an installation prints the notes, and it takes no --api-versions: here they become an object of the chart.
    chart = shutil.copytree(CHARTS / CHART, tmp_path / CHART)
    (chart / "templates/notes.yaml").write_text(
        'notes: {{ include (print .Template.BasePath "/NOTES.txt") . | toJson }}'
    )
    words = {
        "ClusterRole slurmcluster-operator-fleet-admin",
        "fleet.enforcement=Audit",
        "fleet.enforcement=Off",
        "Enforcement is off",
        "has no ValidatingAdmissionPolicy",
    }
    done = helm(
        "template", str(chart), *NAMESPACE, *arguments, "-s", "templates/notes.yaml", release="slurmcluster-operator"
    )

    assert done.returncode == 0, done.stderr
    printed = yaml.safe_load(done.stdout)["notes"]
    assert {one for one in words if one in printed} == said


def test_system_namespaces_are_never_asked_and_the_operator_counts_the_same(render: Render) -> None:
    objects = render(CHART, *NAMESPACE, "--set", "fleet.systemNamespaces={gpu-operator,kube-system}")

    expected = ["kube-system", "slurm-system", "gpu-operator"]
    assert environment(objects)["SLURMCLUSTER_SYSTEM_NAMESPACES"].split(",") == expected
    for name in ("tolerations", "node-names", "bindings"):
        selector = policies(objects)[f"slurmcluster-operator-{name}"]["matchConstraints"]["namespaceSelector"]
        exempt = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": expected}
        assert selector == {"matchExpressions": [exempt]}


def test_the_policy_and_the_operator_know_the_same_gpus(render: Render) -> None:
    objects = render(CHART, *NAMESPACE, "--set", "fleet.gpuResources={example.com/gpu,nvidia.com/}")

    assert environment(objects)["SLURMCLUSTER_GPU_RESOURCES"] == "example.com/gpu,nvidia.com/"
    (gpus,) = (
        one["expression"]
        for one in policies(objects)["slurmcluster-operator-tolerations"]["variables"]
        if one["name"] == "gpus"
    )
    assert '["example.com/gpu","nvidia.com/"].exists(prefix' in gpus


def test_the_policies_know_the_operator_by_its_account(render: Render) -> None:
    objects = render(CHART, *NAMESPACE, "--set", "serviceAccount.name=robot")

    expressions = {
        name.removeprefix("slurmcluster-operator-"): one["expression"]
        for name, spec in policies(objects).items()
        for one in spec.get("matchConditions", ())
        if "userInfo.username" in one["expression"]
    }
    user = '"system:serviceaccount:slurm-system:robot"'
    assert expressions == {
        "tolerations": f"request.userInfo.username != {user}",
        "nodes": f"request.userInfo.username != {user}",
        "limits": f"request.userInfo.username == {user}",
    }


def test_the_indexes_are_read_in_the_operators_namespace_alone(render: Render) -> None:
    objects = render(CHART, *NAMESPACE)

    with_indexes = {name for name, spec in policies(objects).items() if "paramKind" in spec}
    assert with_indexes == {"slurmcluster-operator-node-names", "slurmcluster-operator-bindings"}
    assert {name for name, spec in bindings(objects).items() if "paramRef" in spec} == with_indexes
    for name in with_indexes:
        assert bindings(objects)[name]["paramRef"] == {
            "namespace": "slurm-system",
            "selector": {"matchLabels": {"slurmcluster.dev/fleet-index": "true"}},
            "parameterNotFoundAction": "Allow",
        }


@pytest.mark.parametrize("kind", ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"])
def test_a_binding_with_indexes_stays_whatever_becomes_of_the_release(render: Render, kind: str) -> None:
    objects = render(CHART, *NAMESPACE)

    assert named(objects, kind)[WATCH]["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    policy = named(objects, "ValidatingAdmissionPolicy")[WATCH]["spec"]
    binding = named(objects, "ValidatingAdmissionPolicyBinding")[WATCH]["spec"]
    assert binding["policyName"] == WATCH
    assert binding["paramRef"] == bindings(objects)["slurmcluster-operator-bindings"]["paramRef"]
    # SlurmClusters cannot be connected to: this matches nothing.
    (rule,) = policy["matchConstraints"]["resourceRules"]
    assert (rule["operations"], rule["resources"]) == (["CONNECT"], ["slurmclusters"])
    assert policy["paramKind"] == {"apiVersion": "v1", "kind": "ConfigMap"}


def test_the_status_is_no_way_around_the_rule_on_nodes(render: Render) -> None:
    (rule,) = policies(render(CHART))["slurmcluster-operator-nodes"]["matchConstraints"]["resourceRules"]
    assert rule["resources"] == ["nodes", "nodes/status"]


def test_administrators_have_a_role_of_their_own(render: Render) -> None:
    role = named(render(CHART, *NAMESPACE), "ClusterRole")["slurmcluster-operator-fleet-admin"]
    assert role["rules"] == [
        {"apiGroups": ["slurmcluster.dev"], "resources": ["slurmclusters"], "verbs": ["grant"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("fleet.enforcement=Perhaps", "enforcement"),
        ("fleet.enforcement=true", "enforcement"),
        ("fleet.systemNamespaces={Kube_System}", "systemNamespaces"),
        ("fleet.systemNamespaces=kube-system", "systemNamespaces"),
        ("fleet.gpuResources={}", "gpuResources"),
        ("fleet.gpuResources={gpu}", "gpuResources"),
        ('fleet.gpuResources={a.com/"]}', "gpuResources"),
        ("fleet.grant=all", "grant"),
    ],
)
def test_refuses_bad_values_for_the_fleet(helm: Helm, value: str, words: str) -> None:
    done = helm("template", CHART, "--set", value)
    assert done.returncode != 0
    assert words in done.stderr


def test_the_values_below_fleet_and_their_schema_name_the_same() -> None:
    values = yaml.safe_load((CHARTS / CHART / "values.yaml").read_text())
    schema = yaml.safe_load((CHARTS / CHART / "values.schema.json").read_text())
    assert schema["properties"]["fleet"]["properties"].keys() == values["fleet"].keys()
