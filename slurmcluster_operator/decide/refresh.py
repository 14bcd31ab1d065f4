"""Which pods must be told to look at their mounted configuration again."""

from __future__ import annotations

from collections.abc import Iterator

from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import RefreshPod
from slurmcluster_operator.model.observed import Observed

_READERS = frozenset({names.CONTROLLER, names.LOGIN, names.SLURMD, names.ACCOUNTING})


def refresh(observed: Observed, content_hash: str) -> Iterator[RefreshPod]:
    """Yield the pods that carry another hash than the configuration that was just applied.

    A kubelet looks at ConfigMaps again within a minute or two by itself, but at once when its pod changes.
    """
    for pod in observed.pods:
        if (
            pod.component in _READERS
            and not pod.deleting
            and pod.annotations.get(names.HASH_ANNOTATION) != content_hash
        ):
            yield RefreshPod(pod.name, content_hash)
