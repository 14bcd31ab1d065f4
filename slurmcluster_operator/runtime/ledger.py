"""``python -m slurmcluster_operator fleet``: the ledger of the fleet, from lists that are asked for on the spot."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from slurmcluster_operator.api.group import API_VERSION, KIND
from slurmcluster_operator.decide.entries import Entry, Look, confirmed, entries, marked
from slurmcluster_operator.kube.client import ApiError, Kube, path_of
from slurmcluster_operator.model import names, wire
from slurmcluster_operator.model.fleet import KubeNode, foreign_pod
from slurmcluster_operator.model.kube import Pod, shared
from slurmcluster_operator.model.names import Names
from slurmcluster_operator.model.slurm import Slurm, Unknown
from slurmcluster_operator.runtime.keeper import grant_problems
from slurmcluster_operator.runtime.read import to_nodes
from slurmcluster_operator.runtime.rest import connect
from slurmcluster_operator.settings import Settings
from slurmcluster_operator.slurm.client import SlurmError

PATIENCE: Final = 5.0
"""Seconds to wait for a cluster's slurmrestd."""

_MANAGED: Final = f"{names.MANAGED_BY}={names.MANAGER}"
_OTHERS: Final = f"{names.MANAGED_BY}!={names.MANAGER}"
_PLACED: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


async def ledger(settings: Settings, namespace: str = "", cluster: str = "") -> tuple[tuple[Entry, ...], list[str]]:
    """Return the ledger, for such SlurmClusters only where one is named, and notes on what could not be found out.

    Raises ``ValueError`` when the API server does not tell, or when there is no such SlurmCluster.
    """
    async with await Kube.connect() as kube:
        try:
            return await _ledger(kube, settings, namespace, cluster)
        except ApiError as error:
            raise ValueError(str(error)) from error


async def _ledger(kube: Kube, settings: Settings, namespace: str, cluster: str) -> tuple[tuple[Entry, ...], list[str]]:
    seen = await _look(kube, settings)
    used = {Names(pod.namespace, pod.cluster) for pod in seen.pods if pod.component == names.SLURMD}
    asked = [one for one in used if namespace in {"", one.namespace} and cluster in {"", one.cluster}]
    answers = await asyncio.gather(*(_states(kube, settings, one) for one in asked if one.fleet in seen.clusters))
    slurm: dict[str, Slurm | Unknown] = dict(answers)
    found = _chosen(replace(seen, slurm=slurm), namespace, cluster)
    if any(entry.problems for entry in found):
        again = replace(await _look(kube, settings), slurm=slurm)
        found = confirmed(_chosen(again, namespace, cluster), found)
    notes = [
        f"{fleet.replace('.', '/', 1)}: {answer.reason}; the states of its Slurm nodes are not known"
        for fleet, answer in sorted(slurm.items(), key=lambda one: one[0])
        if isinstance(answer, Unknown)
    ]
    return found, notes


def _chosen(seen: Look, namespace: str, cluster: str) -> tuple[Entry, ...]:
    """Return the entries that concern such SlurmClusters."""
    found = tuple(entry for entry in entries(seen, datetime.now(UTC)) if entry.concerns(namespace, cluster))
    known = [one.partition(".") for one in sorted(seen.clusters)]
    exists = any(namespace in {"", one} and cluster in {"", other} for one, _, other in known)
    if (namespace or cluster) and not found and not exists:
        there = ", ".join(f"{one}/{other}" for one, _, other in known) or "none"
        raise ValueError(f"there is no such SlurmCluster, and no node is granted to one; there are: {there}")
    return found


async def _look(kube: Kube, settings: Settings) -> Look:
    """Read everything but Slurm, object by object, and keep what the ledger is made from.

    It shares the memory of the operator's pod: of 10,000 nodes and their pods little more than the names is kept.
    """
    nodes = [_slim(KubeNode.from_json(raw)) async for raw in kube.listing(path_of("v1", "Node"), {}, wire.Node)]
    pods = path_of("v1", "Pod")
    managed = {"labelSelector": _MANAGED, "fieldSelector": _PLACED}
    ours = [_slim_pod(Pod.from_json(raw)) async for raw in kube.listing(pods, managed, wire.Pod)]
    concerned = {node.name for node in nodes if marked(node)} | {pod.node_name for pod in ours}
    others = kube.listing(pods, {"labelSelector": _OTHERS, "fieldSelector": _PLACED}, wire.Pod)
    foreign = [pod async for raw in others if (pod := foreign_pod(raw, settings.tolerance)) and pod.node in concerned]
    clusters = [_fleet(raw) async for raw in kube.listing(path_of(API_VERSION, KIND), {}, wire.Marked)]
    known = set(clusters)
    return Look(
        nodes,
        ours,
        foreign,
        frozenset(known),
        {node.name: problems for node in nodes if (problems := grant_problems(node, known))},
    )


async def _states(kube: Kube, settings: Settings, cluster: Names) -> tuple[str, Slurm | Unknown]:
    """Ask a cluster's slurmrestd for its nodes. Whatever is wrong with one cluster, the others are shown."""
    try:
        async with asyncio.timeout(PATIENCE):
            rest = await connect(kube, settings.platform, cluster)
            try:
                return cluster.fleet, Slurm(to_nodes(await rest.nodes()))
            finally:
                await rest.close()
    except TimeoutError:
        words = f"slurmrestd did not answer within {PATIENCE:.0f} s"
    except (ApiError, SlurmError, OSError) as error:
        words = str(error)
    except (KeyError, ValueError):
        words = f"Secret {cluster.keys} holds no key for slurmrestd"
    return cluster.fleet, Unknown(words, datetime.now(UTC))


def _slim(node: KubeNode) -> KubeNode:
    kept = {key: value for key, value in node.labels.items() if key in {names.FLEET_LABEL, names.SERVES}}
    return replace(node, labels=shared(kept), allocatable={})


def _slim_pod(pod: Pod) -> Pod:
    return replace(pod, annotations={}, containers=())


def _fleet(raw: Mapping[str, Any]) -> str:
    return Names(raw["metadata"]["namespace"], raw["metadata"]["name"]).fleet
