"""The nodes that a job may use, and what each is busy with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .records import Record, count, flags, host_list, hosts, listed, text

OPERATOR = "slurmcluster:"
"""What the operator's own reasons and comments begin with."""

_NOT_STARTED = "ResumeTimeout reached"
"""Slurm's own reason for a node that did not come up in time. The operator resumes it."""
_LOST = "Not responding"
"""Slurm's own reason for a node whose slurmd no longer answers."""

_GROUPS_SHOWN = 5
_NOTES_SHOWN = 3
_BUSY = frozenset({"ALLOCATED", "MIXED"})


def candidates(job: Record, nodes: Sequence[Record]) -> list[Record]:
    """Return the nodes that the job asks for: by name, or by partition, constraint and GPUs."""
    excluded = set(hosts(text(job, "excluded_nodes")))
    required = set(hosts(text(job, "required_nodes")))
    partitions = set(text(job, "partition").split(","))
    fitting = [
        node
        for node in nodes
        if node["name"] not in excluded
        and partitions & set(node.get("partitions") or ())
        and _has_features(node, text(job, "features"))
        and _has_gres(node, job)
    ]
    named = [node for node in nodes if node["name"] in required]
    return named if required and len(required) >= wanted(job) else [*named, *(n for n in fitting if n not in named)]


def wanted(job: Record) -> int:
    """Return how many nodes the job asks for, at least one."""
    match = re.search(r"(?:^|,)node=(\d+)", text(job, "tres_req_str"))
    return int(match[1]) if match else 1


def _has_features(node: Record, constraint: str) -> bool:
    # Counts and alternatives among groups (`[a*2&b*2]`, `[a|b]`) concern several nodes: each may be any of them.
    words = {word for word in re.split(r"[&|,()\[\]]+", re.sub(r"\*\d+", "", constraint)) if word}
    have = set(node.get("features") or ())
    if "|" in constraint or "[" in constraint:
        return bool(have & words)
    return have >= words


def _has_gres(node: Record, job: Record) -> bool:
    has = text(node, "gres")
    for key in ("tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task"):
        for match in re.finditer(r"gres[/:]([A-Za-z_]+)(?:[:/]([A-Za-z_][\w.-]*))?", text(job, key)):
            name, kind = match[1], match[2]
            if not re.search(rf"(?:^|,){re.escape(name)}(?::{re.escape(kind)})?(?=[:(,]|$)" if kind else name, has):
                return False
            if kind and f"{name}:{kind}" not in has:
                return False
    return True


def condition(node: Record) -> tuple[str, str]:
    """Return what keeps a node, and the reason written on it, if that matters."""
    state, reason = flags(node, "state"), text(node, "reason")
    known = (
        ({"DOWN"}, "down", reason),
        ({"INVALID_REG"}, "misfitting", reason),
        ({"DRAIN"}, "draining" if state & _BUSY else "drained", reason),
        ({"FAIL"}, "failing", reason),
        ({"MAINTENANCE", "RESERVED"}, "reserved", text(node, "reservation")),
        ({"POWERING_UP", "POWER_UP"}, "being started", ""),
        ({"POWERING_DOWN"}, "being stopped", ""),
        ({"ALLOCATED"}, "busy", ""),
        ({"MIXED"}, "partly busy", ""),
        ({"COMPLETING"}, "cleaning up after a job", ""),
        ({"POWERED_DOWN", "POWER_DOWN"}, "powered off, ready to be started", ""),
        ({"NOT_RESPONDING"}, "not responding", ""),
        ({"PLANNED"}, "kept for a job that comes before it", ""),
    )
    return next(((what, why) for any_of, what, why in known if state & any_of), ("free", ""))


def describe(job: Record, nodes: Sequence[Record], *, told: bool = False) -> str:
    """Say in a sentence or two what the nodes that the job may use are busy with.

    ``told`` means that the operator's own words follow: then it need not be said that it does something.
    """
    usable = candidates(job, nodes)
    if not nodes:
        return "What its nodes are busy with is not known at the moment."
    if not usable:
        return "No node of its partition fits what it asks for."
    groups: dict[tuple[str, str], list[str]] = {}
    for node in usable:
        groups.setdefault(condition(node), []).append(node["name"])
    order = sorted(groups.items(), key=lambda item: -len(item[1]))
    parts = [_group(what, why, names) for (what, why), names in order[:_GROUPS_SHOWN]]
    if rest := sum(len(names) for _, names in order[_GROUPS_SHOWN:]):
        parts.append(f"{rest} otherwise")
    head = "The node that it may use is" if len(usable) == 1 else f"Of the {len(usable)} nodes that it may use,"
    if len(usable) == 1:
        said = parts[0].removeprefix("1 ")
    else:
        said = listed([part.replace(" ", " is " if part.startswith("1 ") else " are ", 1) for part in parts])
    return f"{head} {said}.{_done_about(groups, told=told)}"


def _group(what: str, why: str, names: Iterable[str]) -> str:
    names = list(names)
    note = host_list(names)
    if why:
        note += f": {why.removeprefix(OPERATOR).strip()}"
    return f"{len(names)} {what} ({note})"


def _done_about(groups: dict[tuple[str, str], list[str]], *, told: bool) -> str:
    """Say in one sentence who lifts what keeps the nodes."""
    kept = {(what, why) for what, why in groups if what in {"drained", "draining", "down", "failing", "misfitting"}}
    ours = {pair for pair in kept if pair[1].startswith(OPERATOR) or _is_down(pair, _NOT_STARTED)}
    lost = {pair for pair in kept if _is_down(pair, _LOST)}
    said = []
    if ours and not told:
        said.append("The operator tries again by itself")
    if names := _all_names(groups, kept - ours - lost):
        said.append(f"{'only' if said else 'Only'} an administrator can bring back {host_list(names)}")
    if len(names := _all_names(groups, lost)) == 1:
        said.append(f"{host_list(names)} comes back once its pod is confirmed gone or its slurmd answers")
    elif names:
        said.append(f"{host_list(names)} come back once their pods are confirmed gone or their slurmd answer")
    return f" {'; '.join(said)}." if said else ""


def _is_down(pair: tuple[str, str], reason: str) -> bool:
    what, why = pair
    return what == "down" and why.startswith(reason)


def _all_names(groups: dict[tuple[str, str], list[str]], chosen: set[tuple[str, str]]) -> list[str]:
    return [name for pair, names in groups.items() if pair in chosen for name in names]


def starting(job: Record, nodes: Sequence[Record]) -> str:
    """Say which of a job's own nodes are not there yet."""
    mine = set(hosts(text(job, "nodes")))
    groups: dict[str, list[str]] = {}
    notes: list[str] = []
    for node in nodes:
        if node["name"] not in mine:
            continue
        state = flags(node, "state")
        if state & {"POWERING_UP", "POWERED_DOWN", "POWER_UP", "POWERING_DOWN", "NOT_RESPONDING", "DOWN"}:
            groups.setdefault("missing", []).append(node["name"])
            said = text(node, "comment") or (text(node, "reason") if state & {"DOWN", "DRAIN"} else "")
            if said.startswith(OPERATOR):
                notes.append(f"{node['name']}: {said.removeprefix(OPERATOR).strip().rstrip('.')}")
        else:
            groups.setdefault("up", []).append(node["name"])
    missing = groups.get("missing", [])
    if not missing:
        return "All of them are up, and slurmctld launches it now."
    up = f"; {host_list(groups['up'])} {'is' if len(groups['up']) == 1 else 'are'} up" if "up" in groups else ""
    verb = "is" if len(missing) == 1 else "are"
    more = f"; and {len(notes) - _NOTES_SHOWN} more" if len(notes) > _NOTES_SHOWN else ""
    why = f" {'; '.join(notes[:_NOTES_SHOWN])}{more}." if notes else ""
    return f"{host_list(missing)} {verb} being started{up}.{why}"


def amount(job: Record) -> str:
    """Write how many nodes the job asks for."""
    return count(wanted(job), "node")
