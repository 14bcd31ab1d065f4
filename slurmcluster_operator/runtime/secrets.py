"""Secrets that are made once and then only read."""

from __future__ import annotations

import base64
import secrets as random
from collections.abc import Callable, Mapping
from typing import Final

from slurmcluster_operator.kube.client import ConflictError, Json, Kube, NotFoundError
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.manifests.objects import meta
from slurmcluster_operator.model import names

_KEY_BYTES: Final = 1024
"""Length of slurm.key; slurm.conf(5) asks for at least 32 bytes."""


async def ensure(kube: Kube, cluster: Cluster) -> bytes:
    """Make the cluster's Secrets where they are missing, and return the key that signs tokens."""
    makers: dict[str, tuple[str, Callable[[], Mapping[str, bytes]]]] = {
        cluster.names.keys: (names.CONTROLLER, slurm_keys),
        cluster.names.host_keys: (names.LOGIN, ssh_host_keys),
    }
    if cluster.accounting and cluster.spec.accounting.database.embedded_or_default:
        makers[cluster.names.database_credentials] = (names.DATABASE, database_credentials)
    found = {name: await _ensure(kube, cluster, name, component, make) for name, (component, make) in makers.items()}
    return base64.b64decode(found[cluster.names.keys]["data"]["jwt.key"])


def slurm_keys() -> Mapping[str, bytes]:
    """Return the keys of auth/slurm and auth/jwt."""
    return {"slurm.key": random.token_bytes(_KEY_BYTES), "jwt.key": random.token_bytes(64)}


def database_credentials() -> Mapping[str, bytes]:
    """Return the embedded database's user and a password."""
    return {"username": b"slurm", "password": random.token_urlsafe(32).encode()}


def ssh_host_keys() -> Mapping[str, bytes]:
    """Return host keys of the three kinds that OpenSSH serves by default, private and public."""
    # Needed once in a cluster's life, and 6 MiB.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # noqa: PLC0415

    keys: dict[str, ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey] = {
        "ed25519": ed25519.Ed25519PrivateKey.generate(),
        "ecdsa": ec.generate_private_key(ec.SECP256R1()),
        "rsa": rsa.generate_private_key(public_exponent=65537, key_size=3072),
    }
    result: dict[str, bytes] = {}
    for kind, key in keys.items():
        result[f"ssh_host_{kind}_key"] = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        result[f"ssh_host_{kind}_key.pub"] = key.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
    return result


async def _ensure(
    kube: Kube, cluster: Cluster, name: str, component: str, make: Callable[[], Mapping[str, bytes]]
) -> Json:
    try:
        return await kube.get("v1", "Secret", cluster.names.namespace, name)
    except NotFoundError:
        pass
    data = {key: base64.b64encode(value).decode() for key, value in make().items()}
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta(cluster, name, component),
        "type": "Opaque",
        "data": data,
    }
    try:
        return await kube.create(manifest)
    except ConflictError:
        return await kube.get("v1", "Secret", cluster.names.namespace, name)
