"""What is written about the ownership of Kubernetes nodes: onto the Node, and for the admission policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from slurmcluster_operator.manifests.cluster import Cluster, Json
from slurmcluster_operator.model import names
from slurmcluster_operator.model.fleet import State

INDEX_PREFIX: Final = "fleet-"
_DAEMON: Final = "_daemonset."
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
        "data": {**dict.fromkeys(sorted(nodes), ""), **{_daemon_key(one): "" for one in sorted(daemon_sets)}},
    }


def _daemon_key(daemon_set: str) -> str:
    """Return the key of a DaemonSet (``namespace.name``): that of its pods' names without their random end."""
    namespace, _, name = daemon_set.partition(".")
    return f"{_DAEMON}{namespace}.{f'{name}-'[:_LONGEST_BASE].removesuffix('-')}"


def eviction(namespace: str, name: str, uid: str) -> Json:
    """Return the request to evict exactly one pod, as its PodDisruptionBudgets allow."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
