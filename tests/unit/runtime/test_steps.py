"""Steps of claims and releases, the keeper, and whether admission enforces: against a small fake of the API server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from slurmcluster_operator.kube.client import ApiError, ConflictError, NotFoundError, TooManyError
from slurmcluster_operator.manifests import owner
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import Evict, Move, Own
from slurmcluster_operator.model.fleet import Fleet, KubeNode, Tolerance
from slurmcluster_operator.model.holds import Sighting
from slurmcluster_operator.model.names import Names
from slurmcluster_operator.runtime.enforcement import Enforcement
from slurmcluster_operator.runtime.events import Events
from slurmcluster_operator.runtime.fleet import Step, Steward
from slurmcluster_operator.runtime.keeper import Keeper, grant_problems
from tests.builders import cluster

OWN = Names("team", "demo")
AN_HOUR_AGO = datetime.now(UTC) - timedelta(hours=1)
LONG_AGO = AN_HOUR_AGO.isoformat()
SEEN = {state: Sighting((state, AN_HOUR_AGO), AN_HOUR_AGO) for state in ("Claiming", "Releasing")}
"""What an operator remembers that has been there all the time."""


class FakeKube:
    """Nodes and pods as the API server would have them."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.pods: list[dict[str, Any]] = []
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self.events: list[str] = []
        self.errors: dict[str, Exception] = {}
        self.asked: list[str] = []
        self.indexed: list[str] = []
        self.lets_in = False

    async def get(self, api_version: str, kind: str, namespace: str, name: str) -> dict[str, Any]:
        if name in self.errors:
            raise self.errors[name]
        if (kind, name) not in self.objects:
            raise NotFoundError(404, f"{kind} {name} not found")
        return self.objects[kind, name]

    async def list(self, path: str, query: dict[str, str]) -> list[dict[str, Any]]:
        field, _, value = query["fieldSelector"].partition("=")
        assert field == "spec.nodeName"
        self.asked.append(query["fieldSelector"])
        return [pod for pod in self.pods if pod["spec"].get("nodeName", "") == value]

    async def merge(self, api_version: str, kind: str, namespace: str, name: str, patch: dict[str, Any]) -> None:
        if patch["metadata"].get("resourceVersion") == "stale":
            raise ConflictError(409, "the object has been modified")
        self.patches.append((name, patch))

    async def delete(self, api_version: str, kind: str, namespace: str, name: str, *, uid: str) -> None:
        assert self.objects.pop((kind, name))["metadata"]["uid"] == uid

    async def apply(self, manifest: dict[str, Any]) -> None:
        self.indexed = manifest["data"]["nodes"].split()

    async def create(self, manifest: dict[str, Any], *, dry_run: bool = False) -> None:
        if manifest["kind"] == "Event":
            self.events.append(manifest["message"])
            return
        assert dry_run, "the probe is never to be made"
        if "admission-probe" in self.errors:
            raise self.errors["admission-probe"]
        node = manifest["spec"]["nodeName"]
        if node in self.indexed and not self.lets_in:
            raise ApiError(422, f"node {node} belongs to the Slurm cluster")

    async def evict(self, eviction: dict[str, Any]) -> None:
        name = eviction["metadata"]["name"]
        if name in self.errors:
            raise self.errors[name]

    def add_node(self, state: str = "", owner: str = "team.demo", version: str = "7", **labels: str) -> None:
        marks = {names.OWNER_STATE: state, names.OWNER_SINCE: LONG_AGO} if state else {}
        held = bool(state) and {names.OWNER: owner}
        self.objects["Node", "w0"] = {
            "metadata": {
                "name": "w0",
                "uid": "u0",
                "resourceVersion": version,
                "labels": {names.FLEET_LABEL: "team.demo", **(held or {}), **labels},
                "annotations": marks,
            },
            "spec": {"taints": [{"key": names.OWNER, "value": owner, "effect": "NoSchedule"}] if state else []},
        }

    def add_pod(self, name: str, node: str, **labels: str) -> None:
        metadata = {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "labels": labels,
            "annotations": {names.MACHINE: "w0"},
            "creationTimestamp": "2026-01-02T03:04:05Z",
        }
        self.pods.append({"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": {}})

    def add_slurmd(self, node: str, instance: str = "demo") -> None:
        ours = {names.MANAGED_BY: names.MANAGER, names.INSTANCE: instance, names.COMPONENT: names.SLURMD}
        self.add_pod(f"{instance}-h100-0", node, **ours)


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


@pytest.fixture
def world() -> SimpleNamespace:
    return SimpleNamespace(
        tolerance=Tolerance(),
        enforcement=SimpleNamespace(on=True),
        pods=SimpleNamespace(of=lambda namespace: [], changes=0),
        nodes=SimpleNamespace(items={}),
        clusters=SimpleNamespace(items={}),
        config_maps=SimpleNamespace(items={}),
    )


@pytest.fixture
def step(kube: FakeKube, world: SimpleNamespace) -> Step:
    return Step(kube, world, Events(kube))  # type: ignore[arg-type]


async def test_a_claim_is_one_write_with_the_version_that_was_read_and_an_event_on_the_node(
    step: Step, kube: FakeKube
) -> None:
    kube.add_node()
    assert await step.take(OWN, Move("w0", "Claiming", "needed"))
    ((name, patch),) = kube.patches
    assert (name, patch["metadata"]["resourceVersion"]) == ("w0", "7")
    assert patch["spec"]["taints"] == [{"key": names.OWNER, "value": "team.demo", "effect": "NoSchedule"}]
    assert kube.events == ["claimed by SlurmCluster team.demo: needed"]


async def test_a_node_that_changed_since_it_was_read_is_left_to_the_next_look(step: Step, kube: FakeKube) -> None:
    kube.add_node(version="stale")
    assert not await step.take(OWN, Move("w0", "Claiming", "needed"))
    assert (kube.patches, kube.events) == ([], [])


async def test_the_node_as_it_is_now_has_the_last_word(step: Step, kube: FakeKube) -> None:
    kube.add_node("Owned", owner="team.other")
    assert not await step.take(OWN, Move("w0", "Claiming", "needed"))
    kube.add_node()
    kube.objects["Node", "w0"]["metadata"]["labels"] = {}
    assert not await step.take(OWN, Move("w0", "Claiming", "needed"))
    assert not kube.patches


async def test_a_node_becomes_the_clusters_alone_only_when_a_fresh_list_shows_nobody_else(
    step: Step, kube: FakeKube
) -> None:
    kube.add_node("Claiming")
    kube.add_pod("train", "w0")
    assert not await step.take(OWN, Move("w0", "Owned", "empty", SEEN["Claiming"]))
    kube.pods.clear()
    kube.add_slurmd("w0", instance="other")
    assert not await step.take(OWN, Move("w0", "Owned", "empty", SEEN["Claiming"]))
    kube.pods.clear()
    kube.add_pod("controller", "w0", **{names.MANAGED_BY: names.MANAGER, names.COMPONENT: names.CONTROLLER})
    assert not await step.take(OWN, Move("w0", "Owned", "empty", SEEN["Claiming"]))
    kube.pods.clear()
    kube.add_slurmd("w0")
    assert await step.take(OWN, Move("w0", "Owned", "empty", SEEN["Claiming"]))
    assert kube.patches[0][1]["metadata"]["labels"][names.SERVES] == "team.demo"


@pytest.mark.parametrize(
    "spoilt", [None, "yesterday", (AN_HOUR_AGO - timedelta(hours=1)).isoformat()], ids=["none", "garbled", "older"]
)
async def test_a_step_that_is_not_the_one_that_was_seen_is_left_to_the_next_look(
    step: Step, kube: FakeKube, spoilt: str | None
) -> None:
    kube.add_node("Claiming")
    kube.objects["Node", "w0"]["metadata"]["annotations"][names.OWNER_SINCE] = spoilt
    assert not await step.take(OWN, Move("w0", "Owned", "empty", SEEN["Claiming"]))
    assert not await step.take(OWN, Move("w0", "Owned", "empty"))
    read = KubeNode.from_json(kube.objects["Node", "w0"])
    assert await step.take(OWN, Move("w0", "Owned", "empty", Sighting(read.step, AN_HOUR_AGO)))


@pytest.mark.parametrize("node", ["w0", ""])
async def test_a_node_goes_back_only_when_no_slurmd_is_there_or_may_still_come(
    step: Step, kube: FakeKube, node: str
) -> None:
    kube.add_node("Releasing")
    kube.add_slurmd(node)
    assert not await step.take(OWN, Move("w0", "", "idle", SEEN["Releasing"]))
    kube.pods.clear()
    assert await step.take(OWN, Move("w0", "", "idle", SEEN["Releasing"]))
    assert kube.patches[0][1]["spec"]["taints"] is None


async def test_pods_that_may_be_bound_next_are_listed_before_those_that_are(step: Step, kube: FakeKube) -> None:
    kube.add_node("Releasing")
    await step.take(OWN, Move("w0", "", "idle", SEEN["Releasing"]))
    assert kube.asked == ["spec.nodeName=", "spec.nodeName=w0"]


async def test_a_node_stays_known_to_admission_until_it_has_gone_back(kube: FakeKube, world: SimpleNamespace) -> None:
    steward = Steward(kube, world, Events(kube))  # type: ignore[arg-type]
    whole, claim, back = cluster(), Move("w0", "Claiming", "needed"), Move("w0", "", "idle", SEEN["Releasing"])

    def known(fleet: Fleet, moves: list[Own]) -> list[str]:
        nodes: str = steward.index(whole, fleet, moves)["data"]["nodes"]
        return nodes.split()

    assert known(Fleet(), [claim]) == ["w0"]
    assert not known(Fleet(), []), "it was only planned"
    kube.add_node()
    await steward.carry_out(whole, claim)
    assert known(Fleet(), []) == ["w0"], "the copy of the Node may be old"
    kube.add_node("Releasing")
    await steward.carry_out(whole, back)
    assert not known(Fleet(), [])
    ours = SimpleNamespace(cluster="demo", component=names.SLURMD, machine="w5", node_name="w5")
    world.pods.of, world.pods.changes = lambda namespace: [ours], 1
    assert known(Fleet(), []) == ["w5"], "a slurmd of ours is there"
    kube.add_node(**{names.SERVES: "team.demo"})
    fleet = Fleet((KubeNode.from_json(kube.objects["Node", "w0"]),), own="team.demo")
    assert "w0" in known(fleet, []), "a slurmd may still be bound there"


async def test_what_keeps_a_pod_from_being_evicted_is_told_once(kube: FakeKube, world: SimpleNamespace) -> None:
    steward = Steward(kube, world, Events(kube))  # type: ignore[arg-type]
    action = Evict("web", "shop", "uid", "w0", "needed")
    kube.errors["shop"] = TooManyError(429, "Cannot evict pod. The disruption budget held needs 1 healthy pods")
    await steward.carry_out(cluster(), action)
    await steward.carry_out(cluster(), action)
    assert kube.events == [
        "pod web/shop stays on node w0: Cannot evict pod. The disruption budget held needs 1 healthy pods"
    ]
    kube.errors.clear()
    await steward.carry_out(cluster(), action)
    assert kube.events[1:] == ["pod web/shop was asked to leave node w0: needed"]


async def test_the_keeper_gives_back_what_a_deleted_cluster_had_and_only_when_its_slurmd_is_gone(
    kube: FakeKube, world: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper(kube, world, Events(kube), "slurmcluster-system")  # type: ignore[arg-type]
    kube.add_node("Releasing")
    world.nodes.items = {("", "w0"): KubeNode.from_json(kube.objects["Node", "w0"])}
    kube.objects["SlurmCluster", "demo"] = {}
    await keeper.look()
    assert not kube.patches, "the copy was old: it is there"
    del kube.objects["SlurmCluster", "demo"]
    kube.add_slurmd("w0")
    await keeper.look()
    assert not kube.patches
    kube.pods.clear()
    await keeper.look()
    assert not kube.patches, "it has only just seen that it is being given back"
    monkeypatch.setattr("slurmcluster_operator.decide.ownership.SETTLE_UNENFORCED", timedelta())
    assert await keeper.look(), "a node has come back"
    assert kube.patches[0][1]["metadata"]["labels"][names.OWNER] is None


async def test_the_keeper_lets_admission_forget_nodes_that_a_deleted_cluster_has_given_back_while_it_has_others(
    kube: FakeKube, world: SimpleNamespace
) -> None:
    keeper = Keeper(kube, world, Events(kube), "slurmcluster-system")  # type: ignore[arg-type]
    kube.add_node("Releasing")
    kube.add_slurmd("w0")
    world.nodes.items = {("", "w0"): KubeNode.from_json(kube.objects["Node", "w0"])}
    index: dict[str, Any] = {
        "metadata": {"uid": "i", "resourceVersion": "3", "labels": {names.FLEET_INDEX: "true"}},
        "data": owner.index_data(["w0", "w1"], []),
    }
    kube.objects["ConfigMap", "fleet-team.demo"] = index
    world.config_maps.items = {("slurmcluster-system", "fleet-team.demo"): None}
    kube.objects["SlurmCluster", "demo"] = {}
    assert not await keeper.look()
    assert not kube.patches, "the copy was old: it is there"
    del kube.objects["SlurmCluster", "demo"]
    assert not await keeper.look()
    assert kube.patches == [("fleet-team.demo", {"metadata": {"resourceVersion": "3"}, "data": {"nodes": "\nw0\n"}})], (
        "a job is still there on w0"
    )
    index["data"]["nodes"] = "\nw0\n"
    await keeper.look()
    assert len(kube.patches) == 1
    world.nodes.items.clear()
    await keeper.look()
    assert ("ConfigMap", "fleet-team.demo") not in kube.objects


@pytest.mark.parametrize("left", ["taint", "label"])
async def test_the_keeper_gives_back_what_only_one_mark_of_a_deleted_cluster_is_left_on(
    kube: FakeKube, world: SimpleNamespace, left: str
) -> None:
    keeper = Keeper(kube, world, Events(kube), "slurmcluster-system")  # type: ignore[arg-type]
    kube.add_node("Owned", owner="lab.old")
    node = kube.objects["Node", "w0"]
    del node["metadata"]["labels"][names.OWNER]
    if left == "label":
        node["metadata"]["labels"][names.SERVES] = "lab.old"
        node["spec"]["taints"] = []
    world.nodes.items = {("", "w0"): KubeNode.from_json(kube.objects["Node", "w0"])}
    await keeper.look()
    ((_, patch),) = kube.patches
    assert patch["metadata"]["labels"][names.OWNER] == "lab.old"
    assert patch["metadata"]["annotations"][names.OWNER_STATE] == "Claiming", "which is given back as ever"


async def test_the_keeper_tells_once_of_a_grant_to_nobody(kube: FakeKube, world: SimpleNamespace) -> None:
    keeper = Keeper(kube, world, Events(kube), "slurmcluster-system")  # type: ignore[arg-type]
    kube.add_node()
    world.nodes.items = {("", "w0"): KubeNode.from_json(kube.objects["Node", "w0"])}
    await keeper.look()
    await keeper.look()
    assert kube.events == [
        "the grant slurmcluster.dev/fleet=team.demo names no SlurmCluster: there is none of name team/demo"
    ]


@pytest.mark.parametrize(
    ("grant", "problems"), [("team.demo", 0), ("team.demo_web.x", 1), ("oops", 1), (".x_y.", 2), ("", 0)]
)
def test_grants_are_read(grant: str, problems: int) -> None:
    raw = {"metadata": {"name": "w0", "labels": {names.FLEET_LABEL: grant}}}
    assert len(grant_problems(KubeNode.from_json(raw), {"team.demo"})) == problems


@pytest.mark.parametrize(
    ("answers", "because"),
    [
        ({"a": ["Deny"], "b": ["Deny"]}, ""),
        ({"a": ["Deny"], "b": ["Audit", "Warn"]}, "admission policy b only warns"),
        ({"a": ["Deny"]}, "admission policy b is not there"),
    ],
)
async def test_admission_is_enforced_when_every_policy_refuses(
    kube: FakeKube, answers: dict[str, list[str]], because: str
) -> None:
    for name, actions in answers.items():
        kube.objects["ValidatingAdmissionPolicyBinding", name] = {"spec": {"validationActions": actions}}
    said = await enforcement(kube, "a", "b").look()
    assert said.startswith(because)
    assert bool(said) is bool(because)
    assert kube.events == []


def enforcement(kube: FakeKube, *bindings: str) -> Enforcement:
    return Enforcement(kube, bindings, "slurmcluster-system", "default")  # type: ignore[arg-type]


async def test_admission_that_is_off_or_cannot_be_read_does_not_count_as_enforced(kube: FakeKube) -> None:
    said = await enforcement(kube).look()
    assert "switched off" in said
    assert "fleet.enforcement is Off" in said
    assert "the API server had no ValidatingAdmissionPolicy" in said
    kube.errors["a"] = ApiError(403, "forbidden")
    assert "cannot be read: forbidden" in await enforcement(kube, "a").look()


async def test_policies_that_are_there_and_let_a_pod_onto_an_owned_node_are_not_enforced(
    kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurmcluster_operator.runtime.enforcement.PATIENCE", 0.3)
    kube.objects["ValidatingAdmissionPolicyBinding", "a"] = {"spec": {"validationActions": ["Deny"]}}
    kube.lets_in = True
    assert "lets in a pod on an owned node" in await enforcement(kube, "a").look()
    kube.lets_in = False
    kube.errors["admission-probe"] = ApiError(403, "violates PodSecurity")
    assert (
        "cannot be found out whether admission policies are enforced: violates" in await enforcement(kube, "a").look()
    )
