"""Everything that one look saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from slurmcluster_operator.model import names
from slurmcluster_operator.model.fleet import Fleet
from slurmcluster_operator.model.hostlist import expand, sizes
from slurmcluster_operator.model.kube import Claim, Pod, Workload
from slurmcluster_operator.model.slurm import Job, Slurm, Unknown


class Pods(tuple[Pod, ...]):  # noqa: SLOT001 - what is worked out is kept
    """A cluster's pods. What follows from them alone is worked out once, not on each look."""

    @cached_property
    def by_part(self) -> Mapping[str, tuple[Pod, ...]]:
        """The pods of each part, by name."""
        found: dict[str, list[Pod]] = {}
        for pod in sorted(self, key=lambda one: one.name):
            found.setdefault(pod.component, []).append(pod)
        return {component: tuple(pods) for component, pods in found.items()}

    @cached_property
    def slurmds(self) -> Mapping[str, Pod]:
        """The slurmd pods, by the name that Slurm has for them."""
        return {pod.slurm_node: pod for pod in self.by_part.get(names.SLURMD, ())}

    @cached_property
    def machines(self) -> frozenset[str]:
        """The Kubernetes nodes on which slurmd pods are, or for which they were made."""
        return frozenset(filter(None, (pod.machine for pod in self.by_part.get(names.SLURMD, ()))))

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """For each pool, one more than the highest ordinal of its slurmd pods."""
        return sizes(self.slurmds)


@dataclass(frozen=True)
class Observed:
    """Everything that one look saw."""

    pods: Pods
    workloads: Mapping[str, Workload]
    claims: Mapping[str, Claim]
    fleet: Fleet
    slurm: Slurm | Unknown
    missing_secrets: tuple[str, ...] = ()
    """Secrets that the spec names and that are not there."""
    missing_storage_classes: tuple[str, ...] = ()
    claim_missing: str = ""
    """``spec.home.existingClaim`` when there is no such claim."""
    provisioning: bool = False
    """Whether ProvisioningRequests are installed."""
    login_address: str = ""
    """``host:port`` at which the login Service is reached."""

    @property
    def jobs(self) -> tuple[Job, ...] | None:
        """All jobs that are not over; None when slurmctld did not say."""
        return self.slurm.jobs if isinstance(self.slurm, Slurm) else None

    @cached_property
    def _working(self) -> frozenset[str] | None:
        """The nodes on which a job runs or is being cleaned up; None when slurmctld did not say."""
        if self.jobs is None:
            return None
        at_work = (job for job in self.jobs if not job.configuring and job.state & {"RUNNING", "COMPLETING"})
        return frozenset(node for job in at_work for node in expand(job.nodes))

    @cached_property
    def _fragile(self) -> frozenset[str]:
        """The nodes for which a job waits that would end if its node failed."""
        jobs = self.jobs or ()
        return frozenset(node for job in jobs if job.configuring and not job.requeues for node in expand(job.nodes))

    def fragile(self, node: str) -> bool:
        """Tell whether a job waits for a node that would end, and not start elsewhere, if the node were set DOWN."""
        return node in self._fragile

    def of(self, component: str) -> tuple[Pod, ...]:
        """Return the pods of a part, by name."""
        return self.pods.by_part.get(component, ())

    def runs_nothing(self, node: str) -> bool:
        """Tell whether slurmctld's list of jobs proves that nothing runs on a node."""
        return self._working is not None and node not in self._working
