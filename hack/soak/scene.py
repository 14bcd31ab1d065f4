"""What the soak plays with: a Slurm cluster with elastic pools, and Kubernetes Jobs that fill every idle node. Pure."""

from collections.abc import Iterable
from typing import Any, Final

Json = dict[str, Any]

NAMESPACE: Final = "soak"
NAME: Final = "soak"
USER: Final = "alice"
CLUSTER: Final = f"{NAMESPACE}.{NAME}"
FLEET: Final = "slurmcluster.dev/fleet"

OTHERS: Final = "soak-others"
"""Namespace of the Kubernetes Jobs, and the name of the Job and of its PriorityClass."""
PRIORITY: Final = -10
AT_ONCE: Final = 5
"""Pods of the Kubernetes Job: one a worker, and one that waits for the next free worker."""
SHORTEST, LONGEST = 5, 20
"""Seconds that one of these pods runs."""

NODES: Final = 2
"""Workers of each pool."""
GPUS: Final = 8
MODELS: Final = {"h100": "NVIDIA-H100-80GB-HBM3", "a100": "NVIDIA-A100-SXM4-80GB"}
"""The pools, and the machines of each."""
WORKERS: Final = NODES * len(MODELS)
PATIENT: Final = "h100"
"""The pool that waits until its nodes are empty; the other one asks the pods there to leave."""
IDLE_SECONDS: Final = 10
RETURN_SECONDS: Final = 5
_SYSTEM: Final = {"localkube.dev/role": "system"}
_PRODUCT: Final = "nvidia.com/gpu.product"


class NoWorkersError(Exception):
    """The cluster does not have the nodes that the soak needs."""


def choose(nodes: Iterable[Json]) -> list[str]:
    """Choose the workers from all nodes: for each pool two that are granted to nobody else. Raises NoWorkersError."""
    free: dict[str, list[str]] = {}
    for node in nodes:
        labels = node["metadata"].get("labels", {})
        if labels.get(FLEET, CLUSTER) == CLUSTER:
            free.setdefault(labels.get(_PRODUCT, ""), []).append(node["metadata"]["name"])
    chosen = []
    for pool, model in MODELS.items():
        found = sorted(free.get(model, ()))[:NODES]
        if len(found) < NODES:
            raise NoWorkersError(
                f"pool {pool} needs {NODES} {model} nodes that are granted to no other cluster; there are: "
                f"{', '.join(found) or 'none'}. Start another cluster beside this one with LOCALKUBE_INSTANCE=1"
            )
        chosen += found
    return chosen


def slurm_cluster(public_key: str) -> tuple[Json, ...]:
    """Return the namespace and the SlurmCluster. Its parts stay off the workers, whose power is cut."""
    placed = {"nodeSelector": _SYSTEM}
    spec = {
        "controller": {**placed, "storage": {"size": "1Gi"}},
        "accounting": {**placed, "database": {"embedded": {**placed, "storage": {"size": "1Gi"}}}},
        "restApi": placed,
        "login": placed,
        "home": {"size": "1Gi"},
        "users": [{"name": USER, "uid": 2001, "sshKeys": [public_key.strip()]}],
        "pools": [_pool(name) for name in MODELS],
        "partitions": [{"name": name, "pools": [name], "overSubscribe": "EXCLUSIVE"} for name in MODELS],
    }
    return (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "slurmcluster.dev/v1alpha1",
            "kind": "SlurmCluster",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": spec,
        },
    )


def _pool(name: str) -> Json:
    evict = {"policy": "Evict", "belowPriority": 0, "deadline": "2m"}
    return {
        "name": name,
        "nodes": {"min": 0, "max": NODES},
        "machine": {"cpus": 2, "memory": "1Gi", "gpus": {"type": name, "count": GPUS}},
        "nodeSelector": {_PRODUCT: MODELS[name]},
        "sharing": "Elastic",
        "reclaim": {"policy": "WhenEmpty"} if name == PATIENT else evict,
        "idleTimeout": f"{IDLE_SECONDS}s",
        "returnAfter": f"{RETURN_SECONDS}s",
        "startTimeout": "3m",
    }


def kubernetes_jobs(image: str) -> tuple[Json, ...]:
    """Return a Job without end whose pods take a whole worker each, with its namespace and PriorityClass."""
    span = LONGEST - SHORTEST + 1
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["bash", "-c", f"exec sleep $(({SHORTEST} + RANDOM % {span}))"],
        "resources": {"limits": {"nvidia.com/gpu": str(GPUS)}},
    }
    pod = {
        "priorityClassName": OTHERS,
        "nodeSelector": {FLEET: CLUSTER},
        "restartPolicy": "Never",
        # A container that was made, but not begun, when its node lost power keeps such a pod Pending for ever
        # (kubernetes/kubernetes#118321); a pool that waits until its nodes are empty would wait as long.
        "activeDeadlineSeconds": 3 * LONGEST,
        # The sleep does not heed a polite request: a pod that is asked to leave takes this long.
        "terminationGracePeriodSeconds": 2,
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    spec = {
        "completionMode": "Indexed",
        "completions": 100_000,
        "parallelism": AT_ONCE,
        # What is evicted or deleted is run again, and others do not wait meanwhile.
        "backoffLimitPerIndex": 100,
        "template": {"spec": pod},
    }
    return (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OTHERS}},
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": OTHERS},
            "value": PRIORITY,
        },
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": OTHERS, "namespace": OTHERS},
            "spec": spec,
        },
    )


def batch_script(name: str, pool: str, nodes: int, seconds: float) -> str:
    """Return a Slurm job that says in a file of its own when it starts and ends on each of its nodes."""
    return f"""\
#!/bin/bash
#SBATCH --job-name={name} --partition={pool} --nodes={nodes} --gpus-per-node={GPUS} --requeue --output=/dev/null
note() {{ for host in $(scontrol show hostnames); do echo "$1 $host $(date +%s.%N)"; done >>~/{name}.log; }}
note start
sleep {seconds:.1f}
note end
"""
