"""What is written about the ownership of Kubernetes nodes: onto the Node, and for the admission policies."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from slurmcluster_operator.model import names
from slurmcluster_operator.model.fleet import State

if TYPE_CHECKING:
    from slurmcluster_operator.manifests.cluster import Cluster, Json

INDEX_PREFIX: Final = "fleet-"
_LONGEST_BASE: Final = 58
"""Characters of a DaemonSet's name and dash that are kept in the names of its pods, before five random ones."""


def node_patch(raw: Mapping[str, Any], fleet: str, to: State, why: str, now: datetime) -> Json:
    """Return the merge patch that takes the claim on a Node a step further.

    It holds the Node's ``resourceVersion``: the API server refuses it if the Node has changed since it was read.
    """
    kept = [taint for taint in raw.get("spec", {}).get("taints", ()) if taint["key"] != names.OWNER]
    owner = fleet if to else None
    taints = [*kept, {"key": names.OWNER, "value": fleet, "effect": "NoSchedule"}] if to else kept
    marks: Json = {names.OWNER_STATE: to or None, names.OWNER_SINCE: now.isoformat(), names.OWNER_WHY: why}
    asked = raw["metadata"].get("annotations", {}).get(names.ASKED_BY, "")
    if to and asked.partition(" ")[0] == fleet:
        marks[names.ASKED_BY] = None
    return {
        "metadata": {
            "resourceVersion": raw["metadata"]["resourceVersion"],
            "labels": {names.OWNER: owner, names.SERVES: fleet if to == "Owned" else None},
            "annotations": marks,
        },
        "spec": {"taints": taints or None},
    }


def index(cluster: Cluster, nodes: Iterable[str], daemon_sets: Iterable[str]) -> Json:
    """Return the ConfigMap from which admission policies know the nodes that a cluster claims, owns or gives back."""
    pools = "|".join(sorted(pool.name for pool in cluster.pools))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{INDEX_PREFIX}{cluster.names.fleet}",
            "namespace": cluster.platform.operator_namespace,
            "labels": {names.FLEET_INDEX: "true", names.MANAGED_BY: names.MANAGER},
            "annotations": {
                f"{names.PREFIX}cluster": f"{cluster.names.namespace}/{cluster.names.cluster}",
                f"{names.PREFIX}slurmd-pods": f"^{cluster.names.cluster}-({pools})-[0-9]+$",
            },
        },
        "data": index_data(nodes, daemon_sets),
    }


def probe_index(name: str, namespace: str, node: str) -> Json:
    """Return an index of a made-up node, whose owner is nobody."""
    labels = {names.FLEET_INDEX: "true", names.MANAGED_BY: names.MANAGER}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": index_data([node], [])}


def probe_pod(name: str, namespace: str, node: str) -> Json:
    """Return a pod that names a node. It is never made: admission is only asked about it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": node, "containers": [{"name": "none", "image": "none"}]},
    }


def index_data(nodes: Iterable[str], daemon_sets: Iterable[str]) -> dict[str, str]:
    """Return what an index holds: names, each on a line of its own, for an expression to find between two line breaks.

    One text is dear to no expression. A key for each of 10,000 nodes costs every binding 25 ms.
    """
    return {"nodes": _lines(nodes), "daemonSets": _lines(map(_stem, daemon_sets))}


def index_patch(raw: Mapping[str, Any], held: Container[str]) -> Json | None:
    """Return the merge patch that leaves in an index the nodes that are still held; None where it has no others.

    It holds the index's ``resourceVersion``: the API server refuses it if the index has changed since it was read.
    """
    listed = raw["data"]["nodes"].split()
    kept = [node for node in listed if node in held]
    if kept == listed:
        return None
    return {"metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]}, "data": {"nodes": _lines(kept)}}


def _lines(words: Iterable[str]) -> str:
    return "".join(f"\n{word}" for word in sorted(words)) + "\n"


def _stem(daemon_set: str) -> str:
    """Return what the names of a DaemonSet's pods begin with (``namespace.name``), without their random end."""
    namespace, _, name = daemon_set.partition(".")
    return f"{namespace}.{f'{name}-'[:_LONGEST_BASE].removesuffix('-')}"


def eviction(namespace: str, name: str, uid: str) -> Json:
    """Return the request to evict exactly one pod, as its PodDisruptionBudgets allow."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
