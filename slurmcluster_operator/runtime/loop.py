"""One level-triggered loop a cluster: observe → plan → execute → status, again and again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from pydantic import ValidationError

from slurmcluster_operator.api.errors import problems
from slurmcluster_operator.api.group import API_VERSION, KIND
from slurmcluster_operator.api.spec import SlurmClusterSpec
from slurmcluster_operator.api.status import Condition, SlurmClusterStatus
from slurmcluster_operator.decide.ledger import DoubleClaim, double_claims
from slurmcluster_operator.decide.ownership import settling
from slurmcluster_operator.decide.plan import make_plan, resolve
from slurmcluster_operator.decide.pools import orphaned_pools
from slurmcluster_operator.decide.starts import remember
from slurmcluster_operator.decide.status import compute_status, invalid_status
from slurmcluster_operator.kube.client import ApiError, Json, Kube, NotFoundError
from slurmcluster_operator.manifests.build import standing_objects
from slurmcluster_operator.manifests.cluster import NO_QUEUES, Cluster, Queues
from slurmcluster_operator.model import names
from slurmcluster_operator.model.holds import Memory
from slurmcluster_operator.model.names import Names
from slurmcluster_operator.model.platform import Platform
from slurmcluster_operator.runtime import secrets
from slurmcluster_operator.runtime.events import Events
from slurmcluster_operator.runtime.execute import Executor
from slurmcluster_operator.runtime.observe import Observer
from slurmcluster_operator.runtime.stopwatch import Stopwatch
from slurmcluster_operator.runtime.world import World
from slurmcluster_operator.slurm.client import SlurmRest
from slurmcluster_operator.slurm.tokens import TokenSource

QUIET: Final = 5.0
"""Seconds between looks while all is well. Changes in Kubernetes, and slurmctld when it wants nodes, wake the loop."""
WAITING: Final = 2.0
"""Seconds between looks while jobs wait for nodes."""
BUSY: Final = 0.5
"""Seconds between looks while something is starting: nobody tells us when slurmd has registered."""
CALM: Final = 0.1
"""Seconds at least between two looks, so that a burst of events is one look."""
FAILED: Final = 3.0
"""Seconds before the next look after one that failed as a whole."""

_log = logging.getLogger(__name__)


class ClusterLoop:
    """Keeps one SlurmCluster as its spec says, for as long as it runs."""

    def __init__(self, kube: Kube, world: World, platform: Platform, namespace: str, name: str) -> None:
        self._kube = kube
        self._world = world
        self._platform = platform
        self._names = Names(namespace, name)
        self._events = Events(kube)
        self._observer = Observer(kube, world)
        self._executor = Executor(kube, world, self._events)
        self._rest: SlurmRest | None = None
        self._status: SlurmClusterStatus | None = None
        self._written: Json = {}
        self._memory = Memory()
        self._queues: Queues | None = None
        self._known_claims: frozenset[DoubleClaim] = frozenset()
        self.woken = asyncio.Event()
        self.finished_at = time.monotonic()
        """When the last look was finished; for the liveness probe."""

    @property
    def status(self) -> SlurmClusterStatus | None:
        """The last status; None before the first look."""
        return self._status

    @property
    def double_claims(self) -> frozenset[DoubleClaim]:
        """What the last look found of pods that are where they must not be."""
        return self._known_claims

    async def run(self) -> None:
        """Look again and again until cancelled."""
        try:
            while True:
                self.woken.clear()
                pause = await self._look()
                self.finished_at = time.monotonic()
                await asyncio.sleep(min(CALM, pause))
                await self._wait(pause - CALM)
        finally:
            if self._rest is not None:
                await self._rest.close()

    async def retire(self) -> None:
        """End the slurmd pods of a cluster that a person deletes: they asked for it, so jobs are not waited for."""
        for pod in self._world.pods.of(self._names.namespace):
            if pod.cluster == self._names.cluster and pod.component == names.SLURMD:
                try:
                    await self._kube.delete("v1", "Pod", self._names.namespace, pod.name, uid=pod.uid, grace=5)
                except ApiError as error:
                    _log.warning("pod %s: %s", pod.name, error)

    async def _wait(self, seconds: float) -> None:
        if seconds > 0:
            try:
                await asyncio.wait_for(self.woken.wait(), seconds)
            except TimeoutError:
                return

    async def _look(self) -> float:
        """Look once, and return the seconds until the next look. Whatever goes wrong, the loop goes on."""
        try:
            return await self._tick()
        except asyncio.CancelledError:
            raise
        except (ApiError, OSError, TimeoutError) as error:
            _log.warning("%s: %s", self._names, error or type(error).__name__)
        except Exception:  # noqa: BLE001 - one bad cluster or reply never stops its loop (invariant 8)
            _log.exception("%s: this look failed; looking again in %.0f s", self._names, FAILED)
        return FAILED

    async def _tick(self) -> float:
        raw = self._world.clusters.find(self._names.namespace, self._names.cluster)
        if raw is None or "deletionTimestamp" in raw["metadata"]:
            return QUIET
        generation = raw["metadata"]["generation"]
        try:
            spec = SlurmClusterSpec.model_validate(raw["spec"])
        except ValidationError as error:
            cluster = Cluster.unspecified(self._names, raw["metadata"]["uid"])
            await self._report_invalid(cluster, "; ".join(problems(error)), generation)
            return QUIET
        cluster = Cluster(self._names, raw["metadata"]["uid"], spec, self._platform)
        rest = await self._connect(cluster)
        watch = Stopwatch()
        now = datetime.now(UTC)
        observed = await self._observer.observe(cluster, rest, now)
        cluster = resolve(cluster, observed, self._memory, await self._last_queues(cluster))
        watch.lap("observe")
        plan = make_plan(cluster, observed, self._memory, now)
        watch.lap("plan")
        errors: list[str] = []
        if not orphaned_pools(cluster, observed):
            errors += await self._executor.apply(standing_objects(cluster))
            outcome = await self._executor.act(cluster, observed.fleet, plan.actions, rest)
            errors += outcome.errors
            self._memory = remember(plan.memory, outcome.refused, now)
            self._queues = cluster.queues
        watch.lap("act")
        before = await self._last_status()
        await self._tell_double_claims(cluster, double_claims(cluster, observed))
        status = compute_status(cluster, observed, plan, before, errors, now, generation)
        await self._report(cluster, before, status)
        watch.lap("status")
        _log.debug("%s: look took %s", self._names, watch)
        moving = bool(plan.actions) or settling(observed.fleet, plan.memory.nodes, now)
        return pause(status, self._observer.took, moving=moving)

    async def _connect(self, cluster: Cluster) -> SlurmRest:
        if self._rest is None:
            key = await secrets.ensure(self._kube, cluster)
            host = f"{cluster.names.part(names.RESTAPI)}.{cluster.names.namespace}.svc.{self._platform.cluster_domain}"
            url = f"http://{host}:{names.SLURMRESTD_PORT}"
            self._rest = SlurmRest(url, TokenSource(key), proxy=self._platform.rest_proxy)
        return self._rest

    async def _last_queues(self, cluster: Cluster) -> Queues:
        """Return the pools and partitions in slurm.conf: our own, or after a restart those that its ConfigMap names."""
        if self._queues is None:
            try:
                found = await self._kube.get("v1", "ConfigMap", self._names.namespace, cluster.names.config)
                self._queues = Queues.model_validate_json(found["metadata"]["annotations"][names.QUEUES_ANNOTATION])
            except (NotFoundError, KeyError, ValidationError):
                self._queues = NO_QUEUES
        return self._queues

    async def _last_status(self) -> SlurmClusterStatus:
        """Return the last status: our own, or after a restart the one that the resource carries."""
        if self._status is None:
            raw = await self._kube.get(API_VERSION, KIND, self._names.namespace, self._names.cluster)
            self._written = raw.get("status", {})
            try:
                self._status = SlurmClusterStatus.model_validate(self._written)
            except ValidationError:
                # Written by another version; only the transition times are lost.
                self._status = SlurmClusterStatus()
        return self._status

    async def _tell_double_claims(self, cluster: Cluster, found: tuple[DoubleClaim, ...]) -> None:
        """Post an Event for each pod that was not on one of the nodes before, on the cluster and on the node."""
        for claim in (one for one in found if one not in self._known_claims):
            await self._events.post(cluster, "DoubleClaim", claim.words, "Warning")
            node = self._world.node(claim.node)
            await self._events.post_on_node(claim.node, node.uid if node else "", "DoubleClaim", claim.words, "Warning")
        self._known_claims = frozenset(found)

    async def _report(self, cluster: Cluster, before: SlurmClusterStatus, status: SlurmClusterStatus) -> None:
        self._status = status
        wanted = status.model_dump(by_alias=True, mode="json")
        if wanted == self._written:
            return
        await self._write(wanted)
        for condition in _changed(before.conditions, status.conditions):
            bad = condition.status == ("True" if condition.type == "Degraded" else "False")
            message = f"{condition.type} is {condition.status}: {condition.message or condition.reason}"
            await self._events.post(cluster, condition.reason, message, "Warning" if bad else "Normal")

    async def _report_invalid(self, cluster: Cluster, problem: str, generation: int) -> None:
        """Say what is wrong with a spec that got past the API server; touch nothing, but go on to verify the fleet."""
        now = datetime.now(UTC)
        observed = self._observer.kubernetes(self._names, now)
        before = await self._last_status()
        await self._tell_double_claims(cluster, double_claims(cluster, observed))
        await self._report(cluster, before, invalid_status(cluster, observed, problem, before, now, generation))

    async def _write(self, wanted: Json) -> None:
        try:
            await self._kube.merge(
                API_VERSION, KIND, self._names.namespace, self._names.cluster, {"status": wanted}, subresource="status"
            )
        except NotFoundError:
            return
        self._written = wanted


def pause(status: SlurmClusterStatus, took: float, *, moving: bool = False) -> float:
    """Return the seconds until the next look: soon where something is under way.

    ``moving`` tells that something was done in this look, or that a claim's next step is due in a moment; ``took`` is
    what Slurm's last answers took: large ones are spaced.
    """
    settled = all(one.status != "False" for one in status.conditions if one.type in {"Ready", "ConfigApplied"})
    if moving or not settled or any(pool.starting for pool in status.pools):
        wish = BUSY
    else:
        wish = WAITING if status.queue.pending_nodes else QUIET
    return min(QUIET, max(wish, 2 * took))


def _changed(before: Sequence[Condition], after: Sequence[Condition]) -> list[Condition]:
    old = {one.type: one.status for one in before}
    return [one for one in after if old.get(one.type) != one.status]
