"""Why a job is pending, reason by reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from . import limits
from .nodes import OPERATOR, amount, candidates, condition, describe
from .records import Record, moment, number, span, text

_SOON: Final = 7 * 86400
"""Starts that slurmctld plans later than this are guesses: jobs without a time limit count as a year."""


_ENOUGH: Final = 3
"""Sentences, that which names the job among them: what follows is joined to the last."""

_LOOKED_AT: Final = 5
"""Seconds after which slurmctld has surely looked at a new job once."""

_PUT_BACK: Final = "It had begun to start, but a node failed or could not be started, so it was put back"


@dataclass(frozen=True)
class Case:
    """A waiting job and what is known beside it."""

    job: Record
    nodes: Sequence[Record]
    now: float
    ahead: int | None
    """Pending jobs of the same partition with higher priority, where they were counted."""

    @property
    def name(self) -> str:
        """What its owner calls it in commands."""
        array = int(number(self.job, "array_job_id") or 0)
        return str(array or self.job["job_id"])

    @property
    def told(self) -> str:
        """The operator's own words about it, without a full stop; empty if there are none."""
        comment = text(self.job, "admin_comment")
        return comment.removeprefix(OPERATOR).strip().rstrip(".") if comment.startswith(OPERATOR) else ""


def _resources(case: Case) -> str:
    return _and_plan(case, f"It needs {amount(case.job)}. {_nodes(case)}")


def _new(case: Case) -> str:
    # A job that is put back is given a new submit time.
    if case.now - (number(case.job, "submit_time") or 0) >= _LOOKED_AT:
        return _resources(case)
    if number(case.job, "restart_cnt"):
        return f"{_PUT_BACK}; slurmctld looks at it in a moment.{_failed_starts(case)}"
    return "It has just been submitted, and slurmctld looks at it in a moment."


def _priority(case: Case) -> str:
    if case.ahead:
        others = "1 job has" if case.ahead == 1 else f"{case.ahead} jobs have"
        first = f"Its turn has not come ({others} a higher priority in partition {text(case.job, 'partition')})."
    else:
        first = f"Its turn has not come (other jobs in partition {text(case.job, 'partition')} come first)."
    return _and_plan(case, f"{first} {_nodes(case)}")


def _nodes(case: Case) -> str:
    return describe(case.job, case.nodes, told=bool(case.told))


def _and_plan(case: Case, said: str) -> str:
    """Add when slurmctld means to start it, unless the operator's words follow: these matter more."""
    start = number(case.job, "start_time") or 0
    if case.told or not case.now < start < case.now + _SOON:
        return said
    return add(said, f"slurmctld expects to start it at {moment(start, case.now)} at the latest.")


def add(said: str, more: str) -> str:
    """Add a sentence; to the last one where there are enough."""
    if len(re.findall(r"\.(?= |$)", said)) < _ENOUGH:
        return f"{said} {more}"
    return f"{said.removesuffix('.')}; {more[0].lower()}{more[1:]}"


def _dependency(case: Case) -> str:
    parts = re.findall(r"([a-z]+):?([\d_*,:+]*)(?:\((\w+)\))?", text(case.job, "dependency"))
    words = {
        "after": "has started",
        "afterany": "has ended",
        "afterok": "has ended without error",
        "afternotok": "has failed",
        "aftercorr": "has ended without error, task by task",
        "afterburstbuffer": "has saved its data",
    }
    waits = [f"job {jobs} {words[kind]}" for kind, jobs, _ in parts if kind in words and jobs]
    if any(kind == "singleton" for kind, _, _ in parts):
        waits.append("no other job of this name and user runs")
    joined = (" or " if "?" in text(case.job, "dependency") else " and ").join(waits)
    return f"It waits until {joined or 'the jobs that it depends on have ended'}. Nothing else is needed."


def _never(case: Case) -> str:
    return (
        f"It depends on {text(case.job, 'dependency') or 'another job'}, which can never come true any more. "
        f"Cancel it (scancel {case.name}) or drop the dependency (scontrol update jobid={case.name} dependency=)."
    )


def _begin(case: Case) -> str:
    start = number(case.job, "start_time") or number(case.job, "eligible_time") or 0
    left = f"in {span(start - case.now)}, at {moment(start, case.now)}" if start > case.now else "in a moment"
    if number(case.job, "restart_cnt"):
        return f"{_PUT_BACK}; it goes on {left}.{_failed_starts(case)}"
    return f"It was submitted to begin later, {left}."


def _failed_starts(case: Case) -> str:
    """Name the nodes that the operator has found unable to start."""
    failed = [node for node in candidates(case.job, case.nodes) if condition(node)[1].startswith(OPERATOR)]
    return f" {describe(case.job, failed, told=bool(case.told))}" if failed else ""


def _held_by_user(case: Case) -> str:
    return f"Its owner holds it. It goes on with: scontrol release {case.name}"


def _held_by_admin(case: Case) -> str:
    return f"An administrator holds it, and only an administrator can release it (scontrol release {case.name})."


def _held_after_failures(case: Case) -> str:
    return f"Its launch failed too often, so it is held. Mend what it needs, then: scontrol release {case.name}"


def _partition_closed(case: Case) -> str:
    partition = text(case.job, "partition")
    return (
        f"Partition {partition} is closed by an administrator: it takes jobs but starts none. "
        f"Wait, or move the job: scontrol update jobid={case.name} partition=OTHER"
    )


def _partition_time(case: Case) -> str:
    limit = number(case.job, "time_limit")
    asks = f" of {span(limit * 60)}" if limit is not None else ""
    return (
        f"Its time limit{asks} is above what partition {text(case.job, 'partition')} allows, so it never starts "
        f"as it is. Lower it: scontrol update jobid={case.name} timelimit=TIME"
    )


def _partition_nodes(case: Case) -> str:
    return (
        f"It asks for {amount(case.job)}, which is outside the limits of partition {text(case.job, 'partition')}, "
        f"so it never starts as it is. Change it (scontrol update jobid={case.name} numnodes=N) or its partition."
    )


def _licenses(case: Case) -> str:
    return f"The licenses that it asks for ({text(case.job, 'licenses')}) are in use. It starts when they are returned."


def _reservation(case: Case) -> str:
    return (
        f"It belongs to reservation {text(case.job, 'resv_name') or '(none)'}, which has not begun or has no room left."
    )


def _array_limit(case: Case) -> str:
    tasks = text(case.job, "array_task_string")
    return f"As many tasks of its array run as it allows at a time ({tasks}). The next starts when one ends."


def _bad_constraints(case: Case) -> str:
    return f"What it asks for cannot be met by any set of nodes. {_nodes(case)}"


def _cluster_full(case: Case) -> str:
    return f"The cluster runs as many nodes as it may (MaxPoweredUpNodes). {_nodes(case)}"


def _cleaning(_: Case) -> str:
    return "It was put back into the queue, and its last start is still being cleaned up. That takes seconds."


_REASONS: Final[dict[str, Callable[[Case], str]]] = {
    "None": _new,
    "Resources": _resources,
    "ReqNodeNotAvail": _resources,
    "NodeDown": _resources,
    "Priority": _priority,
    "Dependency": _dependency,
    "DependencyNeverSatisfied": _never,
    "BeginTime": _begin,
    "JobHeldUser": _held_by_user,
    "JobHeldAdmin": _held_by_admin,
    "JobHoldMaxRequeue": _held_after_failures,
    "JobLaunchFailure": _held_after_failures,
    "launch_failed_requeued_held": _held_after_failures,
    "PartitionDown": _partition_closed,
    "PartitionInactive": _partition_closed,
    "PartitionTimeLimit": _partition_time,
    "PartitionNodeLimit": _partition_nodes,
    "Licenses": _licenses,
    "Reservation": _reservation,
    "ReservationDeleted": _reservation,
    "JobArrayTaskLimit": _array_limit,
    "BadConstraints": _bad_constraints,
    "MaxPoweredUpNodes": _cluster_full,
    "Cleaning": _cleaning,
}

_REFUSALS: Final = {
    "InvalidAccount": "Its account does not exist or is not its owner's",
    "InvalidQOS": "Its QOS does not exist or is not allowed",
    "QOSNotAllowed": "Its QOS is not allowed in this partition or for its account",
    "AccountNotAllowed": "Its account is not allowed in this partition",
    "QOSUsageThreshold": "Its account has used more than its QOS lets through",
}


def why(case: Case) -> str:
    """Return the sentences for a pending job, the operator's own words last."""
    reason = text(case.job, "state_reason") or "None"
    said = _in_words(case, reason)
    return add(said, f"The operator says: {case.told}.") if case.told else said


def _in_words(case: Case, reason: str) -> str:
    if reason in _REASONS:
        return _REASONS[reason](case)
    if reason in _REFUSALS:
        return f"{_REFUSALS[reason]} ({reason}). Change it: scontrol update jobid={case.name} account=… qos=…"
    limit = limits.in_words(reason, text(case.job, "account"), text(case.job, "qos"))
    if limit is None:
        detail = text(case.job, "state_description")
        return f"Slurm's reason is {reason}{f' ({detail})' if detail and detail != reason else ''}."
    if limits.by_itself(reason):
        return f"{limit} is reached. It starts by itself when other jobs have ended or usage has decayed."
    return f"{limit} does not fit this job, so it never starts as it is. Ask for less, or for another account or QOS."
