"""Which slurmd pods to make, keep or take away, and what to tell slurmctld about their nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from slurmcluster_operator.api.pools import Pool
from slurmcluster_operator.api.values import split_node_name
from slurmcluster_operator.manifests import slurmd
from slurmcluster_operator.manifests.build import content_hash
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import Action, CreatePod, DeletePod, Drain, PowerUp, Undrain
from slurmcluster_operator.model.observed import Observed, Pod, Slurm, SlurmNode

PATIENCE: Final = timedelta(seconds=15)
"""How long a lost pod waits for slurmrestd to answer before it is replaced all the same.

New capacity needs no blessing: slurmd registers with slurmctld directly. But a node that is started before slurmctld
was told so has to be started twice, so a cluster that is just coming up waits for its REST API."""

LEAVING: Final = f"{names.DRAIN_PREFIX} its pod is being removed"
SHRINKING: Final = f"{names.DRAIN_PREFIX} beyond the size of its pool"


@dataclass(frozen=True, slots=True)
class Seat:
    """One place of a pool: its name, and what was seen of it."""

    name: str
    pool: Pool
    pod: Pod | None
    slurm: SlurmNode | None
    """None when slurmrestd gave no answer, or does not know the node."""


def pool_sizes(observed: Observed) -> dict[str, int]:
    """Return, for each pool, the number of node names that its existing pods need in slurm.conf."""
    sizes: dict[str, int] = {}
    for pod in observed.of(names.SLURMD):
        split = split_node_name(pod.slurm_node)
        if split:
            sizes[split[0]] = max(sizes.get(split[0], 0), split[1] + 1)
    return sizes


def seats(cluster: Cluster, observed: Observed, pool: Pool) -> tuple[Seat, ...]:
    """Return the seats of a pool: those that should be taken, and those beyond that still are."""
    pods = {pod.slurm_node: pod for pod in observed.of(names.SLURMD)}
    known: Mapping[str, SlurmNode] = observed.slurm.nodes if isinstance(observed.slurm, Slurm) else {}
    every = (f"{pool.name}-{ordinal}" for ordinal in range(cluster.size(pool)))
    wanted = {f"{pool.name}-{ordinal}" for ordinal in range(pool.nodes.min)}
    return tuple(Seat(name, pool, pods.get(name), known.get(name)) for name in every if name in wanted or name in pods)


def plan_nodes(cluster: Cluster, observed: Observed, now: datetime) -> tuple[Action, ...]:
    """Return what brings the pools closer to their size. Never deletes a pod without fresh proof of idleness."""
    power_up: list[str] = []
    drain: dict[str, list[str]] = {}
    undrain: list[str] = []
    actions: list[Action] = []
    for pool in cluster.spec.pools:
        wanted = {f"{pool.name}-{ordinal}" for ordinal in range(pool.nodes.min)}
        for seat in seats(cluster, observed, pool):
            if seat.pod is None:
                _fill(cluster, observed, seat, now, power_up, actions)
                continue
            reason = _drain_reason(seat, keep=seat.name in wanted)
            if reason and seat.slurm and not seat.slurm.has("DRAIN") and not seat.slurm.off:
                drain.setdefault(reason, []).append(seat.name)
            if _ours_to_lift(seat, reason):
                undrain.append(seat.name)
            actions.extend(_clear(cluster, seat, keep=seat.name in wanted))
    tell: list[Action] = []
    if power_up:
        tell.append(PowerUp(tuple(power_up)))
    tell.extend(Drain(tuple(nodes), reason) for reason, nodes in drain.items())
    if undrain:
        tell.append(Undrain(tuple(undrain)))
    return (*tell, *actions)


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


def _fill(
    cluster: Cluster, observed: Observed, seat: Seat, now: datetime, power_up: list[str], actions: list[Action]
) -> None:
    """Take an empty seat: slurmctld is told first, because it ignores a slurmd that is older than its power-up."""
    if isinstance(observed.slurm, Slurm):
        if seat.slurm is None:
            return  # slurmctld has not read the slurm.conf that names it yet
        if seat.slurm.off:
            power_up.append(seat.name)
            return
    elif now - observed.slurm.since < PATIENCE:
        return
    actions.append(CreatePod(seat.name, slurmd.pod(cluster, seat.pool, seat.name, content_hash(cluster))))


def _drain_reason(seat: Seat, *, keep: bool) -> str:
    if not keep:
        return SHRINKING
    return LEAVING if seat.pod is not None and seat.pod.deleting else ""


def _ours_to_lift(seat: Seat, reason: str) -> bool:
    """Lift only drains that we set, and only once a fresh pod serves the node."""
    return (
        not reason
        and seat.slurm is not None
        and seat.slurm.has("DRAIN")
        and seat.slurm.reason.startswith(names.DRAIN_PREFIX)
        and seat.pod is not None
        and seat.pod.ready
    )


def _clear(cluster: Cluster, seat: Seat, *, keep: bool) -> Iterable[Action]:
    """Delete the seat's pod where that is called for and proven to be safe."""
    pod = seat.pod
    if pod is None or pod.deleting:
        return
    if pod.phase in {"Failed", "Succeeded"}:
        yield DeletePod(pod.name, pod.uid, f"it has ended ({pod.phase})")
    elif not pod.ever_started and (
        not keep or pod.annotations.get(names.TEMPLATE_ANNOTATION) != _template(cluster, seat)
    ):
        yield DeletePod(pod.name, pod.uid, "it never started, and it is no longer wanted as it is")
    elif seat.slurm is None:
        return
    elif seat.slurm.off and not seat.slurm.busy and pod.ready:
        yield DeletePod(pod.name, pod.uid, "slurmctld has powered its node down")
    elif not keep and seat.slurm.has("DRAIN") and not seat.slurm.busy:
        yield DeletePod(pod.name, pod.uid, "its node is drained, idle and beyond the size of its pool")


def _template(cluster: Cluster, seat: Seat) -> str:
    return slurmd.template_hash(cluster, seat.pool)
