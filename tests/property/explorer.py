"""Walks through every state that a system can reach, breadth first, so that what it finds wrong is found shortest."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)

Words = tuple[str, ...]
"""A sentence with places (``{0}``), and what goes there: it is put together only where somebody reads it."""


_Ways = dict[S, tuple[S, Words] | None]
"""For each state, the one before it and how it came about; nothing for the start."""


@dataclass(frozen=True)
class Finding:
    """Something that must never be, and one of the shortest ways to it."""

    words: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        """Return the way there as a numbered list."""
        steps = "".join(f"\n  {number:2}. {sentence}" for number, sentence in enumerate(self.trace, 1))
        return f"{self.words}:{steps}"


@dataclass(frozen=True)
class Walk(Generic[S]):
    """What a walk saw."""

    states: int
    depth: int
    """Steps to the states that are farthest away."""
    complete: bool
    """Whether every state was seen, and not only those within some number of steps."""
    finding: Finding | None

    def __str__(self) -> str:
        """Say how much was seen."""
        reach = (
            f"all, the farthest after {self.depth} steps"
            if self.complete
            else f"up to {self.depth} steps from the start"
        )
        return f"{self.states} states ({reach}): {self.finding or 'nothing wrong'}"


def explore(
    start: S,
    steps: Callable[[S], Iterable[tuple[Words, S]]],
    wrong: Callable[[S], str],
    deepest: int | None = None,
) -> Walk[S]:
    """Walk until something is wrong, nothing is left, or ``deepest`` steps from the start."""
    came: _Ways[S] = {start: None}
    edge, depth = [start], 0
    while edge and depth != deepest:
        depth += 1
        beyond = []
        for before in edge:
            for words, after in steps(before):
                if after in came:
                    continue
                came[after] = (before, words)
                if problem := wrong(after):
                    return Walk(len(came), depth, complete=False, finding=Finding(problem, _trace(came, after)))
                beyond.append(after)
        edge = beyond
    return Walk(len(came), depth, complete=not edge, finding=None)


def trapped(
    start: S, steps: Callable[[S], Iterable[tuple[Words, S]]], goals: dict[str, Callable[[S], bool]]
) -> Finding | None:
    """Find a state from which one of the goals cannot be reached any more, whatever happens."""
    came: _Ways[S] = {start: None}
    before: dict[S, list[S]] = {}
    left = deque([start])
    while left:
        state = left.popleft()
        for words, after in steps(state):
            before.setdefault(after, []).append(state)
            if after not in came:
                came[after] = (state, words)
                left.append(after)
    for title, reached in goals.items():
        good = {state for state in came if reached(state)}
        left = deque(good)
        while left:
            fresh = [state for state in before.get(left.popleft(), ()) if state not in good]
            good.update(fresh)
            left.extend(fresh)
        lost = next((state for state in came if state not in good), None)
        if lost is not None:
            return Finding(f"never again: {title}", _trace(came, lost))
    return None


def _trace(came: _Ways[S], state: S) -> tuple[str, ...]:
    sentences = []
    while (link := came[state]) is not None:
        state, (words, *places) = link
        sentences.append(words.format(*places))
    return tuple(reversed(sentences))
