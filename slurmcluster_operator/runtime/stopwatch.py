"""How long the parts of a look take."""

from __future__ import annotations

import time


class Stopwatch:
    """Counts from its making; each lap from the one before."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()
        self._laps: list[tuple[str, float]] = []

    def lap(self, name: str) -> None:
        """End a lap."""
        now = time.monotonic()
        self._laps.append((name, now - self._last))
        self._last = now

    def __str__(self) -> str:
        laps = ", ".join(f"{name} {1000 * took:.0f} ms" for name, took in self._laps)
        return f"{1000 * (self._last - self._start):.0f} ms: {laps}"
