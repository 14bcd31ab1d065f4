"""Everything that one look saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurmcluster_operator.model.kube import Claim, KubeNode, Pod, Workload
from slurmcluster_operator.model.slurm import Slurm, Unknown


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that one tick looked at."""

    pods: tuple[Pod, ...]
    workloads: Mapping[str, Workload]
    claims: Mapping[str, Claim]
    kube_nodes: tuple[KubeNode, ...]
    slurm: Slurm | Unknown
    missing_secrets: tuple[str, ...] = ()
    """Secrets that the spec names and that are not there."""
    missing_storage_classes: tuple[str, ...] = ()
    claim_missing: str = ""
    """``spec.home.existingClaim`` when there is no such claim."""
    login_address: str = ""
    """``host:port`` at which the login Service is reached."""

    def of(self, component: str) -> tuple[Pod, ...]:
        """Return the pods of a part, by name."""
        return tuple(sorted((pod for pod in self.pods if pod.component == component), key=lambda pod: pod.name))
