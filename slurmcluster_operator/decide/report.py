"""The ledger of the fleet on paper: a table for people, JSON for programs, and its sums."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from slurmcluster_operator.decide.entries import Entry, Slurmd

HEADER: Final = ("NODE", "GRANTED TO", "OWNER", "STATE", "SINCE", "SLURM NODE", "FOREIGN PODS", "WHY")

_NONE: Final = "-"
_GAP: Final = "   "
_PODS_SHOWN: Final = 2
_PROBLEMS_SHOWN: Final = 3

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_YEAR: Final = 365 * _DAY


def table(entries: Sequence[Entry], now: datetime) -> str:
    """Return one line for each entry under a header, as kubectl prints tables."""
    rows = [HEADER, *(_row(entry, now) for entry in entries)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def to_json(entries: Sequence[Entry], totals: Mapping[str, int]) -> str:
    """Return everything that is known of the entries, and their sums."""
    return json.dumps({"nodes": [_json(entry) for entry in entries], "summary": totals}, indent=2, ensure_ascii=False)


def sums(entries: Iterable[Entry]) -> dict[str, int]:
    """Count nodes by who has them, double claims, and nodes with which something is wrong."""
    listed = list(entries)
    states = [entry.state for entry in listed if entry.owner]
    return {
        "granted": sum(bool(entry.granted_to) for entry in listed),
        "owned": states.count("Owned"),
        "claiming": states.count("Claiming"),
        "releasing": states.count("Releasing"),
        "free": sum(bool(entry.granted_to) and not entry.owner for entry in listed),
        "doubleClaims": sum(len(entry.double_claims) for entry in listed),
        "problems": sum(bool(entry.problems) for entry in listed),
    }


def summary(totals: Mapping[str, int]) -> str:
    """Write the sums on one line."""
    names = {"doubleClaims": "double claims", "problems": "nodes with problems"}
    return ", ".join(f"{names.get(what, what)}: {number}" for what, number in totals.items())


def age(seconds: float) -> str:
    """Write a length of time as kubectl does: two units while the first one is small."""
    left = max(0, int(seconds))
    if left < 2 * _MINUTE:
        return f"{left}s"
    for unit, short, part, small, two_until, until in (
        (_MINUTE, "m", 1, "s", 10 * _MINUTE, 3 * _HOUR),
        (_HOUR, "h", _MINUTE, "m", 8 * _HOUR, 2 * _DAY),
        (_DAY, "d", _HOUR, "h", 8 * _DAY, 2 * _YEAR),
    ):
        if left < until:
            rest = left % unit // part if left < two_until else 0
            return f"{left // unit}{short}{f'{rest}{small}' if rest else ''}"
    days = left % _YEAR // _DAY if left < 8 * _YEAR else 0
    return f"{left // _YEAR}y{f'{days}d' if days else ''}"


def _row(entry: Entry, now: datetime) -> tuple[str, ...]:
    return (
        entry.node,
        ",".join(entry.granted_to) or _NONE,
        entry.owner or _NONE,
        entry.state or ("?" if entry.owner else "Free"),
        _NONE if entry.since is None else age((now - entry.since).total_seconds()),
        ", ".join(_slurmd(slurmd, entry.owner) for slurmd in entry.slurmds) or _NONE,
        _pods(entry.foreign),
        _why(entry),
    )


def _slurmd(slurmd: Slurmd, owner: str) -> str:
    """Write a Slurm node and its state, with its cluster where it is not the owner's."""
    whose = "" if slurmd.cluster == owner else f"{slurmd.cluster}/"
    return f"{whose}{slurmd.node} {slurmd.state}"


def _pods(titles: Sequence[str]) -> str:
    if not titles:
        return _NONE
    more = f" and {len(titles) - _PODS_SHOWN} more" if len(titles) > _PODS_SHOWN else ""
    return f"{len(titles)}: {', '.join(titles[:_PODS_SHOWN])}{more}"


def _why(entry: Entry) -> str:
    if not entry.problems:
        return entry.why or _NONE
    more = len(entry.problems) - _PROBLEMS_SHOWN
    return f"WRONG: {'; '.join(entry.problems[:_PROBLEMS_SHOWN])}{f'; and {more} more' if more > 0 else ''}"


def _json(entry: Entry) -> dict[str, object]:
    return {
        "node": entry.node,
        "grantedTo": entry.granted_to,
        "owner": entry.owner,
        "state": entry.state,
        "since": entry.since.isoformat() if entry.since else None,
        "slurmNodes": [{"cluster": one.cluster, "name": one.node, "state": one.state} for one in entry.slurmds],
        "foreignPods": entry.foreign,
        "why": entry.why,
        "doubleClaims": entry.double_claims,
        "problems": entry.problems,
    }
