"""A job in two or three sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .nodes import OPERATOR, starting
from .pending import Case, add, why
from .records import Record, flags, host_list, hosts, moment, number, span, text

_ENDED: Final = {
    "COMPLETED": "has ended without error",
    "CANCELLED": "was cancelled",
    "FAILED": "has failed",
    "TIMEOUT": "was ended at its time limit",
    "OUT_OF_MEMORY": "was ended because it used more memory than it asked for",
    "NODE_FAIL": "was lost with one of its nodes",
    "BOOT_FAIL": "was lost because a node did not start",
    "PREEMPTED": "gave way to a job of higher priority",
    "DEADLINE": "was ended at its deadline",
    "LAUNCH_FAILED": "could not be launched",
    "RECONFIG_FAIL": "was lost because a node could not be reconfigured",
    "REVOKED": "runs on another cluster",
}


def explain(job: Record, nodes: Sequence[Record], now: float, ahead: int | None = None) -> str:
    """Say why a job is not running and what is being done about it.

    ``job`` and ``nodes`` are as slurmrestd and ``scontrol --json`` print them; ``now`` is seconds since the epoch;
    ``ahead`` is the number of jobs with a higher priority in its partition, where known.
    """
    state = flags(job, "job_state")
    ended = next((words for flag, words in _ENDED.items() if flag in state), None)
    if ended:
        said = _end(job, ended, state, now)
    elif "PENDING" in state:
        said = f"is pending: {_lower(why(Case(job, nodes, now, ahead)))}"
    elif "CONFIGURING" in state:
        said = _configuring(job, nodes, now)
    else:
        said = _on_its_nodes(job, state, now)
    return f"{_title(job)} {said}"


def _lower(sentence: str) -> str:
    """Return a sentence as it stands after a colon."""
    return sentence if sentence.startswith("Slurm") else sentence[0].lower() + sentence[1:]


def _on_its_nodes(job: Record, state: frozenset[str], now: float) -> str:
    where = text(job, "nodes")
    if "COMPLETING" in state:
        return f"has ended, and its nodes ({where}) are being cleaned up."
    if "SUSPENDED" in state:
        return f"is suspended. It keeps its nodes ({where}) and goes on when it is resumed."
    if "RUNNING" in state:
        if text(job, "state_reason") == "Prolog":
            return f"has its nodes ({where}), and they make ready for it."
        start = number(job, "start_time")
        since = f" since {moment(start, now)} ({span(now - start)})" if start else ""
        return f"is running on {where}{since}."
    return f"is {', '.join(sorted(state)).lower() or 'in no state that Slurm names'}."


def _title(job: Record) -> str:
    array, task = int(number(job, "array_job_id") or 0), number(job, "array_task_id")
    if array and task is not None:
        return f"Job {array}_{int(task)}"
    if array and text(job, "array_task_string"):
        return f"Job {array}_[{text(job, 'array_task_string')}]"
    if first := int(number(job, "het_job_id") or 0):
        return f"Job {first}+{int(number(job, 'het_job_offset') or 0)}"
    return f"Job {job['job_id']}"


def _end(job: Record, words: str, state: frozenset[str], now: float) -> str:
    end = number(job, "end_time")
    at = f" at {moment(end, now)}" if end else ""
    code = job.get("exit_code")
    status = number(code, "return_code") if isinstance(code, dict) else None
    with_code = f" with exit code {int(status)}" if status and "FAILED" in state else ""
    detail = text(job, "state_reason") if state & {"NODE_FAIL", "LAUNCH_FAILED", "BOOT_FAIL"} else ""
    because = f" ({detail})" if detail and detail != "None" else ""
    return f"{words}{with_code}{at}{because}."


def _configuring(job: Record, nodes: Sequence[Record], now: float) -> str:
    start = number(job, "start_time")
    waited = f" {span(now - start)} ago" if start else ""
    said = f"got its nodes ({host_list(hosts(text(job, 'nodes')))}){waited} and starts when all of them are up."
    said += f" {starting(job, nodes)}"
    comment = text(job, "admin_comment")
    if comment.startswith(OPERATOR):
        said = add(said, f"The operator says: {comment.removeprefix(OPERATOR).strip().rstrip('.')}.")
    return said


def explain_all(jobs: Sequence[Record], nodes: Sequence[Record], now: float, ahead: int | None = None) -> str:
    """Explain the records that one job number stands for: array tasks, or the parts of a heterogeneous job."""
    if len(jobs) == 1:
        return explain(jobs[0], nodes, now, ahead)
    paragraphs = [explain(job, nodes, now, ahead) for job in jobs if not _quiet(job)]
    running = sum("RUNNING" in flags(job, "job_state") for job in jobs if _quiet(job))
    ended = sum(_quiet(job) for job in jobs) - running
    counts = [f"{running} running" if running else "", f"{ended} ended" if ended else ""]
    if any(counts):
        paragraphs.insert(0, f"Of its parts: {', '.join(part for part in counts if part)}.")
    if any(number(job, "het_job_id") for job in jobs) and len(paragraphs) > 1:
        paragraphs.append("All parts of a heterogeneous job start together.")
    return "\n".join(dict.fromkeys(paragraphs))


def _quiet(job: Record) -> bool:
    """Tell whether there is nothing to explain: it runs or has ended."""
    state = flags(job, "job_state")
    return bool(state & _ENDED.keys()) or ("RUNNING" in state and "CONFIGURING" not in state)
