"""Slurm's host lists: ``h100-[0-3,7],a100-2``."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Final

_PART: Final = re.compile(r"([^\[\],]+)(?:\[([0-9,\-]+)\])?")


def expand(text: str) -> Iterator[str]:
    """Yield the names in a host list."""
    for prefix, ranges in _PART.findall(text):
        if not ranges:
            yield prefix
        for piece in filter(None, ranges.split(",")):
            first, _, last = piece.partition("-")
            yield from (f"{prefix}{number}" for number in range(int(first), int(last or first) + 1))


@functools.lru_cache(maxsize=4096)
def stems(text: str) -> frozenset[str]:
    """Return the names in a host list without their last number, ``h100`` and ``a100``: the pools. None is expanded."""
    return frozenset(prefix.rpartition("-")[0] for prefix, _ in _PART.findall(text))


def sizes(names: Iterable[str]) -> dict[str, int]:
    """Return, for each stem of names such as ``h100-3``, one more than the largest number."""
    found: dict[str, int] = {}
    for name in names:
        stem, _, number = name.rpartition("-")
        if stem and number.isdecimal():
            found[stem] = max(found.get(stem, 0), int(number) + 1)
    return found


def compress(names: Iterable[str]) -> str:
    """Return a host list of names that end in numbers; others stand by themselves."""
    numbers: dict[str, list[int]] = {}
    for name in names:
        prefix, _, number = name.rpartition("-")
        if prefix and number.isdigit():
            numbers.setdefault(f"{prefix}-", []).append(int(number))
        else:
            numbers.setdefault(name, [])
    return ",".join(f"{prefix}{_ranges(sorted(set(several)))}" for prefix, several in numbers.items())


def _ranges(numbers: list[int]) -> str:
    if not numbers:
        return ""
    pieces: list[tuple[int, int]] = []
    for number in numbers:
        if pieces and pieces[-1][1] == number - 1:
            pieces[-1] = (pieces[-1][0], number)
        else:
            pieces.append((number, number))
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in pieces)
    return text if text.isdigit() else f"[{text}]"
