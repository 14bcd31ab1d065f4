"""Settings of the operator's installation, from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from slurmcluster_operator.model.fleet import Tolerance
from slurmcluster_operator.model.platform import Platform


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the chart sets."""

    platform: Platform
    tolerance: Tolerance = field(default_factory=Tolerance)
    admission: tuple[str, ...] = ()
    """The ValidatingAdmissionPolicyBindings that enforce ownership."""
    log_level: str = "INFO"
    health_port: int = 8080

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the settings. Raises ``ValueError`` naming the variable that is wrong."""
        defaults = Platform()
        platform = Platform(
            registry=environment.get("SLURMCLUSTER_REGISTRY", defaults.registry),
            cluster_domain=environment.get("SLURMCLUSTER_CLUSTER_DOMAIN", defaults.cluster_domain),
            operator_namespace=environment.get("SLURMCLUSTER_NAMESPACE", defaults.operator_namespace),
            rest_proxy=environment.get("SLURMCLUSTER_REST_PROXY", defaults.rest_proxy),
            wake_url=environment.get("SLURMCLUSTER_WAKE_URL", defaults.wake_url),
        )
        level = environment.get("SLURMCLUSTER_LOG_LEVEL", "INFO").upper()
        if level not in {"DEBUG", "INFO", "WARNING", "ERROR"}:
            raise ValueError(f"SLURMCLUSTER_LOG_LEVEL is {level}; it must be DEBUG, INFO, WARNING or ERROR")
        port = environment.get("SLURMCLUSTER_HEALTH_PORT", "8080")
        if not port.isdigit():
            raise ValueError(f"SLURMCLUSTER_HEALTH_PORT is {port}; it must be a port number")
        known = Tolerance()
        system = _words(environment, "SLURMCLUSTER_SYSTEM_NAMESPACES") or known.system_namespaces
        tolerance = Tolerance(
            frozenset({*system, platform.operator_namespace}),
            _words(environment, "SLURMCLUSTER_GPU_RESOURCES") or known.gpu_resources,
        )
        return cls(platform, tolerance, _words(environment, "SLURMCLUSTER_ADMISSION"), level, int(port))


def _words(environment: Mapping[str, str], variable: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in environment.get(variable, "").split(",") if word.strip())
