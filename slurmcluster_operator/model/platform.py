"""The operator's own installation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Platform:
    """What the operator's own installation settles for all clusters."""

    registry: str = "docker.io/slurmcluster"
    cluster_domain: str = "cluster.local"
    operator_namespace: str = "slurmcluster-system"
    rest_proxy: str = ""
    """An HTTP proxy between the operator and every slurmrestd."""
    wake_url: str = ""
    """Where slurmctld tells the operator that it wants nodes; without it the operator finds out by asking."""
