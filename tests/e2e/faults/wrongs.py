"""What can go wrong with an answer of slurmrestd, on demand.

A fault is ``{"kind": …}`` and, if wanted, ``path`` (a regular expression that the path and query must contain),
``method``, ``count`` (how many requests it spoils), ``duration`` (for how many seconds). The first one that applies
to a request is taken. The kinds:

=============  ====================================================================================================
refuse         nobody listens any more, connections that are open end (concerns all requests)
reset          the connection is reset when a request has come
hang           no answer, until the fault is over
delay          ``seconds`` later than usual
status         HTTP ``code`` (500) and an error in slurmrestd's form, slurmrestd is not asked
unauthorized   slurmrestd is asked without a token
errors         the real answer, with HTTP 200 and an entry in ``errors``
empty          the real answer, its lists empty
half           the real answer, the first half of each list
double         the real answer, each entry twice
truncated      the first half of the real answer's text, as if that were all
cut            the first half of the real answer's text, then the connection ends
html           HTTP 200 and a page in place of the answer
stale          the last complete answer from before the fault to the same question, again and again
twice          the request is sent to slurmrestd twice
=============  ====================================================================================================
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.faults.messages import Answer

MADE_FROM_WHOLE = frozenset(("errors", "empty", "half", "double", "truncated", "cut", "stale"))
"""Kinds made from a complete answer: slurmrestd is not asked for changes only."""
KINDS = MADE_FROM_WHOLE | {"refuse", "reset", "hang", "delay", "status", "unauthorized", "html", "twice"}
LISTS = ("nodes", "jobs", "clusters", "partitions", "reservations", "pings")


class FaultError(ValueError):
    """A fault that there is not, in words."""


@dataclass
class Fault:
    """One thing that goes wrong."""

    kind: str
    path: str = ""
    method: str = ""
    count: int | None = None
    duration: float | None = None
    seconds: float = 0.0
    code: int = 500
    hits: int = 0
    since: float = field(default_factory=time.monotonic)

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Fault:
        """Read a fault as a test writes it."""
        known = {"kind", "path", "method", "count", "duration", "seconds", "code"}
        if not isinstance(raw, dict) or raw.get("kind") not in KINDS or not raw.keys() <= known:
            raise FaultError(
                f"not a fault: {raw}; kinds: {', '.join(sorted(KINDS))}; fields: {', '.join(sorted(known))}"
            )
        if raw["kind"] == "refuse" and not raw.keys() <= {"kind", "duration"}:
            raise FaultError("refuse concerns every request: it takes no more than a duration")
        re.compile(raw.get("path", ""))
        return cls(**raw)

    @property
    def over(self) -> bool:
        """Whether it has had its time."""
        spent = self.duration is not None and time.monotonic() - self.since >= self.duration
        return spent or (self.count is not None and self.hits >= self.count)

    def concerns(self, method: str, path: str) -> bool:
        """Tell whether it spoils such a request."""
        return not self.over and self.method in {"", method} and re.search(self.path, path) is not None


def spoil(kind: str, answer: Answer) -> Answer:
    """Return a real answer with one thing wrong."""
    if kind == "truncated":
        return Answer(answer.status, answer.body[: len(answer.body) // 2], answer.kind)
    try:
        content = json.loads(answer.body)
    except ValueError:
        return answer
    for name in LISTS:
        entries = content.get(name)
        if isinstance(entries, list):
            parts = {"empty": [], "half": entries[: len(entries) // 2], "double": entries * 2}
            content[name] = parts.get(kind, entries)
    if kind == "errors":
        problem = {"error_number": 1007, "error": "Protocol authentication error", "source": "fault proxy"}
        content["errors"] = [problem | {"description": "Failure to query"}]
    return Answer(200 if kind == "errors" else answer.status, json.dumps(content).encode())
