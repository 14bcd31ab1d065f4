"""Kubernetes nodes under test: who has them, and what is said of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from hack.soak.eye import observing
from tests.e2e.support import Kubectl, SlurmCluster, eventually

Json = dict[str, Any]

OWNER = "slurmcluster.dev/owner"
STATE = "slurmcluster.dev/owner-state"
SERVES = "slurmcluster.dev/serves"
IMAGE = "docker.io/slurmcluster/login:26.05"


class Node:
    """A Kubernetes node under test."""

    def __init__(self, kubectl: Kubectl, name: str) -> None:
        self.kubectl, self.name = kubectl, name

    def raw(self) -> Json:
        found: Json = self.kubectl.json("get", "node", self.name)
        return found

    def owner(self) -> str:
        """Return its owner and how far the claim is; what only a part of the marks says is a defect."""
        raw = self.raw()
        label = raw["metadata"]["labels"].get(OWNER, "")
        taints = [one.get("value") for one in raw["spec"].get("taints", ()) if one["key"] == OWNER]
        assert taints == ([label] if label else []), raw["spec"]
        return f"{label} {raw['metadata']['annotations'].get(STATE, '')}".strip()

    def since_and_why(self) -> tuple[datetime, str]:
        """Return when and why it came to be whose it is."""
        marks = self.raw()["metadata"]["annotations"]
        return datetime.fromisoformat(marks[f"{OWNER}-since"]), marks[f"{OWNER}-why"]

    def is_free(self, within: float = 60) -> None:
        eventually(f"{self.name} is free", lambda: not self.owner() and not self.serves(), within=within)

    def serves(self) -> str:
        """Return the cluster whose slurmds may be placed there."""
        label: str = self.raw()["metadata"]["labels"].get(SERVES, "")
        return label

    def is_owned(self, by: str, state: str = "Owned", within: float = 60) -> None:
        eventually(f"{self.name} is {by}'s", lambda: self.owner() == f"{by} {state}", within=within)

    def events(self) -> list[str]:
        items = self.kubectl.json("get", "events", "--field-selector", f"involvedObject.name={self.name}")["items"]
        return [item.get("message", "") for item in items]


def own(cluster: SlurmCluster) -> str:
    """Return the cluster's name as grants and owners have it."""
    return f"{cluster.namespace}.{cluster.name}"


def fleet(cluster: SlurmCluster) -> Json:
    """Return the fleet's figures in the cluster's status."""
    found: Json = cluster.status()["fleet"]
    return found


@contextmanager
def no_double_claims(cluster: SlurmCluster, folder: Path) -> Iterator[None]:
    """Let the soak's observer watch meanwhile: it knows nothing of what the operator decides."""
    record = folder / "observed.jsonl"
    with observing(own(cluster), record, {"KUBECONFIG": cluster.kubectl.kubeconfig}) as eye:
        eventually("the observer sees", lambda: record.exists() and record.stat().st_size, within=30)
        yield
        findings = eye.close()
    assert not eye.is_blind, findings
    assert findings["sightings"] > 0
    assert findings["double_claims"] == []
