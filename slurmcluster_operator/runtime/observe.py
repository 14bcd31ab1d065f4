"""One look at everything a cluster's plan depends on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import Final, Generic, TypeVar

from slurmcluster_operator.kube.client import Kube, NotFoundError
from slurmcluster_operator.manifests import provisioning
from slurmcluster_operator.manifests.accounting import credentials_secret
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model import names
from slurmcluster_operator.model.fleet import Fleet
from slurmcluster_operator.model.names import Names
from slurmcluster_operator.model.observed import Observed, Pods
from slurmcluster_operator.model.slurm import Slurm, Unknown
from slurmcluster_operator.runtime.fleet import see
from slurmcluster_operator.runtime.read import hosts_of, partitions_of, to_jobs, to_nodes
from slurmcluster_operator.runtime.world import World
from slurmcluster_operator.slurm.client import SlurmError, SlurmRest

PATIENCE: Final = 4.0
"""Seconds to wait for Slurm's answers. A slurmrestd that hangs must not keep Kubernetes' side waiting."""
PATIENCE_A_NODE: Final = 0.001
"""Seconds more for each node: slurmrestd needs 2 s to tell of 10,000, and longer where it has little processor time."""

DISCOVERY: Final = 30.0
"""Seconds after which it is asked again which APIs are installed."""
ACCOUNTING: Final = 10.0
"""Seconds after which it is asked again whether slurmctld is connected to slurmdbd; at each look while it is not."""

A = TypeVar("A")
T = TypeVar("T")


class _Reading(Generic[A, T]):
    """Reads answers; one that has not changed, which the client tells by its being the same, only once."""

    def __init__(self, read: Callable[[A], T]) -> None:
        self._read = read
        self._last: tuple[A, T] | None = None

    def of(self, answer: A) -> T:
        """Return what an answer says."""
        if self._last is None or answer is not self._last[0]:
            self._last = answer, self._read(answer)
        return self._last[1]


class Observer:
    """Looks at one cluster. Remembers since when Slurm has not answered, how long it takes to, and what is the same."""

    def __init__(self, kube: Kube, world: World) -> None:
        self._kube = kube
        self._world = world
        self._version: tuple[int, bool, str] | None = None
        self._pods = Pods()
        self._fleet = Fleet()
        self._unknown_since: datetime | None = None
        self._nodes = _Reading(to_nodes)
        self._jobs = _Reading(to_jobs)
        self._installed = False
        self._ask_again = 0.0
        self._connected: bool | None = None
        self._ask_of_accounting = 0.0
        self.took = 0.0
        """Seconds that the last round of questions to Slurm took."""

    async def observe(self, cluster: Cluster, rest: SlurmRest, now: datetime) -> Observed:
        """Return what is seen now: Kubernetes first, so that a part's moment of weakness is not slept through."""
        seen = self.kubernetes(cluster.names, now)
        slurm, secrets, classes, claim = await asyncio.gather(
            self._slurm(cluster, rest, now),
            self._missing(self._secret, _secrets(cluster), cluster),
            self._missing(self._storage_class, _storage_classes(cluster), cluster),
            self._missing(self._claim, [cluster.spec.home.existing_claim or ""], cluster),
        )
        return replace(
            seen,
            slurm=slurm,
            missing_secrets=tuple(secrets),
            missing_storage_classes=tuple(classes),
            claim_missing=next(iter(claim), ""),
            provisioning=await self._provisioning(cluster),
        )

    def kubernetes(self, own: Names, now: datetime) -> Observed:
        """Return what is seen of a cluster in Kubernetes, whatever its spec says."""
        world = self._world
        version = world.version
        if version != self._version:
            # The last ones go first: in a large cluster both at a time would be megabytes.
            self._version, self._pods, self._fleet = None, Pods(), Fleet()
            self._pods = Pods(pod for pod in world.pods.of(own.namespace) if pod.cluster == own.cluster)
            self._fleet = see(world, own)
            self._version = version
        return Observed(
            pods=self._pods,
            workloads={
                item.component: item
                for kind in (world.stateful_sets, world.deployments)
                for item in kind.of(own.namespace)
                if item.cluster == own.cluster
            },
            claims={item.name: item for item in world.claims.of(own.namespace)},
            fleet=self._fleet,
            slurm=Unknown("not asked yet", now),
            login_address=_address(world, own),
        )

    async def _slurm(self, cluster: Cluster, rest: SlurmRest, now: datetime) -> Slurm | Unknown:
        started = time.monotonic()
        nodes = sum(cluster.size(pool) for pool in cluster.pools)
        patience = PATIENCE + PATIENCE_A_NODE * nodes
        try:
            async with asyncio.timeout(patience):
                slurm = await self._read(cluster, rest, nodes)
        except (SlurmError, TimeoutError) as error:
            self._unknown_since = self._unknown_since or now
            words = str(error) or f"slurmrestd did not answer within {patience:.0f} s"
            return Unknown(words, self._unknown_since)
        finally:
            self.took = time.monotonic() - started
        self._unknown_since = None
        return slurm

    async def _read(self, cluster: Cluster, rest: SlurmRest, expected: int) -> Slurm:
        """Ask slurmrestd for nodes, of which so many are expected, and jobs. Raises ``SlurmError``."""
        # One after the other: at 10,000 nodes an answer has tens of megabytes.
        nodes = await rest.nodes(expected)
        jobs = await _optional(rest.jobs())
        connected = await self._accounting(cluster, rest)
        known = jobs or ()
        return Slurm(
            self._nodes.of(nodes),
            None if jobs is None else self._jobs.of(jobs),
            partitions_of(known),
            hosts_of(known),
            connected,
        )

    async def _accounting(self, cluster: Cluster, rest: SlurmRest) -> bool | None:
        """Tell whether slurmctld is connected to slurmdbd; asked now and then only, for it costs slurmdbd a query."""
        if not cluster.accounting:
            return None
        if not self._connected or time.monotonic() >= self._ask_of_accounting:
            self._connected = await _optional(rest.registered(cluster.name))
            self._ask_of_accounting = time.monotonic() + ACCOUNTING
        return self._connected

    async def _provisioning(self, cluster: Cluster) -> bool:
        """Tell whether ProvisioningRequests are installed, where it matters; asked again now and then."""
        if all(pool.capacity == "Fixed" for pool in cluster.spec.pools):
            return False
        if time.monotonic() >= self._ask_again:
            self._installed = await self._kube.serves(provisioning.API)
            self._ask_again = time.monotonic() + DISCOVERY
        return self._installed

    async def _missing(
        self, exists: Callable[[Cluster, str], Awaitable[bool]], wanted: list[str], cluster: Cluster
    ) -> list[str]:
        return [name for name in wanted if name and not await exists(cluster, name)]

    async def _secret(self, cluster: Cluster, name: str) -> bool:
        return await self._exists("v1", "Secret", cluster.names.namespace, name)

    async def _claim(self, cluster: Cluster, name: str) -> bool:
        return await self._exists("v1", "PersistentVolumeClaim", cluster.names.namespace, name)

    async def _storage_class(self, cluster: Cluster, name: str) -> bool:
        del cluster
        return await self._exists("storage.k8s.io/v1", "StorageClass", "", name)

    async def _exists(self, api_version: str, kind: str, namespace: str, name: str) -> bool:
        try:
            await self._kube.get(api_version, kind, namespace, name)
        except NotFoundError:
            return False
        return True


async def _optional(question: Awaitable[T]) -> T | None:
    """Return None where the answer is only for information and does not come."""
    try:
        return await question
    except SlurmError:
        return None


def _address(world: World, own: Names) -> str:
    login = world.services.find(own.namespace, own.part(names.LOGIN))
    return login.address if login else ""


def _secrets(cluster: Cluster) -> list[str]:
    """Secrets that the spec names: ours are made, not looked for."""
    spec = cluster.spec
    wanted = [spec.login.authorized_keys_secret or "", *spec.images.pull_secrets]
    if cluster.accounting and spec.accounting.database.external:
        wanted.append(credentials_secret(cluster))
    return wanted


def _storage_classes(cluster: Cluster) -> list[str]:
    spec = cluster.spec
    wanted = [
        spec.controller.storage.storage_class_name,
        None if spec.home.existing_claim else spec.home.storage_class_name,
    ]
    embedded = spec.accounting.database.embedded_or_default
    if cluster.accounting and embedded:
        wanted.append(embedded.storage.storage_class_name)
    return list(dict.fromkeys(name for name in wanted if name))
