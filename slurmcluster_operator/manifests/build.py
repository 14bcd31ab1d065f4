"""Everything that one cluster consists of, in an order in which it can be applied."""

from __future__ import annotations

from slurmcluster_operator.manifests import (
    accounting,
    config,
    controller,
    login,
    network,
    restapi,
    slurmd,
    storage,
    users,
)
from slurmcluster_operator.manifests.cluster import Cluster, Json
from slurmcluster_operator.manifests.objects import digest


def standing_objects(cluster: Cluster) -> list[Json]:
    """Return all objects that the operator keeps applied: not the Secrets (made once), not slurmd pods (planned)."""
    return [
        *storage.claims(cluster),
        *config.configs(cluster),
        *users.objects(cluster),
        *accounting.workloads(cluster),
        *controller.workloads(cluster),
        *restapi.workloads(cluster),
        *login.workloads(cluster),
        *slurmd.services(cluster),
        *network.policies(cluster),
    ]


def content_hash(cluster: Cluster) -> str:
    """Return a hash of all that pods mount and that may change while they run."""
    mounted = [*config.configs(cluster), *users.objects(cluster)]
    return digest({item["metadata"]["name"]: item["data"] for item in mounted})
