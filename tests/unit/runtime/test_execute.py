from __future__ import annotations

from typing import Any

import httpx
import pytest

from slurmcluster_operator.kube.client import ApiError, ConflictError, NotFoundError
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import Action, AnnotatePod, CreatePod, DeletePod, Drain
from slurmcluster_operator.model.fleet import Fleet
from slurmcluster_operator.model.kube import Pod
from slurmcluster_operator.runtime.events import Events
from slurmcluster_operator.runtime.execute import Executor, Outcome
from slurmcluster_operator.slurm.client import SlurmRest
from slurmcluster_operator.slurm.tokens import TokenSource
from tests.builders import cluster


class FakeKube:
    """Remembers what was asked for; fails where it is told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.errors: dict[str, Exception] = {}
        self.versions: dict[str, int] = {}

    def _note(self, verb: str, name: str) -> None:
        self.calls.append((verb, name))
        if name in self.errors:
            raise self.errors[name]

    async def apply(self, manifest: dict[str, Any]) -> dict[str, Any]:
        name = manifest["metadata"]["name"]
        self._note("apply", name)
        self.versions[name] = self.versions.get(name, 0) + 1
        return {"metadata": {"resourceVersion": str(self.versions[name]), "generation": 1}}

    async def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        if manifest["kind"] != "Event":
            self._note("create", manifest["metadata"]["name"])
        return manifest

    async def delete(self, api_version: str, kind: str, namespace: str, name: str, *, uid: str) -> None:
        self._note(f"delete {uid}", name)

    async def merge(self, api_version: str, kind: str, namespace: str, name: str, patch: dict[str, Any]) -> None:
        self._note("annotate", name)


class FakeWorld:
    """What the reflectors would say."""

    changes = 0

    def __init__(self) -> None:
        self.markers: dict[str, str] = {}
        self.pods = self

    def marker(self, manifest: dict[str, Any]) -> str | None:
        return self.markers.get(manifest["metadata"]["name"])

    def find(self, namespace: str, name: str) -> None:
        return None

    def of(self, namespace: str) -> list[Pod]:
        return []


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


@pytest.fixture
def executor(kube: FakeKube, world: FakeWorld) -> Executor:
    return Executor(kube, world, Events(kube))  # type: ignore[arg-type]


def rest(status: int = 200) -> SlurmRest:
    transport = httpx.MockTransport(lambda request: httpx.Response(status, json={}))
    return SlurmRest("http://rest", TokenSource(b"0" * 32), transport)


def config(value: str = "a", name: str = "c") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "team"},
        "data": {"k": value},
    }


async def test_what_is_right_is_not_applied_again(executor: Executor, kube: FakeKube, world: FakeWorld) -> None:
    assert await executor.apply([config()]) == []
    world.markers["c"] = "1"
    await executor.apply([config()])
    assert len(kube.calls) == 1


async def test_a_changed_intent_is_applied(executor: Executor, kube: FakeKube, world: FakeWorld) -> None:
    await executor.apply([config()])
    world.markers["c"] = "1"
    await executor.apply([config("b")])
    assert len(kube.calls) == 2


@pytest.mark.parametrize("seen", [None, "7"])
async def test_what_somebody_deleted_or_changed_is_applied_again(
    executor: Executor, kube: FakeKube, world: FakeWorld, seen: str | None
) -> None:
    await executor.apply([config()])
    if seen:
        world.markers["c"] = seen
    await executor.apply([config()])
    assert len(kube.calls) == 2


async def test_one_object_that_is_refused_does_not_stop_the_others(executor: Executor, kube: FakeKube) -> None:
    kube.errors["bad"] = ApiError(422, "field is immutable")
    assert await executor.apply([config(name="bad"), config(name="good")]) == [
        "ConfigMap bad cannot be applied: field is immutable"
    ]
    assert ("apply", "good") in kube.calls


async def test_slurm_is_told_before_pods_are_touched_and_its_silence_does_not_stop_them(
    executor: Executor, kube: FakeKube
) -> None:
    delete = DeletePod("demo-h100-0", "uid", "why")
    outcome = await executor.act(cluster(), Fleet(), [delete, Drain(("h100-1",), "why")], rest(500))
    assert len(outcome.errors) == 1
    assert "HTTP 500" in outcome.errors[0]
    assert kube.calls == [("apply", "fleet-team.demo"), ("delete uid", "demo-h100-0")]


async def test_a_pod_that_is_gone_already_is_no_problem(executor: Executor, kube: FakeKube) -> None:
    kube.errors["demo-h100-0"] = NotFoundError(404, "not found")
    actions: list[Action] = [
        DeletePod("demo-h100-0", "uid", "why"),
        AnnotatePod("demo-h100-0", names.HASH_ANNOTATION, "x"),
    ]
    assert await executor.act(cluster(), Fleet(), actions, rest()) == Outcome((), {})


async def test_a_pod_of_somebody_else_with_our_name_is_named(executor: Executor, kube: FakeKube) -> None:
    kube.errors["demo-h100-0"] = ConflictError(409, "already exists")
    manifest = {"kind": "Pod", "metadata": {"name": "demo-h100-0"}}
    words = "pod demo-h100-0 exists and is not ours"
    assert await executor.act(cluster(), Fleet(), [CreatePod("h100-0", manifest)], rest()) == Outcome(
        (words,), {"h100-0": words}
    )
