"""What the operator costs while nothing happens."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from hack.kube import Kubectl

NAMESPACE: Final = "slurmcluster-system"
_SELECTOR: Final = "app.kubernetes.io/component=operator"
_NANO: Final = 1e9
_MIB: Final = 1024 * 1024

# API Priority and Fairness files every service account outside kube-system under this one: here only the operator.
_DISPATCHED: Final = re.compile(
    r'^apiserver_flowcontrol_dispatched_requests_total\{flow_schema="service-accounts"[^}]*\} ([0-9.e+]+)$',
    re.MULTILINE,
)


@dataclass(frozen=True)
class Usage:
    """What the operator had used by a moment."""

    at: float
    memory: float
    """Working set in MiB."""
    cpu: float
    """Core seconds."""
    calls: float


@dataclass(frozen=True)
class Idle:
    """What it costs."""

    memory: float
    millicores: float
    calls_per_minute: float


def measure(kubectl: Kubectl, quiet: float, length: float) -> Idle:
    """Wait until things have settled, then watch for a while."""
    time.sleep(quiet)
    before = _usage(kubectl)
    time.sleep(length)
    return between(before, _usage(kubectl))


def between(before: Usage, after: Usage) -> Idle:
    """Return the cost from two moments."""
    spent = after.at - before.at
    return Idle(
        memory=after.memory,
        millicores=(after.cpu - before.cpu) / spent * 1000,
        calls_per_minute=(after.calls - before.calls) / spent * 60,
    )


def pod_usage(summary: Mapping[str, Any], name: str) -> tuple[float, float, float]:
    """Read one pod's time of measurement, memory and processor time from a kubelet's summary."""
    pod = next(
        one for one in summary["pods"] if one["podRef"] == {**one["podRef"], "namespace": NAMESPACE, "name": name}
    )
    taken = datetime.fromisoformat(pod["cpu"]["time"]).timestamp()
    return taken, pod["memory"]["workingSetBytes"] / _MIB, pod["cpu"]["usageCoreNanoSeconds"] / _NANO


def calls(metrics: str) -> float:
    """Sum up the requests of service accounts."""
    return sum(float(value) for value in _DISPATCHED.findall(metrics))


def _usage(kubectl: Kubectl) -> Usage:
    (pod,) = kubectl.get("pods", "-n", NAMESPACE, "-l", _SELECTOR)["items"]
    path = f"/api/v1/nodes/{pod['spec']['nodeName']}/proxy/stats/summary"
    summary = json.loads(kubectl.text("get", "--raw", path))
    taken, memory, cpu = pod_usage(summary, pod["metadata"]["name"])
    return Usage(taken, memory, cpu, calls(kubectl.text("get", "--raw", "/metrics")))
