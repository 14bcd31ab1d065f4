"""Small values for tests: a cluster, pods, Slurm nodes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from slurmcluster_operator.api.spec import SlurmClusterSpec
from slurmcluster_operator.decide.plan import make_plan, resolve
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.manifests.slurmd import template_hash
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import Action, AnnotatePod, Own
from slurmcluster_operator.model.fleet import Fleet, KubeNode
from slurmcluster_operator.model.holds import Memory, Sighting
from slurmcluster_operator.model.kube import Container, Pod, Workload
from slurmcluster_operator.model.names import Names
from slurmcluster_operator.model.observed import Observed, Pods
from slurmcluster_operator.model.slurm import Slurm, SlurmNode, Unknown

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
UID = "11111111-2222-3333-4444-555555555555"


def spec_json(**changes: Any) -> dict[str, Any]:
    """Return a small valid spec, as a user would write it."""
    return {"pools": [pool_json(2, 2)], "partitions": [{"name": "gpu", "pools": ["h100"], "default": True}], **changes}


def pool_json(least: int, most: int, **changes: Any) -> dict[str, Any]:
    """Return the pool ``h100``, as a user would write it."""
    machine = {"cpus": 4, "memory": "8Gi", "gpus": {"type": "h100", "count": 8}}
    return {"name": "h100", "nodes": {"min": least, "max": most}, "machine": machine, **changes}


def cluster(**changes: Any) -> Cluster:
    """Return the cluster ``team/demo``."""
    return Cluster(Names("team", "demo"), UID, SlurmClusterSpec.model_validate(spec_json(**changes)))


def container(name: str, **changes: Any) -> Container:
    """Return a container that runs well, but for ``changes``."""
    started = NOW - timedelta(hours=1)
    return Container(**{"name": name, "ready": True, "running": True, "started": started, **changes})


def pod(component: str, name: str, **changes: Any) -> Pod:
    """Return a ready pod, but for ``changes``."""
    fields: dict[str, Any] = {
        "cluster": "demo",
        "name": name,
        "uid": f"uid-of-{name}",
        "component": component,
        "phase": "Running",
        "ready": True,
        "deleting": False,
        "created": NOW,
        "containers": (container(component),),
    }
    return Pod(**(fields | changes))


def slurmd_pod(node: str, of: Cluster | None = None, **changes: Any) -> Pod:
    """Return the ready pod of a Slurm node."""
    whole = of or cluster()
    pool = node.rsplit("-", 1)[0]
    known = next((one for one in whole.spec.pools if one.name == pool), whole.spec.pools[0])
    fields: dict[str, Any] = {
        "slurm_node": node,
        "node_name": f"w{node.rsplit('-', 1)[1]}",
        "pool": pool,
        "annotations": {names.TEMPLATE_ANNOTATION: template_hash(whole, known)},
        "containers": (container("slurmd"),),
    }
    return pod(names.SLURMD, f"demo-{node}", **(fields | changes))


def starting(*, waiting: str = "ContainerCreating", message: str = "") -> dict[str, Any]:
    """Return the changes that make a pod one that has not started."""
    never = container("slurmd", ready=False, running=False, waiting=waiting, message=message)
    return {"ready": False, "phase": "Pending", "node_name": "", "containers": (never,)}


def slurm(**states: str) -> Slurm:
    """Return Slurm's answer: ``slurm(**{"h100-0": "IDLE+CLOUD"})``; ``~reason`` may follow."""
    nodes = {}
    for name, text in states.items():
        flags, _, reason = text.partition("~")
        nodes[name] = SlurmNode(name, frozenset(flags.split("+")), reason)
    return Slurm(nodes=nodes, accounting_connected=True)


def unknown(reason: str = "slurmrestd cannot be reached") -> Unknown:
    """Return no answer, since ``NOW``."""
    return Unknown(reason, NOW)


def free_node(name: str, **changes: Any) -> KubeNode:
    """Return a Kubernetes node granted to the cluster, with 8 GPUs, that nobody has."""
    fields: dict[str, Any] = {
        "labels": {names.FLEET_LABEL: "team.demo"},
        "ready": True,
        "schedulable": True,
        "allocatable": {"nvidia.com/gpu": "8"},
        "gpus": "8 nvidia.com/gpu",
        "since": NOW - timedelta(hours=1),
    }
    return KubeNode(name, **(fields | changes))


def kube_node(name: str, **changes: Any) -> KubeNode:
    """Return a Kubernetes node that the cluster owns, with 8 GPUs."""
    marks = {"owner": "team.demo", "tainted": "team.demo", "state": "Owned"} | changes
    serves = {names.SERVES: marks["owner"]} if marks["state"] == "Owned" else {}
    return free_node(name, **({"labels": {names.FLEET_LABEL: "team.demo", **serves}} | marks))


def watched(nodes: Iterable[KubeNode]) -> dict[str, Sighting]:
    """Return what an operator remembers that has seen every step on these nodes when it was taken."""
    return {node.name: Sighting(node.step, node.since or NOW) for node in nodes}


def fleet(*nodes: KubeNode, **changes: Any) -> Fleet:
    """Return the part of the fleet that concerns the cluster: these nodes, with admission enforced."""
    fields: dict[str, Any] = {"enforced": True, "own": "team.demo"}
    return Fleet(nodes, **(fields | changes))


PARTS = {
    names.CONTROLLER: ("demo-controller-0", ("slurmctld", "config")),
    names.ACCOUNTING: ("demo-accounting-0", ("slurmdbd",)),
    names.DATABASE: ("demo-database-0", ("mariadb",)),
    names.RESTAPI: ("demo-restapi-abc", ("slurmrestd",)),
    names.LOGIN: ("demo-login-0", ("sshd",)),
}


def healthy(*, slurmds: tuple[Pod, ...] | None = None, **changes: Any) -> Observed:
    """Return what a healthy ``team/demo`` with two nodes, or with other slurmd pods, looks like."""
    parts = [pod(part, name, containers=tuple(container(one) for one in ones)) for part, (name, ones) in PARTS.items()]
    fields: dict[str, Any] = {
        "pods": (*parts, *((slurmd_pod("h100-0"), slurmd_pod("h100-1")) if slurmds is None else slurmds)),
        "workloads": {part: Workload("demo", part, f"demo-{part}", 1, "") for part in PARTS},
        "claims": {},
        "fleet": fleet(*(kube_node(f"w{number}") for number in range(8))),
        "slurm": slurm(**{"h100-0": "IDLE+CLOUD", "h100-1": "MIXED+CLOUD"}),
        "login_address": "192.0.2.1:22",
    }
    fields |= changes
    return Observed(**fields | {"pods": Pods(fields["pods"])})


def without(observed: Observed, component: str) -> tuple[Pod, ...]:
    """Return the pods but for those of a part."""
    return tuple(one for one in observed.pods if one.component != component)


def planned(
    whole: Cluster, observed: Observed, now: datetime = NOW, memory: Memory | None = None
) -> tuple[Action, ...]:
    """Return what a look plans, but for annotations of pods and what is done about Kubernetes nodes."""
    known = memory or Memory()
    plan = make_plan(resolve(whole, observed, known), observed, known, now)
    return tuple(action for action in plan.actions if not isinstance(action, AnnotatePod | Own))
