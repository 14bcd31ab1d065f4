"""The operator's own code, one call to the API server at a time.

It is run anew for each call, with the answers that it has had so far, up to the call to which there is no answer yet.
So an operator in the middle of its work is a short list of answers, and a state of the explorer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, tzinfo
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast
from unittest import mock

from slurmcluster_operator.decide import ownership
from slurmcluster_operator.kube.client import ApiError, ConflictError, Kube, NotFoundError, path_of
from slurmcluster_operator.manifests.cluster import Json
from slurmcluster_operator.model import fleet as model
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import Action, CreatePod, Move
from slurmcluster_operator.model.fleet import Fleet, KubeNode, Tolerance, foreign_pod
from slurmcluster_operator.model.holds import Sighting
from slurmcluster_operator.model.kube import Pod as OurPod
from slurmcluster_operator.runtime import fleet as runtime
from slurmcluster_operator.runtime.events import Events
from slurmcluster_operator.runtime.execute import Executor
from slurmcluster_operator.runtime.world import World
from slurmcluster_operator.slurm.client import SlurmRest
from tests.builders import NOW
from tests.property.explorer_objects import body, cluster_of, node_json, pod_json, sighting, slurmd_json
from tests.property.explorer_state import OLDEST, Answer, Machine, Pod, State, Wish

_ERRORS = {
    "missing": NotFoundError(404, "not found"),
    "conflict": ConflictError(409, "has changed"),
    "failed": ApiError(500, "no"),
}


STEPS: Final[tuple[model.State, ...]] = ("Claiming", "Owned", "Releasing", "")
"""The steps of a claim."""


class Request(NamedTuple):
    """A call to the API server."""

    verb: str
    """As in ``kube.client.Kube``."""
    what: str
    """The object's name, or the path of a collection."""
    body: str = ""
    """What goes with it, as JSON."""


class _Paused(BaseException):
    """The operator waits for an answer."""

    def __init__(self, request: Request) -> None:
        self.request = request


class _Server:
    """Gives the answers that are known, and stops the operator at the first one that is not."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        self._answers = iter(answers)

    def _answer(self, request: Request) -> Any:
        answer = next(self._answers, None)
        if answer is None:
            raise _Paused(request)
        if isinstance(answer, str) and answer in _ERRORS:
            raise _ERRORS[answer]
        return answer

    async def apply(self, manifest: Json) -> Json:
        self._answer(Request("apply", manifest["metadata"]["name"]))
        return {"metadata": {"resourceVersion": "1", "generation": 1}}

    async def get(self, api_version: str, kind: str, namespace: str, name: str) -> Json:
        return node_json(self._answer(Request("get", path_of(api_version, kind, namespace, name))))

    async def list(self, path: str, query: Mapping[str, str]) -> list[Json]:
        return [pod_json(pod) for pod in self._answer(Request("list", path, body(query)))]

    async def merge(self, api_version: str, kind: str, namespace: str, name: str, patch: Json) -> Json:
        self._answer(Request("merge", path_of(api_version, kind, namespace, name), body(patch)))
        return {}

    async def create(self, manifest: Json) -> Json:
        if manifest["kind"] != "Event":
            self._answer(Request("create", manifest["metadata"]["name"], body(manifest["metadata"]["annotations"])))
        return manifest


class _Clock(datetime):
    """It is always the same moment: machines have ages."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return NOW


@dataclass(frozen=True)
class Protocol:
    """What is different from the operator's own protocol; nothing, unless a mutation says so."""

    obstacle: Callable[..., str] = ownership.obstacle
    """The last word on each step."""
    sent: Callable[[Wish, Request], Request] = lambda wish, request: request
    """What reaches the API server."""
    told: Callable[[Wish, Request, tuple[Pod, ...]], tuple[Pod, ...]] = lambda wish, request, pods: pods
    """What a list of pods tells the operator."""
    indexed: Callable[[Wish, State, frozenset[str]], frozenset[str]] = lambda wish, state, keys: keys
    """What is written into the index."""
    pod_spec: Callable[[Json], Json] = lambda spec: spec
    """What the scheduler is told of a slurmd pod."""
    heard: Callable[[str], str] = lambda error: error
    """What the operator makes of an error."""
    from_copy: bool = False
    """Whether pods are listed from the operator's own copy, which may be old."""
    remembers: bool = True
    """Whether the operator remembers what it has just claimed."""


class Operator:
    """Runs the operator's code, and remembers what came of it."""

    def __init__(self, protocol: Protocol, *, enforced: bool) -> None:
        self.protocol = protocol
        self._enforced = enforced
        self._requests: dict[tuple[str, Wish, tuple[Answer, ...]], Request | None] = {}
        self._keys: dict[tuple[Any, ...], frozenset[str]] = {}
        self._obstacles: dict[tuple[str, str, Machine], bool] = {}
        bare = Machine("m", frozenset({(names.FLEET_LABEL, "x.y")}))
        write = self.request("x.y", Wish("Claiming", "m"), ("done", bare))
        self.guarded = write is not None and "resourceVersion" in write.body
        """Whether writes to a Node fail once it has changed."""

    def request(self, fleet: str, wish: Wish, answers: tuple[Answer, ...]) -> Request | None:
        """Return what the operator asks of the API server next; None if it has done what it wished."""
        key = (fleet, wish, answers)
        if key not in self._requests:
            found = self._replay(fleet, wish, answers)
            self._requests[key] = found and self.protocol.sent(wish, found)
        return self._requests[key]

    def index(
        self, fleet: str, wish: Wish, machines: tuple[Machine, ...], pods: tuple[Pod, ...], claimed: frozenset[str]
    ) -> frozenset[str]:
        """Return what the operator writes into the index first. ``claimed``: what it remembers to have claimed."""
        machines = tuple(machine._replace(age=OLDEST) for machine in machines)
        pods = tuple(pod._replace(picked="", picked_age=0, ending=False) for pod in pods if pod.fleet == fleet)
        key = (fleet, wish, machines, pods, claimed)
        if key not in self._keys:
            nodes = (node_json(machine) for machine in machines if machine.there)
            world, whole = seen(nodes, map(pod_json, pods), enforced=self._enforced), cluster_of(fleet)
            steward = runtime.Steward(cast("Kube", None), world, cast("Events", None))
            steward._claimed = dict.fromkeys(claimed, time.monotonic())
            moves = [action for action in _actions(fleet, wish) if isinstance(action, Move)]
            written = steward.index(whole, runtime.see(world, whole.names), moves)["data"]["nodes"]
            self._keys[key] = frozenset(written.split())
        return self._keys[key]

    def allowed(self, fleet: str, to: model.State, machine: Machine) -> bool:
        """Tell whether a step may be taken if nobody is on the machine."""
        key = (fleet, to, machine)
        if key not in self._obstacles:
            node = KubeNode.from_json(node_json(machine))
            here, seen = ownership.Occupants(), sighting(machine)
            found = self.protocol.obstacle(to, fleet, node, here, seen, NOW, enforced=self._enforced)
            self._obstacles[key] = not found
        return self._obstacles[key]

    def _replay(self, fleet: str, wish: Wish, answers: tuple[Answer, ...]) -> Request | None:
        kube, world = cast("Kube", _Server(answers)), seen((), (), enforced=self._enforced)
        read = next((answer for answer in answers if isinstance(answer, Machine)), None)
        actions = _actions(fleet, wish, read and sighting(read))
        executor = Executor(kube, world, Events(kube))
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(runtime, "datetime", _Clock))
            stack.enter_context(mock.patch.object(runtime, "obstacle", self.protocol.obstacle))
            try:
                asyncio.run(executor.act(cluster_of(fleet), Fleet(), actions, cast("SlurmRest", None)))
            except _Paused as pause:
                return pause.request
        return None


def seen(nodes: Iterable[Json], pods: Iterable[Json], *, enforced: bool) -> World:
    """Return what the operator sees: its copies of Nodes and pods."""
    pods = tuple(pods)
    ours = [raw for raw in pods if raw["metadata"].get("labels", {}).get(names.MANAGED_BY) == names.MANAGER]
    found = (foreign_pod(raw, Tolerance()) for raw in pods if raw not in ours)
    return cast(
        "World",
        SimpleNamespace(
            nodes=_Copy(map(KubeNode.from_json, nodes)),
            pods=_Copy(map(OurPod.from_json, ours)),
            foreign=_Copy(pod for pod in found if pod),
            daemon_sets=_Copy(()),
            enforcement=SimpleNamespace(on=enforced, because=""),
            tolerance=Tolerance(),
            marker=lambda manifest: None,
        ),
    )


class _Copy:
    """The operator's copy of a collection."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = dict(enumerate(items))
        self.changes = 0

    def of(self, namespace: str) -> list[Any]:
        return [item for item in self.items.values() if item.namespace == namespace]

    def find(self, namespace: str, name: str) -> Any:
        """Find the pod that is there already: a conflict is no error then."""
        return self


def _actions(fleet: str, wish: Wish, seen: Sighting | None = None) -> list[Action]:
    match wish.verb:
        case "look":
            return []
        case "create":
            return [CreatePod("h100-0", slurmd_json(fleet, wish.node))]
        case _:
            return [Move(wish.node, cast("model.State", wish.verb), "", seen)]
