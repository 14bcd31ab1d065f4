"""Waiting for the cluster to become what it should be, and saying why when it does not."""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from localkube import machines, plan
from localkube.api import Api
from localkube.console import step
from localkube.errors import LocalkubeError
from localkube.layout import State
from localkube.plan import Node
from localkube.shell import log_tail

_API_SECONDS = 90
_NODE_SECONDS = 120
_PAUSE = 0.2


def for_api(api: Api, state: State) -> None:
    """Wait for the API server."""
    with step("API server"):
        _until(api.ready, _API_SECONDS, lambda: _failure(state, plan.CONTROL_PLANE, ("etcd", "kube-apiserver")))


def for_nodes(api: Api, state: State, nodes: Sequence[Node]) -> None:
    """Wait until every node takes pods and offers its GPUs."""
    pending = {node.name: node for node in nodes}

    def look() -> bool:
        objects = api.nodes()
        for node in list(pending.values()):
            seen = objects.get(node.name)
            if seen and not seen["spec"].get("podCIDR"):
                api.set_pod_cidr(node.name, node.pod_cidr)
            since = machines.started_at(state.machine(node.name))
            if seen and serves(seen, node.gpus, since) and api.kubelet_ready(node.address):
                del pending[node.name]
        return not pending

    _until(look, _NODE_SECONDS, lambda: _failure(state, next(iter(pending)), ("containerd", "kubelet")))


def for_next_second() -> None:
    """Wait until the second is over in which a kubelet may have written for the last time.

    Node objects tell seconds only: what the next kubelet writes is told from it by being of a later one.
    """
    time.sleep(1 - time.time() % 1)


def serves(node: dict[str, Any], gpus: int, since: datetime) -> bool:
    """Tell whether a Node object is ready, offers this many GPUs, and was written by the kubelet that runs now."""
    offered = int(node["status"].get("allocatable", {}).get("nvidia.com/gpu", "0"))
    ready = any(
        condition["type"] == "Ready"
        and condition["status"] == "True"
        and datetime.fromisoformat(condition["lastHeartbeatTime"]) >= since.replace(microsecond=0)
        for condition in node["status"].get("conditions", [])
    )
    return ready and offered >= gpus


def _until(done: Callable[[], bool], seconds: float, failure: Callable[[], LocalkubeError]) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise failure()
        time.sleep(_PAUSE)


def _failure(state: State, machine: str, names: Sequence[str]) -> LocalkubeError:
    """Show the logs of what keeps failing first, else of what should have worked."""
    folder = state.machine(machine)
    restarted = [name for name, seen in machines.statuses(folder).items() if seen["starts"] > 1]
    logs = [log_tail(folder.logs / f"{name}.log") for name in restarted or names]
    return LocalkubeError(
        f"{machine} is not ready in time",
        log="\n".join(logs),
        advice=f"All its logs are in {folder.logs}. `python3 -m localkube down`, then `up`, starts from nothing.",
    )
