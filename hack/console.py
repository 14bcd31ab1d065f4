"""What the tools of this folder print: steps with their seconds, and a table of them at the end."""

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

INDENT = "    "
_LOCK = threading.Lock()


def say(text: str = "") -> None:
    """Print one line, whole and at once, however many threads print."""
    with _LOCK:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def seconds(value: float) -> str:
    """Write a duration for people: ``4.2 s``, ``12 min 03 s``."""
    if value < 60:  # noqa: PLR2004
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02} s"


def table(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> str:
    """Align columns; those in ``right`` to the right. The first row is the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(rows[0]), rule, *map(line, rows[1:])])


@dataclass
class Steps:
    """What was done and how long each part took."""

    done: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Announce a step, and say how long it took; one that fails is in the table too."""
        say(f"\n==> {title}")
        start = time.monotonic()
        try:
            yield
        except BaseException:
            self.done.append((f"{title} (failed)", time.monotonic() - start))
            raise
        self.done.append((title, time.monotonic() - start))
        say(f"{INDENT}({seconds(self.done[-1][1])})")

    def summary(self) -> str:
        """Return the table of all steps."""
        total = sum(spent for _, spent in self.done)
        rows = [(title, seconds(spent)) for title, spent in self.done]
        return table([("step", "time"), *rows, ("total", seconds(total))], right=frozenset({1}))
