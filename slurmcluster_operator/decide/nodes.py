"""Which slurmd pods to make, keep or take away, and what to tell slurmctld about their nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from slurmcluster_operator.api.pools import Pool
from slurmcluster_operator.api.values import split_node_name
from slurmcluster_operator.manifests import slurmd
from slurmcluster_operator.manifests.build import content_hash
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import Action, CreatePod, DeletePod, Drain, Undrain
from slurmcluster_operator.model.kube import Pod
from slurmcluster_operator.model.observed import Observed
from slurmcluster_operator.model.slurm import Slurm, SlurmNode

REGISTRATION: Final = timedelta(seconds=20)
"""How long a slurmd that runs may take to register before its node's being powered down means anything.

A node of the pool's minimum begins as powered down and becomes usable when its slurmd registers."""

LEAVING: Final = f"{names.DRAIN_PREFIX} its pod is being removed"
SHRINKING: Final = f"{names.DRAIN_PREFIX} beyond the size of its pool"


@dataclass(frozen=True, slots=True)
class Seat:
    """One place of a pool: its name, and what was seen of it."""

    name: str
    pool: Pool
    ordinal: int
    pod: Pod | None
    slurm: SlurmNode | None
    """None when slurmrestd gave no answer, or does not know the node."""

    @property
    def beyond(self) -> bool:
        """Whether the pool no longer has this seat."""
        return self.ordinal >= self.pool.nodes.max

    @property
    def wanted(self) -> bool:
        """Whether a pod should be there: always up to min; beyond it while slurmctld powers the node up.

        A pod of the minimum is made whether or not slurmrestd answers: new capacity needs no blessing.
        """
        if self.ordinal < self.pool.nodes.min:
            return True
        return not self.beyond and self.slurm is not None and self.slurm.has("POWERING_UP")

    @property
    def leaving(self) -> str:
        """Why no further job should start here, as a drain reason; empty if jobs are welcome."""
        if self.beyond:
            return SHRINKING
        return LEAVING if self.pod is not None and self.pod.deleting else ""


def pool_sizes(observed: Observed) -> dict[str, int]:
    """Return, for each pool, the number of node names that its existing pods need in slurm.conf."""
    sizes: dict[str, int] = {}
    for pod in observed.of(names.SLURMD):
        split = split_node_name(pod.slurm_node)
        if split:
            sizes[split[0]] = max(sizes.get(split[0], 0), split[1] + 1)
    return sizes


def orphaned_pools(cluster: Cluster, observed: Observed) -> list[str]:
    """Return the pools that the spec no longer has while their pods are still there.

    A slurm.conf without their nodes would lose the jobs that run on them.
    """
    known = {pool.name for pool in cluster.spec.pools}
    return sorted({pod.pool for pod in observed.of(names.SLURMD)} - known)


def seats(cluster: Cluster, observed: Observed, pool: Pool) -> tuple[Seat, ...]:
    """Return the seats of a pool that are taken or should be."""
    pods = {pod.slurm_node: pod for pod in observed.of(names.SLURMD)}
    known: Mapping[str, SlurmNode] = observed.slurm.nodes if isinstance(observed.slurm, Slurm) else {}
    every = [
        Seat(
            f"{pool.name}-{ordinal}",
            pool,
            ordinal,
            pods.get(f"{pool.name}-{ordinal}"),
            known.get(f"{pool.name}-{ordinal}"),
        )
        for ordinal in range(cluster.size(pool))
    ]
    return tuple(seat for seat in every if seat.wanted or seat.pod is not None)


def plan_nodes(cluster: Cluster, observed: Observed, now: datetime) -> tuple[Action, ...]:
    """Return what brings the pools closer to their size. Never deletes a pod without fresh proof of idleness."""
    taken = [seat for pool in cluster.spec.pools for seat in seats(cluster, observed, pool)]
    drain: dict[str, list[str]] = {}
    for seat in taken:
        reason = seat.leaving
        if reason and seat.slurm and not seat.slurm.has("DRAIN") and not seat.slurm.off:
            drain.setdefault(reason, []).append(seat.name)
    lift = tuple(seat.name for seat in taken if _ours_to_lift(seat))
    empty = [seat for seat in taken if seat.pod is None]
    # One rendering serves all: it is the same for every pod of the cluster.
    content = content_hash(cluster) if empty else ""
    return (
        *(Drain(tuple(nodes), reason) for reason, nodes in drain.items()),
        *((Undrain(lift),) if lift else ()),
        *(CreatePod(seat.name, slurmd.pod(cluster, seat.pool, seat.name, content)) for seat in empty),
        *(action for seat in taken for action in _clear(cluster, seat, now)),
    )


def replace_broken(observed: Observed) -> Iterator[DeletePod]:
    """Replace pods of StatefulSets that never worked and are out of date.

    A StatefulSet does not go on from a pod that never became ready, not even to the template that would mend it.
    """
    for pod in observed.pods:
        workload = observed.workloads.get(pod.component)
        if workload is None or pod.deleting or pod.ready or not workload.revision or not pod.revision:
            continue
        if pod.revision != workload.revision and not pod.ever_started:
            yield DeletePod(pod.name, pod.uid, "it never started, and its template has changed since")


def _ours_to_lift(seat: Seat) -> bool:
    """Lift only drains that we set, and only once a fresh pod serves the node."""
    return (
        not seat.leaving
        and seat.slurm is not None
        and seat.slurm.has("DRAIN")
        and seat.slurm.reason.startswith(names.DRAIN_PREFIX)
        and seat.pod is not None
        and seat.pod.ready
    )


def _clear(cluster: Cluster, seat: Seat, now: datetime) -> Iterator[DeletePod]:
    """Delete the seat's pod where that is called for and proven to be safe."""
    pod = seat.pod
    if pod is None or pod.deleting:
        return
    if pod.phase in {"Failed", "Succeeded"}:
        yield DeletePod(pod.name, pod.uid, f"it has ended ({pod.phase})")
    elif not pod.ever_started and (not seat.wanted or _outdated(cluster, seat.pool, pod)):
        yield DeletePod(pod.name, pod.uid, "it never started, and it is no longer wanted as it is")
    elif seat.slurm is None or seat.slurm.busy:
        return
    elif seat.slurm.off and _settled(seat, pod, now):
        yield DeletePod(pod.name, pod.uid, "slurmctld has powered its node down")
    elif seat.beyond and seat.slurm.has("DRAIN"):
        yield DeletePod(pod.name, pod.uid, "its node is drained, idle and beyond the size of its pool")


def _outdated(cluster: Cluster, pool: Pool, pod: Pod) -> bool:
    return pod.annotations.get(names.TEMPLATE_ANNOTATION) != slurmd.template_hash(cluster, pool)


def _settled(seat: Seat, pod: Pod, now: datetime) -> bool:
    """Whether "powered down" is slurmctld's decision, not the state in which the node begins."""
    if seat.ordinal >= seat.pool.nodes.min:
        return True
    return pod.ready and pod.ready_since is not None and now - pod.ready_since > REGISTRATION
