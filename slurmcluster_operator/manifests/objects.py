"""Small builders that every part shares."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from slurmcluster_operator.api.parts import Placement
from slurmcluster_operator.manifests.cluster import Cluster, Json

UNPRIVILEGED: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


def meta(cluster: Cluster, name: str, component: str, *, owned: bool = True) -> Json:
    """Return the metadata of an object; one that is not ``owned`` outlives the SlurmCluster."""
    metadata: Json = {"name": name, "namespace": cluster.names.namespace, "labels": cluster.names.labels(component)}
    if owned:
        metadata["ownerReferences"] = [cluster.owner()]
    return metadata


def config_map(cluster: Cluster, name: str, component: str, data: Mapping[str, str]) -> Json:
    """Return a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(cluster, name, component), "data": dict(data)}


def service(cluster: Cluster, component: str, ports: Mapping[str, int], **spec: Any) -> Json:
    """Return the Service in front of a part's pods."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta(cluster, cluster.names.part(component), component),
        "spec": {
            "selector": cluster.names.selector(component),
            "ports": [
                {"name": name, "port": port, "targetPort": port, "protocol": "TCP"} for name, port in ports.items()
            ],
            **spec,
        },
    }


def stateful_set(
    cluster: Cluster, component: str, pod: Json, *, replicas: int = 1, update: str = "RollingUpdate"
) -> Json:
    """Return a StatefulSet. ``OnDelete`` is for parts whose restart people must notice and choose."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": meta(cluster, cluster.names.part(component), component),
        "spec": {
            "replicas": replicas,
            "serviceName": cluster.names.part(component),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": update},
            "selector": {"matchLabels": cluster.names.selector(component)},
            "template": pod,
        },
    }


def deployment(cluster: Cluster, component: str, pod: Json, *, replicas: int = 1) -> Json:
    """Return a Deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta(cluster, cluster.names.part(component), component),
        "spec": {"replicas": replicas, "selector": {"matchLabels": cluster.names.selector(component)}, "template": pod},
    }


def pod_template(cluster: Cluster, component: str, spec: Json, annotations: Mapping[str, str] | None = None) -> Json:
    """Return a pod template with what all our pods have in common."""
    metadata: Json = {"labels": cluster.names.labels(component)}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"metadata": metadata, "spec": pod_spec(cluster, spec)}


def pod_spec(cluster: Cluster, spec: Json) -> Json:
    """Complete a pod spec: no API token, no service links, the pull secrets, names of slurmd pods resolvable."""
    domain = f"{cluster.names.part('slurmd')}.{cluster.names.namespace}.svc.{cluster.platform.cluster_domain}"
    common: Json = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "dnsConfig": {"searches": [domain]},
    }
    if cluster.spec.images.pull_secrets:
        common["imagePullSecrets"] = [{"name": name} for name in cluster.spec.images.pull_secrets]
    return common | spec


def placement(part: Placement) -> Json:
    """Return the pod fields that a part's placement sets."""
    fields: Json = {}
    if part.node_selector:
        fields["nodeSelector"] = dict(part.node_selector)
    if part.tolerations:
        fields["tolerations"] = [dict(toleration) for toleration in part.tolerations]
    return fields


def container(cluster: Cluster, name: str, image: str, **fields: Any) -> Json:
    """Return a container, its empty fields left out."""
    kept = {key: value for key, value in fields.items() if value not in (None, {}, [])}
    return {"name": name, "image": image, "imagePullPolicy": cluster.spec.images.pull_policy, **kept}


def unprivileged_pod(uid: int) -> Json:
    """Return the pod security context of a part that runs as ``uid`` with no rights."""
    return {
        "runAsNonRoot": True,
        "runAsUser": uid,
        "runAsGroup": uid,
        "fsGroup": uid,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def tcp_probe(port: int, *, period: int = 1, failures: int = 3) -> Json:
    """Return a probe that connects."""
    return {"tcpSocket": {"port": port}, "periodSeconds": period, "failureThreshold": failures}


def config_volume(name: str, config: str) -> Json:
    """Return a volume from a ConfigMap."""
    return {"name": name, "configMap": {"name": config}}


def secret_volume(name: str, secret: str, *, mode: int = 0o400, optional: bool = False) -> Json:
    """Return a volume from a Secret."""
    source: Json = {"secretName": secret, "defaultMode": mode}
    if optional:
        source["optional"] = True
    return {"name": name, "secret": source}


def scratch(name: str, *, medium: str = "") -> Json:
    """Return an empty volume that lives as long as the pod."""
    return {"name": name, "emptyDir": {"medium": medium} if medium else {}}


def mount(name: str, path: str, *, read_only: bool = False) -> Json:
    """Return a volume mount."""
    return {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}


def digest(value: Any) -> str:
    """Return a short hash of any JSON value, the same for the same content."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]
