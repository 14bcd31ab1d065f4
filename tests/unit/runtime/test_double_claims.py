"""Double claims are told once, where people look: on the SlurmCluster and on the Node; whatever the spec says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from slurmcluster_operator.decide.ledger import DoubleClaim
from slurmcluster_operator.model.fleet import ForeignPod
from slurmcluster_operator.model.platform import Platform
from slurmcluster_operator.runtime.loop import ClusterLoop
from tests.builders import cluster, kube_node

SHOP = DoubleClaim("w0", "web/shop", "pod web/shop runs on node w0, which is team.demo's")
STRAY = DoubleClaim("w9", "lab/x-h100-0", "slurmd lab/x-h100-0 is on node w9, which is team.demo's")


class FakeKube:
    """Takes Events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.status: dict[str, Any] = {}
        self.writes = 0

    async def create(self, manifest: dict[str, Any]) -> None:
        self.events.append(manifest)

    async def get(self, *_: str) -> dict[str, Any]:
        return {}

    async def merge(self, *path_and_patch: Any, subresource: str) -> None:
        assert subresource == "status"
        self.status = path_and_patch[-1]["status"]
        self.writes += 1

    def told(self) -> list[tuple[str, str, str]]:
        """Return what was told since the last time: of which object, and what."""
        found = [(one["involvedObject"]["kind"], one["involvedObject"]["name"], one["message"]) for one in self.events]
        assert all((one["type"], one["reason"]) == ("Warning", "DoubleClaim") for one in self.events)
        self.events.clear()
        return found


def world(raw: dict[str, Any]) -> Any:
    """Return copies of one node of the cluster's, on which somebody's pod runs, and of the SlurmCluster."""

    class Copy(SimpleNamespace):
        def of(self, _: str) -> list[Any]:
            return list(self.items.values())

        def find(self, namespace: str, name: str) -> Any:
            return self.items.get((namespace, name))

    node, pod = kube_node("w0"), ForeignPod("web", "shop", "uid-of-shop", "w0")
    kinds = ("pods", "daemon_sets", "stateful_sets", "deployments", "claims", "services")
    return SimpleNamespace(
        **{kind: Copy(items={}) for kind in kinds},
        clusters=Copy(items={("team", "demo"): raw}),
        nodes=Copy(items={("", "w0"): node}),
        foreign=Copy(items={("web", "shop"): pod}),
        node=lambda _: node,
        enforcement=SimpleNamespace(on=True, because=""),
        version=(0, True, ""),
    )


async def test_each_double_claim_is_told_once_of_the_cluster_and_of_the_node() -> None:
    kube = FakeKube()
    nodes = {"w0": kube_node("w0", uid="uid-of-w0")}
    loop = ClusterLoop(kube, SimpleNamespace(node=nodes.get), Platform(), "team", "demo")  # type: ignore[arg-type]
    tell = loop._tell_double_claims

    await tell(cluster(), (SHOP,))
    assert [one["involvedObject"]["uid"] for one in kube.events] == [cluster().uid, "uid-of-w0"]
    assert kube.told() == [("SlurmCluster", "demo", SHOP.words), ("Node", "w0", SHOP.words)]
    assert loop.double_claims == {SHOP}

    await tell(cluster(), (SHOP, STRAY))
    assert kube.told() == [("SlurmCluster", "demo", STRAY.words), ("Node", "w9", STRAY.words)]

    await tell(cluster(), (STRAY,))
    assert kube.told() == []
    assert loop.double_claims == {STRAY}

    await tell(cluster(), (SHOP, STRAY))
    assert len(kube.told()) == 2, "it was over, and has come again"


async def test_the_fleet_is_verified_while_the_spec_cannot_be_read() -> None:
    kube = FakeKube()
    raw = {"metadata": {"name": "demo", "namespace": "team", "uid": cluster().uid, "generation": 3}, "spec": {}}
    loop = ClusterLoop(kube, world(raw), Platform(), "team", "demo")  # type: ignore[arg-type]
    await loop._tick()
    found = {one["type"]: (one["status"], one["reason"]) for one in kube.status["conditions"]}
    assert found == {
        "Ready": ("False", "Invalid"), "SpecValid": ("False", "Invalid"), "FleetConsistent": ("False", "DoubleClaim"),
    }  # fmt: skip
    assert (kube.status["fleet"]["doubleClaims"], kube.status["fleet"]["owned"]) == (1, 1)
    about = [(one["involvedObject"]["kind"], one["reason"]) for one in kube.events]
    assert about[:2] == [("SlurmCluster", "DoubleClaim"), ("Node", "DoubleClaim")]
    assert loop.double_claims == {SHOP}

    written, told = kube.writes, len(kube.events)
    await loop._tick()
    assert (kube.writes, len(kube.events)) == (written, told), "nothing has changed"
