"""Reading jobs and nodes as slurmrestd and ``scontrol --json`` print them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

Record = Mapping[str, Any]

_MINUTE = 60
_HOUR = 3600
_DAY = 86400


def number(record: Record, key: str) -> float | None:
    """Return a number, which is plain or ``{"set": …, "infinite": …, "number": …}``; None when it is not set."""
    value = record.get(key)
    if isinstance(value, Mapping):
        return None if not value.get("set") or value.get("infinite") else float(value.get("number", 0))
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def flags(record: Record, key: str) -> frozenset[str]:
    """Return a state, a list of flags, as a set."""
    value = record.get(key) or ()
    return frozenset((value,) if isinstance(value, str) else value)


def text(record: Record, key: str) -> str:
    """Return a text, empty when there is none (Slurm prints some as ``(null)`` or ``N/A``)."""
    value = record.get(key)
    return value.strip() if isinstance(value, str) and value.strip() not in {"(null)", "N/A"} else ""


def hosts(expression: str) -> list[str]:
    """Return the names in a host list such as ``h100-[0-2,7],login``."""
    names = []
    for part in re.findall(r"[^,\[\]]+(?:\[[^\]]*\])?[^,\[\]]*", expression):
        match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", part)
        if match is None:
            names.append(part)
            continue
        before, ranges, after = match.groups()
        names += [f"{before}{index}{after}" for index in _indices(ranges)]
    return names


def _indices(ranges: str) -> Iterable[str]:
    for one in ranges.split(","):
        first, _, last = one.partition("-")
        for index in range(int(first), int(last or first) + 1):
            yield str(index).zfill(len(first))


def host_list(names: Iterable[str]) -> str:
    """Write names as short as Slurm does: ``h100-[0-2,7]``."""
    plain: list[str] = []
    numbered: dict[str, list[int]] = {}
    for name in names:
        match = re.fullmatch(r"(.*?)(0|[1-9]\d*)", name)
        if match is None:
            plain.append(name)
        else:
            numbered.setdefault(match[1], []).append(int(match[2]))
    for prefix, found in sorted(numbered.items()):
        runs = _runs(sorted(set(found)))
        single = len(runs) == 1 and "-" not in runs[0]
        plain.append(f"{prefix}{runs[0]}" if single else f"{prefix}[{','.join(runs)}]")
    return ",".join(plain)


def _runs(found: list[int]) -> list[str]:
    runs: list[list[int]] = []
    for index in found:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]


def moment(at: float, now: float) -> str:
    """Write a time for people: the hour alone on the day itself."""
    then, today = datetime.fromtimestamp(at).astimezone(), datetime.fromtimestamp(now).astimezone()
    return then.strftime("%H:%M:%S" if then.date() == today.date() else "%Y-%m-%d %H:%M")


def span(seconds: float) -> str:
    """Write a length of time for people."""
    seconds = max(0, round(seconds))
    if seconds < _MINUTE:
        return f"{seconds} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE} min"
    if seconds < _DAY:
        return f"{seconds // _HOUR} h {seconds % _HOUR // _MINUTE} min"
    return f"{seconds // _DAY} days"


def listed(parts: list[str]) -> str:
    """Join with commas and an ``and``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def count(amount: int, noun: str) -> str:
    """Write ``1 node``, ``2 nodes``."""
    return f"{amount} {noun}{'' if amount == 1 else 's'}"
