"""``python -m slurmcluster_operator why JOBID``: why a job does not run, asked of slurmctld through slurmrestd."""

from __future__ import annotations

import re
import time
from typing import Final

from slurmcluster_operator.api.group import API_VERSION, KIND
from slurmcluster_operator.explain import explain_all
from slurmcluster_operator.kube.client import ApiError, Kube, path_of
from slurmcluster_operator.model import wire
from slurmcluster_operator.model.names import Names
from slurmcluster_operator.runtime.rest import connect
from slurmcluster_operator.settings import Settings
from slurmcluster_operator.slurm.client import SlurmError

_NUMBER: Final = re.compile(r"[0-9]{1,10}([_+][0-9]{1,10})?")
"""123, 123_7 (a task of an array) or 123+1 (a part of a heterogeneous job)."""


async def why(settings: Settings, namespace: str, cluster: str, job: str) -> str:
    """Return two to four sentences. Raises ``ValueError`` that says what to do instead."""
    if not _NUMBER.fullmatch(job):
        raise ValueError(f"{job!r} is no job number: write 123, 123_7 (array) or 123+1 (heterogeneous)")
    async with await Kube.connect() as kube:
        try:
            found = await _find(kube, namespace, cluster)
            rest = await connect(kube, settings.platform, found)
        except ApiError as error:
            raise ValueError(str(error)) from error
    try:
        jobs = await rest.records(f"job/{job}", "jobs")
        nodes = await rest.records("nodes/", "nodes")
    except SlurmError as error:
        raise ValueError(f"{found.namespace}/{found.cluster}: {error}") from error
    finally:
        await rest.close()
    if not jobs:
        forgets = "Slurm forgets jobs some minutes after their end"
        raise ValueError(f"{found.namespace}/{found.cluster}: there is no job {job}: {forgets}")
    return explain_all(jobs, nodes, time.time())


async def _find(kube: Kube, namespace: str, cluster: str) -> Names:
    """Return the SlurmCluster that is meant: the one that fits what was said of it."""
    listed = [item["metadata"] async for item in kube.listing(path_of(API_VERSION, KIND), {}, wire.Marked)]
    known = [Names(one["namespace"], one["name"]) for one in listed]
    fitting = [one for one in known if namespace in {"", one.namespace} and cluster in {"", one.cluster}]
    if len(fitting) == 1:
        return fitting[0]
    there = ", ".join(f"{one.namespace}/{one.cluster}" for one in known) or "none"
    raise ValueError(f"say which SlurmCluster, with --namespace and --cluster; there are: {there}")
