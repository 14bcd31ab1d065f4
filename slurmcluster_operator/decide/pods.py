"""Why a pod is not ready, in one word for programs and a sentence for people."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from slurmcluster_operator.model.kube import Pod

_PULL_REASONS: Final = frozenset({"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"})


LINGERS: Final = timedelta(minutes=5)
"""After how long it is told that a pod which was asked to go is still there."""


def stays(pod: Pod | None, now: datetime, patience: timedelta = LINGERS) -> str:
    """Say that a pod which was asked to go is still there; empty while it has not had its time, in which most go."""
    if pod is None or pod.asked_to_go is None or now - pod.asked_to_go < patience:
        return ""
    asked = f"pod {pod.name} was asked to go at {pod.asked_to_go:%H:%M:%S} UTC and is still there"
    return f"{asked}: job steps are left in it, or its kubelet does not answer"


def pod_problem(pod: Pod) -> tuple[str, str]:
    """Say in one word and in one sentence why a pod is not ready."""
    if pod.deleting:
        return "Terminating", f"pod {pod.name} is being removed"
    if pod.phase == "Failed":
        return "Crashing", f"pod {pod.name} has failed ({pod.failure or 'its containers have ended'})"
    if problem := _container_problem(pod):
        return problem
    if pod.unschedulable:
        return "Unschedulable", f"pod {pod.name}: {pod.unschedulable}"
    waiting = next((one for one in pod.containers if not one.ready), None)
    return "Starting", f"pod {pod.name} is starting" + (f" (container {waiting.name})" if waiting else "")


def _container_problem(pod: Pod) -> tuple[str, str] | None:
    """Say what is wrong with a container; an image that cannot be pulled explains what else is missing."""
    for one in sorted(pod.containers, key=lambda one: one.waiting not in _PULL_REASONS):
        if one.waiting in _PULL_REASONS:
            return "ImageNotPullable", f"pod {pod.name}, container {one.name}: {one.message or one.waiting}"
        if one.waiting == "CreateContainerConfigError":
            return "ConfigMissing", f"pod {pod.name}, container {one.name}: {one.message}"
        if one.waiting == "CrashLoopBackOff":
            return "Crashing", f"pod {pod.name}, container {one.name} ended {one.restarts} times: {one.message}"
    return None
