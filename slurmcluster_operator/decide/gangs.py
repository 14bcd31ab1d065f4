"""Jobs whose several nodes have to be started together in a pool to which an autoscaler adds machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slurmcluster_operator.api.pools import Pool
from slurmcluster_operator.decide.seats import Seats
from slurmcluster_operator.manifests import provisioning
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model.actions import RequestMachines
from slurmcluster_operator.model.hostlist import expand
from slurmcluster_operator.model.observed import Observed


@dataclass(frozen=True, slots=True)
class Gang:
    """The nodes of one job in one pool that are being started."""

    name: str
    """The name of the request for their machines."""
    pool: Pool
    nodes: tuple[str, ...]


def find_gangs(cluster: Cluster, observed: Observed, seats: Seats) -> tuple[Gang, ...]:
    """Return the gangs of this look; none where ProvisioningRequests are not installed."""
    jobs = observed.jobs
    pools = [pool for pool in cluster.spec.pools if pool.capacity == "Autoscaled"]
    if not observed.provisioning or not jobs or not pools:
        return ()
    starting = {pool.name: {seat.name for seat in seats[pool.name] if seat.asked_for} for pool in pools}
    found = []
    for job in jobs:
        if not job.configuring:
            continue
        for pool in pools:
            nodes = tuple(node for node in expand(job.nodes) if node in starting[pool.name])
            if len(nodes) > 1:
                found.append(Gang(f"{cluster.names.cluster}-job-{job.id}-{pool.name}", pool, nodes))
    return tuple(found)


def requests(cluster: Cluster, gangs: tuple[Gang, ...], created: frozenset[str]) -> Iterator[RequestMachines]:
    """Yield the requests for gangs of which pods are made in this look; a budget may delay the rest of them."""
    for gang in gangs:
        first = next((node for node in gang.nodes if node in created), None)
        if first is not None:
            manifests = provisioning.request(cluster, gang.pool, gang.name, len(gang.nodes))
            yield RequestMachines(gang.name, first, manifests)
