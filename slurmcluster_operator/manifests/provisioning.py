"""Asking the Cluster Autoscaler for all machines of a job at once, where ProvisioningRequests are installed."""

from __future__ import annotations

from typing import Final

from slurmcluster_operator.api.pools import Pool
from slurmcluster_operator.manifests import objects, slurmd
from slurmcluster_operator.manifests.cluster import Cluster, Json
from slurmcluster_operator.model import names

API: Final = "autoscaling.x-k8s.io/v1"


def request(cluster: Cluster, pool: Pool, name: str, count: int) -> tuple[Json, Json]:
    """Return the PodTemplate and the ProvisioningRequest for ``count`` pods of a pool."""
    labels = cluster.names.labels(names.SLURMD) | {names.POOL_LABEL: pool.name}
    metadata = objects.meta(cluster, name, names.SLURMD, owned=False)
    template = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": metadata,
        "template": {"metadata": {"labels": labels}, "spec": slurmd.pod_spec(cluster, pool, pool.name)},
    }
    wanted = {
        "apiVersion": API,
        "kind": "ProvisioningRequest",
        "metadata": metadata,
        "spec": {
            "provisioningClassName": slurmd.PROVISIONING_CLASS,
            "podSets": [{"count": count, "podTemplateRef": {"name": name}}],
        },
    }
    return template, wanted
