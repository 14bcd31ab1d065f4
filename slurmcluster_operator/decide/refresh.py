"""Which pods' kubelets must look again now: at changed configuration, or after a passing error at the start."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import AnnotatePod
from slurmcluster_operator.model.kube import Pod
from slurmcluster_operator.model.observed import Observed

_READERS: Final = (names.CONTROLLER, names.ACCOUNTING, names.LOGIN, names.SLURMD)
"""Parts whose pods mount what may change, slurmctld's first: it is the one that everything else waits for."""

AT_ONCE: Final = 200
"""Pods that one look refreshes. A look that told ten thousand of them would see nothing else for half a minute."""

NUDGE_AFTER: Final = timedelta(seconds=1)
NUDGE_UNTIL: Final = timedelta(seconds=30)
"""What lasts longer is no passing error."""


def refresh(observed: Observed, content_hash: str) -> Iterator[AnnotatePod]:
    """Yield the pods that carry another hash than the configuration that was just applied.

    A kubelet looks at ConfigMaps again within a minute or two by itself, but at once when its pod changes.
    """
    pods = (pod for part in _READERS for pod in observed.of(part))
    behind = (pod for pod in pods if not pod.deleting and pod.annotations.get(names.HASH_ANNOTATION) != content_hash)
    for pod in islice(behind, AT_ONCE):
        yield AnnotatePod(pod.name, names.HASH_ANNOTATION, content_hash)


def nudge(observed: Observed, now: datetime) -> Iterator[AnnotatePod]:
    """Yield the pods that are placed but have not begun to start.

    A kubelet that is told of a pod before the API server lets it read the pod's volumes ("no relationship found
    between node and this object") tries again only 10 to 15 s later.
    """
    for pod in observed.pods:
        if _stalled(pod) and now - _last_look(pod) >= NUDGE_AFTER and now - pod.created <= NUDGE_UNTIL:
            yield AnnotatePod(pod.name, names.NUDGE_ANNOTATION, now.isoformat())


def _stalled(pod: Pod) -> bool:
    if pod.phase != "Pending" or not pod.node_name or pod.deleting or pod.ever_started:
        return False
    return all(one.waiting in {"", "ContainerCreating", "PodInitializing"} for one in pod.containers)


def _last_look(pod: Pod) -> datetime:
    stamp = pod.annotations.get(names.NUDGE_ANNOTATION)
    return max(pod.created, datetime.fromisoformat(stamp)) if stamp else pod.created
