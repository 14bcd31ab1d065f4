"""Carrying out a plan: each action by itself, so that one that fails never stops the others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slurmcluster_operator.kube.client import ApiError, ConflictError, Json, Kube, NotFoundError
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.manifests.objects import digest
from slurmcluster_operator.model.actions import (
    Action,
    AnnotatePod,
    CreatePod,
    DeletePod,
    Move,
    Own,
    RequestMachines,
    Tell,
)
from slurmcluster_operator.model.fleet import Fleet
from slurmcluster_operator.runtime.events import Events, listed
from slurmcluster_operator.runtime.fleet import Steward
from slurmcluster_operator.runtime.tell import Telling
from slurmcluster_operator.runtime.world import World
from slurmcluster_operator.slurm.client import SlurmError, SlurmRest

_AT_ONCE: Final = 32
"""Calls to the API server under way at a time, for one cluster."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a plan."""

    errors: tuple[str, ...]
    """What went wrong, in words."""
    refused: Mapping[str, str]
    """Slurm nodes whose pod the API server did not let us create, with its words."""


_log = logging.getLogger(__name__)


class Executor:
    """Applies objects and carries out actions for one cluster."""

    def __init__(self, kube: Kube, world: World, events: Events) -> None:
        self._kube = kube
        self._world = world
        self._events = events
        self._telling = Telling(events)
        self._steward = Steward(kube, world, events)
        self._applied: dict[tuple[str, str], tuple[str, str]] = {}
        """(kind, name) → (digest of what we stated, the object's marker afterwards)."""
        self._limit = asyncio.Semaphore(_AT_ONCE)

    async def apply(self, manifests: Iterable[Json]) -> list[str]:
        """Apply what is missing or differs from what we last stated; return what went wrong, in words."""
        results = await asyncio.gather(*(self._apply(manifest) for manifest in manifests))
        return [problem for problem in results if problem]

    async def act(self, cluster: Cluster, fleet: Fleet, actions: Sequence[Action], rest: SlurmRest) -> Outcome:
        """Carry out actions: first what slurmctld must know, then who owns which node, then the pods."""
        told = [action for action in actions if isinstance(action, Tell)]
        problems = [await self._guard(self._telling.tell(cluster, action, rest)) for action in told]
        problems += await self._own(cluster, fleet, [action for action in actions if isinstance(action, Own)])
        pods = [action for action in actions if isinstance(action, CreatePod | DeletePod | AnnotatePod)]
        results = await asyncio.gather(*(self._guard(self._pod(cluster, action)) for action in pods))
        asked = [action for action in actions if isinstance(action, RequestMachines)]
        problems += await asyncio.gather(*(self._guard(self._request(cluster, action)) for action in asked))
        refused = {
            action.node: problem
            for action, problem in zip(pods, results, strict=True)
            if problem and isinstance(action, CreatePod)
        }
        await self._report(cluster, pods, results)
        return Outcome(tuple(problem for problem in (*problems, *results) if problem), refused)

    async def _own(self, cluster: Cluster, fleet: Fleet, actions: Sequence[Own]) -> list[str]:
        """Take the steps with Kubernetes nodes. Admission knows of a claim before it is made, or it is not made."""
        problem = await self._apply(self._steward.index(cluster, fleet, actions))
        forward = {"Claiming", "Owned"} if problem else set()
        steps = [action for action in actions if not (isinstance(action, Move) and action.to in forward)]
        results = await asyncio.gather(*(self._guard(self._steward.carry_out(cluster, action)) for action in steps))
        return [problem, *results]

    async def _apply(self, manifest: Json) -> str:
        key = (manifest["kind"], manifest["metadata"]["name"])
        wanted = digest(manifest)
        seen = self._world.marker(manifest)
        if seen is not None and self._applied.get(key) == (wanted, seen):
            return ""
        async with self._limit:
            try:
                result = await self._kube.apply(manifest)
            except (ApiError, OSError, TimeoutError) as error:
                return f"{key[0]} {key[1]} cannot be applied: {error or type(error).__name__}"
        metadata = result["metadata"]
        has_generation = key[0] in {"StatefulSet", "Deployment"}
        self._applied[key] = (wanted, str(metadata["generation"] if has_generation else metadata["resourceVersion"]))
        return ""

    async def _guard(self, effect: Awaitable[None]) -> str:
        async with self._limit:
            try:
                await effect
            except NotFoundError:
                return ""  # what should go, or be told something, has gone already: the next look sees it
            except (ApiError, SlurmError, OSError, TimeoutError) as error:
                _log.warning("%s", error)
                return str(error) or type(error).__name__
        return ""

    async def _pod(self, cluster: Cluster, action: CreatePod | DeletePod | AnnotatePod) -> None:
        namespace = cluster.names.namespace
        match action:
            case CreatePod():
                try:
                    await self._kube.create(action.manifest)
                except ConflictError as error:
                    if self._world.pods.find(namespace, action.manifest["metadata"]["name"]) is None:
                        raise ApiError(
                            error.status, f"pod {action.manifest['metadata']['name']} exists and is not ours"
                        ) from error
            case DeletePod():
                await self._kube.delete("v1", "Pod", namespace, action.name, uid=action.uid)
            case AnnotatePod():
                patch = {"metadata": {"annotations": {action.annotation: action.value}}}
                await self._kube.merge("v1", "Pod", namespace, action.name, patch)

    async def _request(self, cluster: Cluster, action: RequestMachines) -> None:
        """Ask for machines. The request goes with the first of its pods."""
        pod = await self._kube.get("v1", "Pod", cluster.names.namespace, cluster.names.pod(action.first))
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        for manifest in action.manifests:
            with contextlib.suppress(ConflictError):
                metadata = {**manifest["metadata"], "ownerReferences": [owner]}
                await self._kube.create({**manifest, "metadata": metadata})
        await self._events.post(cluster, "MachinesRequested", f"ProvisioningRequest {action.name}")

    async def _report(self, cluster: Cluster, pods: Sequence[Action], problems: Sequence[str]) -> None:
        """Post an Event for all pods that were made, and one for each reason for which pods were deleted."""
        done = [action for action, problem in zip(pods, problems, strict=True) if not problem]
        if made := [action.node for action in done if isinstance(action, CreatePod)]:
            await self._events.post(cluster, "PodCreated", f"{listed(made)}: starting")
        gone: dict[str, list[str]] = {}
        for action in done:
            if isinstance(action, DeletePod):
                gone.setdefault(action.why, []).append(action.name)
        for why, several in gone.items():
            await self._events.post(cluster, "PodDeleted", f"{listed(several)}: {why}")
