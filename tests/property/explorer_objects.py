"""The explorer's machines and pods as Kubernetes' own objects, and what Kubernetes makes of these."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any, Final

from slurmcluster_operator.manifests import slurmd
from slurmcluster_operator.manifests.cluster import Cluster, Json
from slurmcluster_operator.model import names
from slurmcluster_operator.model.fleet import KubeNode
from slurmcluster_operator.model.holds import Sighting
from slurmcluster_operator.model.names import Names
from tests.builders import NOW, cluster, pool_json
from tests.property.explorer_state import OLDEST, Machine, Pod

AGES: Final = (timedelta(), timedelta(seconds=2), timedelta(hours=1))
SEAT: Final = "h100-0"
"""The one seat of each cluster."""
VERSION: Final = "7"
"""Every Node's resourceVersion: an operator whose copy is old is dropped as soon as it is."""


@cache
def cluster_of(fleet: str, *, anywhere: bool = False) -> Cluster:
    """Return a cluster of one seat, which is always up. ``anywhere``: its pod is made without a machine if need be."""
    pool = pool_json(1, 1, capacity="Autoscaled" if anywhere else "Fixed")
    return replace(cluster(pools=[pool]), names=Names(*fleet.split(".")))


@cache
def node_json(machine: Machine) -> Json:
    """Return a Node."""
    stamp = machine.stamp or (NOW - AGES[machine.age]).isoformat()
    since = {names.OWNER_SINCE: stamp} if machine.marks else {}
    return {
        "metadata": {
            "name": machine.name,
            "uid": f"uid-of-{machine.name}",
            "resourceVersion": VERSION,
            "labels": dict(machine.labels),
            "annotations": {**dict(machine.marks), **since},
        },
        "spec": {"taints": [dict(zip(("key", "value", "effect"), taint, strict=True)) for taint in machine.taints]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/gpu": "8"}},
    }


@cache
def sighting(machine: Machine) -> Sighting:
    """Return since when an operator may have seen a machine as it is: at best from the moment of its last step on."""
    return Sighting(KubeNode.from_json(node_json(machine)).step, NOW - AGES[machine.age])


@cache
def patched(machine: Machine, patch: str) -> Machine:
    """Return a machine after a merge patch (JSON) of its Node."""
    changes: Json = json.loads(patch)
    metadata, spec = changes.get("metadata", {}), changes.get("spec", {})
    marks = _merged(machine.marks, metadata.get("annotations", {}))
    timeless = frozenset((key, value) for key, value in marks if key not in {names.OWNER_SINCE, names.OWNER_WHY})
    taints = machine.taints
    if "taints" in spec:
        taints = tuple((one["key"], one.get("value", ""), one["effect"]) for one in spec["taints"] or ())
    labels = _merged(machine.labels, metadata.get("labels", {}))
    stamp = "" if names.OWNER_SINCE in metadata.get("annotations", {}) else machine.stamp
    after = machine._replace(labels=labels, marks=timeless, taints=taints, age=0, stamp=stamp)
    # Nothing depends on how long a machine has been free or owned.
    return after._replace(age=OLDEST) if after.state in {"", "Owned"} else after


def _merged(pairs: Iterable[tuple[str, str]], patch: Mapping[str, str | None]) -> frozenset[tuple[str, str]]:
    merged = {**dict(pairs), **patch}
    return frozenset((key, value) for key, value in merged.items() if value is not None)


@cache
def slurmd_json(fleet: str, made_for: str) -> Json:
    """Return the slurmd pod as the operator makes it."""
    whole = cluster_of(fleet)
    return slurmd.pod(whole, whole.pools[0], SEAT, "content", made_for)


@cache
def pod_json(pod: Pod) -> Json:
    """Return a pod as the API server shows it."""
    if pod.fleet:
        made = slurmd_json(pod.fleet, pod.made_for)
    else:
        made = {"metadata": {"name": pod.name, "namespace": "web"}, "spec": {"containers": [{"name": "main"}]}}
    metadata = {**made["metadata"], "uid": f"uid-of-{pod.name}", "creationTimestamp": NOW.isoformat()}
    if pod.ending:
        metadata["deletionTimestamp"] = NOW.isoformat()
    bound = {"nodeName": pod.node} if pod.node else {}
    return {**made, "metadata": metadata, "spec": {**made["spec"], **bound}, "status": {"phase": "Pending"}}


def selected(pods: Iterable[Pod], path: str, query: Mapping[str, str]) -> tuple[Pod, ...]:
    """Return the pods that a list of a collection gives."""
    return tuple(pod for pod in pods if selects(pod_json(pod), path, query))


def selects(raw: Json, path: str, query: Mapping[str, str]) -> bool:
    """Tell whether a list of a collection, of all namespaces or of one, gives a pod."""
    assert query.keys() <= {"fieldSelector", "labelSelector"}, query
    namespace = path.removeprefix("/api/v1/").removesuffix("pods").strip("/").removeprefix("namespaces/")
    metadata = raw["metadata"]
    values = {"spec.nodeName": raw["spec"].get("nodeName", "")}
    return (
        namespace in {"", metadata["namespace"]}
        and _equal(values, query.get("fieldSelector", ""))
        and _equal(metadata.get("labels", {}), query.get("labelSelector", ""))
    )


def _equal(values: Mapping[str, str], selector: str) -> bool:
    terms = (term.split("=", 1) for term in selector.split(",") if term)
    return all(values.get(key) == value for key, value in terms)


def fits(spec: Json, machine: Machine) -> bool:
    """Tell whether the scheduler may choose a machine for a pod, as far as labels and taints go."""
    affinity = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = affinity["nodeSelectorTerms"] if affinity else [{}]
    selector = frozenset(spec.get("nodeSelector", {}).items())
    return (
        selector <= machine.labels
        and any(_matches(term, machine) for term in terms)
        and all(_tolerated(taint, spec.get("tolerations", ())) for taint in machine.taints)
    )


def _matches(term: Json, machine: Machine) -> bool:
    rules = [(rule, machine.label(rule["key"])) for rule in term.get("matchExpressions", ())]
    rules += [(rule, machine.name) for rule in term.get("matchFields", ()) if rule["key"] == "metadata.name"]
    assert all(rule["operator"] == "In" for rule, _ in rules), "the explorer's scheduler knows In only"
    return all(value in rule["values"] for rule, value in rules)


def _tolerated(taint: tuple[str, str, str], tolerations: Iterable[Json]) -> bool:
    key, value, effect = taint
    return any(
        one.get("key", key) == key
        and one.get("effect", effect) == effect
        and (one.get("operator") == "Exists" or one.get("value", "") == value)
        for one in tolerations
    )


def body(patch: Mapping[str, Any]) -> str:
    """Write a request's body so that two can be compared."""
    return json.dumps(patch, sort_keys=True)
