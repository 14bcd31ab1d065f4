"""Which pods' kubelets must look again now: at changed configuration, or after a passing error at the start."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import AnnotatePod
from slurmcluster_operator.model.kube import Pod
from slurmcluster_operator.model.observed import Observed

_READERS: Final = frozenset({names.CONTROLLER, names.LOGIN, names.SLURMD, names.ACCOUNTING})

NUDGE_AFTER: Final = timedelta(seconds=1)
NUDGE_UNTIL: Final = timedelta(seconds=30)
"""What lasts longer is no passing error."""


def refresh(observed: Observed, content_hash: str) -> Iterator[AnnotatePod]:
    """Yield the pods that carry another hash than the configuration that was just applied.

    A kubelet looks at ConfigMaps again within a minute or two by itself, but at once when its pod changes.
    """
    for pod in observed.pods:
        if (
            pod.component in _READERS
            and not pod.deleting
            and pod.annotations.get(names.HASH_ANNOTATION) != content_hash
        ):
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
