"""Who may talk to the database, slurmdbd and slurmrestd."""

from __future__ import annotations

from typing import Any

from slurmcluster_operator.manifests.cluster import Cluster, Json
from slurmcluster_operator.manifests.objects import meta
from slurmcluster_operator.model import names


def policies(cluster: Cluster) -> list[Json]:
    """Return the NetworkPolicies. Where the network does not enforce them, tokens and passwords still do."""
    own: Json = {
        "podSelector": {"matchLabels": {names.INSTANCE: cluster.names.cluster, names.MANAGED_BY: names.MANAGER}}
    }
    operator: Json = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.platform.operator_namespace}},
        "podSelector": {"matchLabels": {names.COMPONENT: "operator"}},
    }
    result = [_policy(cluster, names.RESTAPI, names.SLURMRESTD_PORT, [own, operator])]
    if cluster.accounting:
        result.append(_policy(cluster, names.ACCOUNTING, names.SLURMDBD_PORT, [own]))
        if cluster.spec.accounting.database.embedded_or_default:
            slurmdbd = {"podSelector": {"matchLabels": cluster.names.selector(names.ACCOUNTING)}}
            result.append(_policy(cluster, names.DATABASE, names.DATABASE_PORT, [slurmdbd]))
    return result


def _policy(cluster: Cluster, component: str, port: int, peers: list[dict[str, Any]]) -> Json:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": meta(cluster, cluster.names.part(component), component),
        "spec": {
            "podSelector": {"matchLabels": cluster.names.selector(component)},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": peers, "ports": [{"protocol": "TCP", "port": port}]}],
        },
    }
