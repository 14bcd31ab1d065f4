"""Seats: the places of a pool, each with what Kubernetes and Slurm say of it. Everything else decides on these."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from slurmcluster_operator.api.pools import Pool
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model import names
from slurmcluster_operator.model.hostlist import expand, sizes
from slurmcluster_operator.model.kube import Pod
from slurmcluster_operator.model.observed import Observed
from slurmcluster_operator.model.slurm import NOTHING_KNOWN, Slurm, SlurmNode

FAILED: Final = f"{names.DRAIN_PREFIX} could not be started"
"""Begins the reason of a node that we set DOWN, so that its job goes elsewhere."""


class Seat(msgspec.Struct, frozen=True, gc=False):
    """One place of a pool: its name, what was seen of it, and what follows from that."""

    name: str
    pool: Pool
    ordinal: int
    pod: Pod | None
    slurm: SlurmNode | None
    """None when slurmrestd gave no answer, or does not know the node."""
    beyond: bool
    """Whether the pool no longer has this seat."""
    permanent: bool
    """Whether it belongs to the pool's minimum, which is always up."""
    asked_for: bool
    """Whether slurmctld powers it up: for a job, for headroom, or because a person said so."""
    wanted: bool
    """Whether a pod should be there."""
    up: bool
    """Whether Slurm can use it now."""
    settled: bool
    """Whether there is nothing to do about it: it serves and belongs there. In a large cluster most seats do."""
    leaves: str = ""
    """Why its pod must go from its machine once nothing runs there: the reason of its drain."""

    @property
    def taken(self) -> bool:
        """Whether it counts: a pod is there or should be."""
        return self.pod is not None or self.wanted

    @property
    def starting(self) -> bool:
        """Whether it is on its way up: it counts against the start budgets."""
        return self.pod is not None and not self.pod.deleting and (not self.pod.ready or self.asked_for)

    @property
    def refused(self) -> bool:
        """Whether slurmctld has refused its slurmd, because it reports less than the machine's description says."""
        node = self.slurm
        return not self.permanent and node is not None and node.has("INVALID_REG") and not node.has("DOWN")

    @property
    def comes_free(self) -> bool:
        """Whether it is on its way up for nobody yet: as headroom, or because a person said so."""
        node = self.slurm
        return node is not None and not node.busy and (self.asked_for or node.has("POWER_UP"))

    @property
    def given_up(self) -> bool:
        """Whether its start has been given up, and it waits to be tried again."""
        return self.slurm is not None and self.slurm.has("DOWN") and self.slurm.reason.startswith(FAILED)

    @property
    def due(self) -> bool:
        """Whether a pod should be made for it now. One of the minimum that was given up is wanted, but not yet due."""
        return self.wanted and self.pod is None and not self.given_up


def make_seat(name: str, pool: Pool, ordinal: int, pod: Pod | None, node: SlurmNode | None, leaves: str = "") -> Seat:
    """Return a seat with its conclusions.

    A pod of the minimum is made whether or not slurmrestd answers: new capacity needs no blessing. A start that had
    begun when its pool was made smaller comes to its end, and no other is begun. A pod that is gone under a job comes
    back: slurmctld learns from the new slurmd at once what became of the job.
    """
    facts = NOTHING_KNOWN if node is None else node.facts
    size = pool.nodes
    beyond = ordinal >= size.max
    permanent = ordinal < size.min
    asked_for = facts.starting and (not beyond or pod is not None)
    at_work = facts.busy and not facts.off and not beyond
    wanted = permanent or asked_for or at_work
    up = pod is not None and pod.ready and not pod.deleting and facts.usable
    settled = up and not leaves and not beyond and not asked_for and pod is not None and pod.phase == "Running"
    # By position: ten thousand are made in each look.
    return Seat(name, pool, ordinal, pod, node, beyond, permanent, asked_for, wanted, up, settled, leaves)


Seats = Mapping[str, tuple[Seat, ...]]
"""Every seat of every pool, by the pool's name, in order."""


def unsettled(seats: Seats) -> Iterator[Seat]:
    """Yield the seats that need a look."""
    return (seat for places in seats.values() for seat in places if not seat.settled)


def complete(places: Sequence[Seat]) -> bool:
    """Tell whether slurmctld's answer names every seat: a part of a list must not be taken for the whole."""
    return all(seat.slurm is not None for seat in places)


def find_seats(cluster: Cluster, observed: Observed, leaves: Mapping[str, str]) -> Seats:
    """Return every seat of every pool: those in slurm.conf, taken or not. ``leaves`` names those that must go."""
    pods = observed.pods.slurmds
    known: Mapping[str, SlurmNode] = observed.slurm.nodes if isinstance(observed.slurm, Slurm) else {}
    result = {}
    for pool in cluster.pools:
        listed = _names(pool.name, cluster.size(pool))
        result[pool.name] = tuple(
            make_seat(name, pool, ordinal, pods.get(name), known.get(name), leaves.get(name, ""))
            for ordinal, name in enumerate(listed)
        )
    return result


@functools.lru_cache(maxsize=256)
def _names(pool: str, size: int) -> tuple[str, ...]:
    return tuple(sys.intern(f"{pool}-{ordinal}") for ordinal in range(size))


def pool_sizes(observed: Observed) -> dict[str, int]:
    """Return, for each pool, the number of node names that its pods and jobs need in slurm.conf."""
    found = dict(observed.pods.sizes)
    for hosts in {job.nodes for job in observed.jobs or ()}:
        for pool, size in _hosts_sizes(hosts).items():
            found[pool] = max(found.get(pool, 0), size)
    return found


@functools.lru_cache(maxsize=4096)
def _hosts_sizes(hosts: str) -> Mapping[str, int]:
    """Return the same for a host list. Most jobs are there in the next look too."""
    return sizes(expand(hosts))
