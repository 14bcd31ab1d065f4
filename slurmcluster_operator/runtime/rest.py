"""A cluster's slurmrestd, for commands that only look."""

from __future__ import annotations

import base64

from slurmcluster_operator.kube.client import Kube
from slurmcluster_operator.model import names
from slurmcluster_operator.model.names import Names
from slurmcluster_operator.model.platform import Platform
from slurmcluster_operator.slurm.client import SlurmRest
from slurmcluster_operator.slurm.tokens import TokenSource


async def connect(kube: Kube, platform: Platform, cluster: Names) -> SlurmRest:
    """Return a client with the cluster's own key; close it. Raises ``ApiError`` when the key cannot be read."""
    secret = await kube.get("v1", "Secret", cluster.namespace, cluster.keys)
    host = f"{cluster.part(names.RESTAPI)}.{cluster.namespace}.svc.{platform.cluster_domain}"
    tokens = TokenSource(base64.b64decode(secret["data"]["jwt.key"]))
    return SlurmRest(f"http://{host}:{names.SLURMRESTD_PORT}", tokens, proxy=platform.rest_proxy)
