"""Volumes that the operator makes. Those kept on deletion carry no owner reference, so nothing collects them."""

from __future__ import annotations

from slurmcluster_operator.manifests.cluster import Cluster, Json
from slurmcluster_operator.manifests.objects import meta
from slurmcluster_operator.model import names


def claims(cluster: Cluster) -> list[Json]:
    """Return the claims of state, database and homes."""
    spec = cluster.spec
    storage = spec.controller.storage
    found = [
        _claim(
            cluster,
            cluster.names.state_claim,
            names.CONTROLLER,
            storage.size,
            storage.storage_class_name,
            storage.on_delete,
        )
    ]
    if cluster.accounting and spec.accounting.database.embedded_or_default:
        volume = spec.accounting.database.embedded_or_default.storage
        found.append(
            _claim(
                cluster,
                cluster.names.database_claim,
                names.DATABASE,
                volume.size,
                volume.storage_class_name,
                volume.on_delete,
            )
        )
    if spec.home.existing_claim is None:
        home = spec.home
        found.append(
            _claim(
                cluster,
                cluster.names.home_claim,
                names.HOME,
                home.size,
                home.storage_class_name,
                home.on_delete,
                mode="ReadWriteMany",
            )
        )
    return found


def _claim(
    cluster: Cluster,
    name: str,
    component: str,
    size: str,
    storage_class: str | None,
    on_delete: str,
    *,
    mode: str = "ReadWriteOnce",
) -> Json:
    spec: Json = {"accessModes": [mode], "resources": {"requests": {"storage": size}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta(cluster, name, component, owned=on_delete == "Delete"),
        "spec": spec,
    }
