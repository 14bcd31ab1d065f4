"""slurmrestd's replies, the few fields that are read, straight from bytes.

msgspec skips what is not named here without building it: the answer about 10,000 nodes has 16 MB.
"""

from __future__ import annotations

import functools
import re
from typing import Any, ClassVar, Generic, TypeVar, get_type_hints

import msgspec

from slurmcluster_operator.model.records import Records


class Wire(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A record of slurmrestd."""


class Problem(Wire, frozen=True, gc=False, kw_only=True):
    """An entry of ``errors[]``: present, the reply is a failure whatever its HTTP status."""

    description: str | None = None
    error: str | None = None

    def __str__(self) -> str:
        return ": ".join(part for part in (self.error, self.description) if part) or "unnamed error"


class Number(Wire, frozen=True, gc=False, kw_only=True):
    """A number that may not be set."""

    set: bool = False
    infinite: bool = False
    number: float = 0

    @property
    def value(self) -> int:
        """The number; 0 if it is not set."""
        return int(self.number) if self.set and not self.infinite else 0


class Reply(Wire, frozen=True, gc=False, kw_only=True):
    """What every reply has."""

    LIST: ClassVar[str] = "errors"
    """The field that can be long."""

    errors: tuple[Problem, ...] = ()


class Node(Wire, frozen=True, gc=False, kw_only=True):
    """A node: its name, flags and reason."""

    name: str
    state: tuple[str, ...]
    reason: str = ""


class NodesReply(Reply, frozen=True, gc=False, kw_only=True):
    """``GET /nodes/``."""

    LIST: ClassVar[str] = "nodes"

    nodes: tuple[Node, ...]
    last_update: Number = Number()


class Job(Wire, frozen=True, gc=False, kw_only=True):
    """A job, or what of a job array has not begun."""

    job_id: int
    job_state: tuple[str, ...]
    state_reason: str = ""
    partition: str = ""
    nodes: str = ""
    node_count: Number = Number()
    submit_time: Number = Number()
    array_task_string: str = ""
    admin_comment: str = ""
    batch_flag: bool = True
    requeue: bool = True
    tres_req_str: str = ""
    """What it asks for altogether: ``cpu=2,mem=1G,node=1,gres/gpu=2``."""


class JobsReply(Reply, frozen=True, gc=False, kw_only=True):
    """``GET /jobs/``. Without a time of its last update it says that nothing has changed."""

    LIST: ClassVar[str] = "jobs"

    jobs: tuple[Job, ...]
    last_update: Number = Number()


class Controller(Wire, frozen=True, gc=False, kw_only=True):
    """Where slurmdbd believes a cluster's slurmctld to be; an empty host means that it is not connected."""

    host: str = ""
    port: int = 0


class DbCluster(Wire, frozen=True, gc=False, kw_only=True):
    """A cluster in slurmdbd."""

    name: str
    controller: Controller = Controller()


class ClustersReply(Reply, frozen=True, gc=False, kw_only=True):
    """``GET /slurmdb/…/clusters/``."""

    clusters: tuple[DbCluster, ...] = ()


R = TypeVar("R", bound=Reply)


class Reading(Generic[R]):
    """Reads a reply while it comes."""

    def __init__(self, kind: type[R]) -> None:
        self._kind = kind
        self._text = Records(*_list_of(kind))
        self._found: list[Any] = []

    def feed(self, chunk: bytes | bytearray) -> None:
        """Take what comes next."""
        self._found += self._text.feed(chunk)

    def reply(self) -> R:
        """Return the whole reply. Raises ``msgspec.DecodeError`` when it is not one."""
        reply: R = _decoder(self._kind).decode(self._text.rest())
        if not self._found:
            return reply
        field = self._kind.LIST
        return msgspec.structs.replace(reply, **{field: (*self._found, *getattr(reply, field))})

    @property
    def beginning(self) -> str:
        """The first words of an answer that is no reply: for people."""
        return self._text.rest()[:200].decode(errors="replace")


@functools.cache
def _list_of(kind: type[Reply]) -> tuple[re.Pattern[bytes], msgspec.json.Decoder[Any]]:
    """Return what a reply begins with whose list comes first, as slurmrestd sends it, and what reads that list."""
    head = re.compile(rb'\s*\{\s*"%b"\s*:\s*\[\s*' % kind.LIST.encode())
    return head, _decoder(get_type_hints(kind)[kind.LIST])


@functools.cache
def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape)


def node_update(nodes: str, states: list[str], reason: str = "") -> dict[str, Any]:
    """Return the body of an update of all nodes in a host list."""
    return {"name": nodes, "state": states, **({"reason": reason} if reason else {})}
