"""Double claims are told once, where people look: on the SlurmCluster and on the Node."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from slurmcluster_operator.decide.ledger import DoubleClaim
from slurmcluster_operator.manifests.cluster import Platform
from slurmcluster_operator.runtime.loop import ClusterLoop
from tests.builders import cluster, kube_node

SHOP = DoubleClaim("w0", "web/shop", "pod web/shop runs on node w0, which is team.demo's")
STRAY = DoubleClaim("w9", "lab/x-h100-0", "slurmd lab/x-h100-0 is on node w9, which is team.demo's")


class FakeKube:
    """Takes Events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    async def create(self, manifest: dict[str, Any]) -> None:
        self.events.append(manifest)

    def told(self) -> list[tuple[str, str, str]]:
        """Return what was told since the last time: of which object, and what."""
        found = [(one["involvedObject"]["kind"], one["involvedObject"]["name"], one["message"]) for one in self.events]
        assert all((one["type"], one["reason"]) == ("Warning", "DoubleClaim") for one in self.events)
        self.events.clear()
        return found


async def test_each_double_claim_is_told_once_of_the_cluster_and_of_the_node() -> None:
    kube = FakeKube()
    nodes = {"w0": kube_node("w0", uid="uid-of-w0")}
    world = SimpleNamespace(node=nodes.get)
    loop = ClusterLoop(kube, world, Platform(), "team", "demo")  # type: ignore[arg-type]
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
