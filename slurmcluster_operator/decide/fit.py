"""Which Kubernetes nodes fit which pools: labels, GPUs and taints."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from slurmcluster_operator.api.pools import Pool
from slurmcluster_operator.model.fleet import KubeNode, Taint


def kind(pool: Pool) -> tuple[Hashable, ...]:
    """Return what tells the kind of a pool's machines: the same machines fit pools of the same kind."""
    gpus = pool.machine.gpus
    return (*sorted(pool.node_selector.items()), str(pool.tolerations), gpus and (gpus.resource, gpus.count))


def fitting(nodes: Iterable[KubeNode], pool: Pool) -> list[KubeNode]:
    """Return the machines that are of the pool's kind, and whose taints let its pods in. Most have none."""
    lets_in = functools.cache(lambda taints: tolerates(pool, taints))  # thousands have the same
    return [node for node in of_kind(nodes, pool) if not node.taints or lets_in(node.taints)]


def of_kind(nodes: Iterable[KubeNode], pool: Pool) -> list[KubeNode]:
    """Return the machines that are of the pool's kind. A slurmd asks for all GPUs of its machine: none is left over."""
    gpus, wanted = pool.machine.gpus, pool.node_selector.items()
    found = [node for node in nodes if wanted <= node.labels.items()] if wanted else nodes
    if gpus is None:
        return [node for node in found if not node.gpus]
    resource, count = gpus.resource, gpus.count
    return [node for node in found if int(node.allocatable.get(resource, "0")) == count]


def fits(node: KubeNode, pool: Pool) -> bool:
    """Tell whether a machine is of the pool's kind, and lets its pods in."""
    return bool(of_kind((node,), pool)) and tolerates(pool, node.taints)


def tolerates(pool: Pool, taints: Iterable[Taint]) -> bool:
    """Tell whether taints let the pool's pods in.

    That of a resource which they ask for does: where it is set, Kubernetes adds the toleration (admission plugin
    ExtendedResourceToleration).
    """
    gpus = pool.machine.gpus
    own = gpus and gpus.resource
    return all(taint.key == own or any(_tolerates(one, taint) for one in pool.tolerations) for taint in taints)


def misfit(node: KubeNode, pool: Pool) -> str:
    """Say why a machine does not fit a pool whose ``nodeSelector`` chooses it; empty if it fits, or is not chosen."""
    if not pool.node_selector.items() <= node.labels.items():
        return ""
    if not of_kind((node,), pool):
        gpus = pool.machine.gpus
        return f"has {node.gpus or 'no GPU'}, machine says {f'{gpus.count} {gpus.resource}' if gpus else 'none'}"
    keeps_off = next((taint.key for taint in node.taints if not tolerates(pool, (taint,))), "")
    return f"has the taint {keeps_off}, which the pool does not tolerate" if keeps_off else ""


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    if toleration.get("effect") not in {None, "", taint.effect} or toleration.get("key") not in {None, "", taint.key}:
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == taint.value
