"""A cluster with every default resolved: all that the manifests are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from slurmcluster_operator.api.group import API_VERSION, KIND
from slurmcluster_operator.api.pools import Partition, Pool
from slurmcluster_operator.api.schema import Model
from slurmcluster_operator.api.spec import SlurmClusterSpec
from slurmcluster_operator.model.names import Names
from slurmcluster_operator.model.platform import Platform

Json = dict[str, Any]


class Queues(Model):
    """Pools and the partitions over them."""

    pools: tuple[Pool, ...] = ()
    """Sets of like machines."""
    partitions: tuple[Partition, ...] = ()
    """Queues over them."""


NO_QUEUES: Final = Queues()


@dataclass(frozen=True, slots=True)
class Cluster:
    """One SlurmCluster, ready to be rendered.

    ``sizes`` holds, for each pool, how many node names slurm.conf must know: at least ``max``, more while pods beyond
    it are still there, because a node that vanishes from slurm.conf under a running job is lost with its job.
    """

    names: Names
    uid: str
    spec: SlurmClusterSpec
    platform: Platform = field(default_factory=Platform)
    sizes: Mapping[str, int] = field(default_factory=dict)
    retired: Queues = NO_QUEUES
    """What the spec no longer has and slurm.conf still must, because pods or jobs have it."""

    @classmethod
    def unspecified(cls, names: Names, uid: str = "") -> Cluster:
        """Return a cluster of which no more is known than its name: its spec is invalid, or it is gone."""
        return cls(names, uid, SlurmClusterSpec.model_construct(pools=(), partitions=()))

    @property
    def name(self) -> str:
        """The name in slurmdbd."""
        return self.spec.cluster_name or self.names.cluster

    @property
    def accounting(self) -> bool:
        """Whether there is a slurmdbd."""
        return self.spec.accounting.enabled

    @property
    def home_claim(self) -> str:
        """The claim that holds the home directories."""
        return self.spec.home.existing_claim or self.names.home_claim

    @property
    def pools(self) -> tuple[Pool, ...]:
        """All pools that slurm.conf has."""
        return (*self.spec.pools, *self.retired.pools)

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """All partitions that slurm.conf has."""
        return (*self.spec.partitions, *self.retired.partitions)

    @property
    def queues(self) -> Queues:
        """All of both, in a form that can be read back: ``max`` is the number of node names that slurm.conf has."""
        return Queues(pools=tuple(self._as_it_is(pool) for pool in self.pools), partitions=self.partitions)

    def size(self, pool: Pool) -> int:
        """Return how many node names of a pool slurm.conf must know."""
        return max(pool.nodes.max, self.sizes.get(pool.name, 0))

    def _as_it_is(self, pool: Pool) -> Pool:
        most = {"max": max(1, self.size(pool))}
        return pool.model_copy(update={"nodes": pool.nodes.model_copy(update=most)})

    def image(self, name: str) -> str:
        """Return the full reference of one of our images that carry Slurm."""
        return f"{self.spec.images.registry or self.platform.registry}/{name}:{self.spec.slurm_version}"

    def owner(self) -> Json:
        """Return the owner reference that removes an object with the SlurmCluster."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": self.names.cluster,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
