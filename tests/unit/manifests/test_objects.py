from __future__ import annotations

from typing import Any

import pytest

from slurmcluster_operator.manifests.build import content_hash, standing_objects
from slurmcluster_operator.manifests.slurmd import pod, template_hash
from slurmcluster_operator.manifests.users import group_id, group_problems, identity
from slurmcluster_operator.model import names
from tests.builders import UID, cluster, pool_json


def by_name(**changes: Any) -> dict[str, Any]:
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in standing_objects(cluster(**changes))}


def test_everything_but_kept_volumes_goes_with_the_cluster() -> None:
    free = {key for key, one in by_name().items() if "ownerReferences" not in one["metadata"]}
    assert free == {f"PersistentVolumeClaim/demo-{name}" for name in ("controller-state", "database", "home")}
    for one in by_name().values():
        for owner in one["metadata"].get("ownerReferences", ()):
            assert owner["uid"] == UID


def test_a_field_lets_volumes_go_too() -> None:
    found = by_name(
        controller={"storage": {"onDelete": "Delete"}},
        accounting={"database": {"embedded": {"storage": {"onDelete": "Delete"}}}},
        home={"onDelete": "Delete"},
    )
    assert all("ownerReferences" in one["metadata"] for one in found.values())


def test_every_object_carries_the_labels() -> None:
    for one in by_name().values():
        labels = one["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "demo"
        assert labels["app.kubernetes.io/managed-by"] == "slurmcluster-operator"
        assert labels["app.kubernetes.io/component"]


def test_names_are_unique_whatever_is_switched_on() -> None:
    whole = standing_objects(cluster())
    assert len({(one["kind"], one["metadata"]["name"]) for one in whole}) == len(whole)


def test_only_slurmd_and_login_run_as_root() -> None:
    for one in by_name().values():
        if one["kind"] not in {"StatefulSet", "Deployment"}:
            continue
        spec = one["spec"]["template"]["spec"]
        assert spec["automountServiceAccountToken"] is False
        if one["metadata"]["labels"][names.COMPONENT] == names.LOGIN:
            continue
        assert spec["securityContext"]["runAsNonRoot"] is True
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            }


def test_slurmd_asks_for_every_gpu_and_for_the_very_node_that_was_claimed_for_it() -> None:
    whole = cluster(
        pools=[pool_json(1, 1, nodeSelector={"gpu": "h100"}, tolerations=[{"key": "gpu", "operator": "Exists"}])]
    )
    made = pod(whole, whole.spec.pools[0], "h100-0", "hash", "w7")
    spec = made["spec"]
    assert made["metadata"]["name"] == "demo-h100-0"
    assert spec["hostname"] == "h100-0"
    assert spec["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {
        "matchExpressions": [{"key": "slurmcluster.dev/serves", "operator": "In", "values": ["team.demo"]}],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["w7"]}],
    }
    (apart,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart == {
        "labelSelector": {
            "matchLabels": {
                "app.kubernetes.io/managed-by": "slurmcluster-operator",
                "app.kubernetes.io/component": "slurmd",
            }
        },
        "namespaceSelector": {},
        "topologyKey": "kubernetes.io/hostname",
    }
    assert spec["nodeSelector"] == {"gpu": "h100"}
    own = {"key": "slurmcluster.dev/owner", "operator": "Equal", "value": "team.demo", "effect": "NoSchedule"}
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists"}, own]
    assert made["metadata"]["annotations"]["slurmcluster.dev/machine"] == "w7"


@pytest.mark.parametrize(("isolation", "privileged"), [("Cgroup", True), ("Pod", False)])
def test_privilege_follows_isolation(isolation: str, *, privileged: bool) -> None:
    whole = cluster(pools=[pool_json(1, 1, isolation=isolation)])
    (slurmd,) = pod(whole, whole.spec.pools[0], "h100-0", "hash")["spec"]["containers"]
    assert slurmd["securityContext"].get("privileged", False) is privileged


def test_the_template_hash_is_the_same_for_all_nodes_and_changes_with_the_pod() -> None:
    one, other = cluster(), cluster(pools=[pool_json(2, 2, isolation="Pod")])
    assert template_hash(one, one.spec.pools[0]) == template_hash(cluster(), cluster().spec.pools[0])
    assert template_hash(one, one.spec.pools[0]) != template_hash(other, other.spec.pools[0])


def test_the_content_hash_follows_what_pods_mount() -> None:
    before = content_hash(cluster())
    assert content_hash(cluster(login={"replicas": 2})) == before
    assert content_hash(cluster(users=[{"name": "ann", "uid": 2000}])) != before
    assert content_hash(cluster(slurmConf={"KillWait": "60"})) != before


def test_falsy_values_are_kept() -> None:
    found = by_name(login={"resources": {"limits": {"cpu": 0}}})
    (container,) = found["StatefulSet/demo-login"]["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {"limits": {"cpu": 0}}


def test_users_become_passwd_group_and_shadow() -> None:
    users = [
        {"name": "ann", "uid": 2000, "groups": ["vision"], "sudo": True},
        {"name": "ben", "uid": 2001, "groups": ["vision"], "shell": "/bin/zsh"},
    ]
    files = identity(cluster(users=users))
    assert files["passwd"] == "ann:x:2000:2000::/home/ann:/bin/bash\nben:x:2001:2001::/home/ben:/bin/zsh\n"
    assert files["group"].splitlines() == [
        "ann:x:2000:",
        "ben:x:2001:",
        f"slurm-sudo:x:{group_id('slurm-sudo')}:ann",
        f"vision:x:{group_id('vision')}:ann,ben",
    ]
    assert files["shadow"].splitlines()[0].startswith("ann:*:")


def test_groups_that_collide_are_named() -> None:
    users = cluster(users=[{"name": "ann", "uid": 2000, "groups": ["ben"]}, {"name": "ben", "uid": 2001}]).spec.users
    assert group_problems(users) == ["users[].groups: ben is also a user's own group"]
    ids: dict[int, str] = {}
    pair = next(
        (ids[group_id(f"g{n}")], f"g{n}")
        for n in range(100_000)
        if ids.setdefault(group_id(f"g{n}"), f"g{n}") != f"g{n}"
    )
    (problem,) = group_problems(cluster(users=[{"name": "ann", "uid": 2000, "groups": list(pair)}]).spec.users)
    assert pair[0] in problem
    assert pair[1] in problem
