"""The ledger of the fleet, read from the API server and slurmrestd."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Self

import httpx
import msgspec
import pytest

from slurmcluster_operator.__main__ import main
from slurmcluster_operator.kube.client import ApiError, Kube, NotFoundError
from slurmcluster_operator.model import names
from slurmcluster_operator.model.names import Names
from slurmcluster_operator.runtime import rest
from slurmcluster_operator.slurm.client import SlurmRest

Json = dict[str, Any]


def node(name: str, grant: str = "team.demo", owner: str = "", state: str = "", **marks: str) -> Json:
    labels = {names.FLEET_LABEL: grant} | ({names.OWNER: owner} if owner else {})
    labels |= {names.SERVES: owner} if state == "Owned" else {}
    annotations = {names.OWNER_STATE: state} if state else {}
    taints = [{"key": names.OWNER, "value": owner, "effect": "NoSchedule"}] if owner else []
    return {
        "metadata": {"name": name, "labels": labels, "annotations": annotations | marks},
        "spec": {"taints": taints},
    }


def owned(name: str, by: str = "team.demo") -> Json:
    return node(name, by, by, "Owned")


def slurmd(seat: str, on: str, of: str = "team.demo") -> Json:
    namespace, _, cluster = of.partition(".")
    labels = Names(namespace, cluster).labels(names.SLURMD) | {names.NODE_LABEL: seat}
    return pod(f"{cluster}-{seat}", on, namespace, **labels)


def pod(name: str, on: str, namespace: str = "web", **labels: str) -> Json:
    metadata = {"namespace": namespace, "name": name, "uid": name, "labels": labels}
    spec: Json = {"nodeName": on, "containers": [{"name": "main"}]}
    return {"metadata": metadata | {"creationTimestamp": "2026-01-02T03:04:05Z"}, "spec": spec, "status": {}}


class FakeKube:
    """Serves collections, two objects a page, and Secrets. ``then`` is done after each complete list of nodes."""

    def __init__(self, nodes: list[Json], pods: list[Json], clusters: tuple[str, ...] = ("team/demo",)) -> None:
        found = [dict(zip(("namespace", "name"), one.split("/"), strict=True)) for one in clusters]
        self.objects = {"nodes": nodes, "pods": pods, "slurmclusters": [{"metadata": one} for one in found]}
        self.without_keys: set[str] = set()
        self.then: Callable[[], None] = lambda: None
        self.lists = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        return None

    async def listing(self, path: str, query: Mapping[str, str], shape: Any) -> AsyncIterator[Json]:
        kind = path.rpartition("/")[2]
        for one in self.objects[kind]:
            if self._selects(query.get("labelSelector", ""), one):
                yield msgspec.convert(one, shape)
        if kind == "nodes":
            self.lists += 1
            self.then()

    @staticmethod
    def _selects(selector: str, one: Json) -> bool:
        managed = one["metadata"].get("labels", {}).get(names.MANAGED_BY) == names.MANAGER
        return not selector or managed == ("!=" not in selector)

    async def get(self, api_version: str, kind: str, namespace: str, name: str) -> Json:
        if f"{namespace}/{name}" in self.without_keys:
            raise NotFoundError(404, f'secrets "{name}" not found')
        return {"data": {"jwt.key": base64.b64encode(b"k" * 32).decode()}}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Json]:
    """What each host's slurmrestd has for nodes; others cannot be reached."""
    found: dict[str, Json] = {}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host not in found:
            raise httpx.ConnectError("no route to host")
        nodes = [{"name": name, "state": state} for name, state in found[request.url.host].items()]
        return httpx.Response(200, json={"nodes": nodes, "errors": []})

    class Reached(SlurmRest):
        def __init__(self, url: str, tokens: Any, proxy: str = "") -> None:
            super().__init__(url, tokens, httpx.MockTransport(answer), proxy)

    monkeypatch.setattr(rest, "SlurmRest", Reached)
    return found


@pytest.fixture
def fleet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answers: dict[str, Json]
) -> Callable[..., tuple[int, list[list[str]], str]]:
    """Run the command on a FakeKube; return its exit status, the cells of what it printed, and its notes."""
    answers["demo-restapi.team.svc.cluster.local"] = {"h100-0": ["IDLE", "CLOUD"], "h100-1": ["MIXED", "CLOUD"]}

    def run(kube: FakeKube, *arguments: str) -> tuple[int, list[list[str]], str]:
        async def connect() -> FakeKube:
            return kube

        monkeypatch.setattr(Kube, "connect", connect)
        status = main(["fleet", *arguments])
        said = capsys.readouterr()
        return status, [re.split(" {3,}", line) for line in said.out.splitlines()], said.err

    return run


Run = Callable[..., tuple[int, list[list[str]], str]]
HEALTHY = ([owned("w0"), owned("w1"), node("w2")], [slurmd("h100-0", "w0"), slurmd("h100-1", "w1"), pod("a", "w2")])


def test_a_fleet_is_printed_with_slurms_own_states(fleet: Run) -> None:
    kube = FakeKube(*HEALTHY)
    status, lines, notes = fleet(kube)
    assert (status, notes) == (0, "")
    assert [line[0] for line in lines[:-1]] == ["NODE", "w0", "w1", "w2"]
    assert [line[5] for line in lines[1:-1]] == ["h100-0 IDLE", "h100-1 MIXED", "-"]
    assert [line[6] for line in lines[1:-1]] == ["-", "-", "1: web/a"]
    sums = "granted: 3, owned: 2, claiming: 0, releasing: 0, free: 1, double claims: 0, nodes with problems: 0"
    assert lines[-1] == [sums]
    assert kube.lists == 1


@pytest.mark.parametrize(
    ("nodes", "pods", "words"),
    [
        ([owned("w0")], [pod("shop", "w0")], "pod web/shop runs on node w0, which is team.demo's"),
        ([owned("w0")], [slurmd("h100-0", "w0", "lab.x")], "slurmd lab/x-h100-0 is on node w0, which is team.demo's"),
        ([node("w0", "team.gone")], [], "there is none of name team/gone"),
        ([node("w0", "demo")], [], "it must be NAMESPACE.NAME"),
        ([node("w0", "")], [], "the grant slurmcluster.dev/fleet is empty"),
        ([node("w0", owner="team.gone", state="Owned")], [], "its owner team.gone is no SlurmCluster"),
        ([node("w0", owner="team.demo")], [], "annotation slurmcluster.dev/owner-state is missing"),
    ],
)
def test_what_is_wrong_is_shown_and_makes_the_status_1(
    fleet: Run, nodes: list[Json], pods: list[Json], words: str
) -> None:
    status, lines, _ = fleet(FakeKube([*nodes, owned("fine")], pods), "--problems")
    assert status == 1
    assert [line[0] for line in lines[:-1]] == ["NODE", "w0"]
    assert lines[1][-1].startswith("WRONG: ")
    assert words in lines[1][-1]


def test_a_healthy_fleet_has_nothing_but_its_sums_to_show_of_problems(fleet: Run) -> None:
    status, lines, _ = fleet(FakeKube(*HEALTHY), "--problems")
    assert status == 0
    assert len(lines) == 1


def test_a_node_that_changes_hands_while_it_is_read_is_no_double_claim(fleet: Run) -> None:
    kube = FakeKube([owned("w0")], [])

    def released() -> None:
        kube.objects["nodes"] = [node("w0")]
        kube.objects["pods"] = [pod("shop", "w0")]

    kube.then = released
    status, lines, _ = fleet(kube)
    assert status == 0
    assert lines[1][3] == "Free"
    assert kube.lists == 2


def test_a_slurmrestd_that_does_not_answer_hides_nothing_of_other_clusters(fleet: Run) -> None:
    nodes = [owned("w0"), owned("w1", "lab.x"), owned("w2", "lab.y")]
    pods = [slurmd("h100-0", "w0"), slurmd("a-0", "w1", "lab.x"), slurmd("b-0", "w2", "lab.y")]
    kube = FakeKube(nodes, pods, ("team/demo", "lab/x", "lab/y"))
    kube.without_keys = {"lab/y-keys"}
    status, lines, notes = fleet(kube)
    assert status == 0
    assert [line[5] for line in lines[1:-1]] == ["h100-0 IDLE", "a-0 ?", "b-0 ?"]
    first, second = notes.splitlines()
    assert first.startswith("slurmcluster_operator: lab/x: slurmrestd cannot be reached: no route to host")
    assert second.startswith('slurmcluster_operator: lab/y: secrets "y-keys" not found')


def test_one_cluster_can_be_asked_for(fleet: Run) -> None:
    nodes = [owned("w0"), owned("w1", "lab.x"), node("w2", "lab.x_team.demo"), node("w3", "demo")]
    kube = FakeKube(nodes, [slurmd("a-0", "w1", "lab.x")], ("team/demo", "lab/x"))
    status, lines, notes = fleet(kube, "-n", "team", "-c", "demo")
    assert (status, notes) == (0, "")
    assert [line[0] for line in lines[1:-1]] == ["w0", "w2"]
    assert fleet(kube)[0] == 1


def test_a_cluster_that_is_nowhere_is_an_error_that_names_those_that_are(fleet: Run) -> None:
    status, lines, notes = fleet(FakeKube(*HEALTHY), "-n", "elsewhere")
    assert (status, lines) == (1, [])
    assert "there is no such SlurmCluster" in notes
    assert "team/demo" in notes
    assert fleet(FakeKube([], []), "-n", "team")[0] == 0


def test_json_is_for_programs(fleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, _ = fleet(FakeKube([owned("w0"), node("w1", "demo")], [slurmd("h100-0", "w0")]), "-o", "json")
    found = json.loads("\n".join("   ".join(line) for line in lines))
    assert status == 1
    assert [one["node"] for one in found["nodes"]] == ["w0", "w1"]
    assert found["nodes"][0]["slurmNodes"] == [{"cluster": "team.demo", "name": "h100-0", "state": "IDLE"}]
    assert found["summary"]["problems"] == 1


def test_an_api_server_that_does_not_answer_is_an_error(fleet: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    kube = FakeKube(*HEALTHY)

    def fails(path: str, query: Mapping[str, str], shape: Any) -> AsyncIterator[Json]:
        raise ApiError(0, "the API server cannot be reached")

    monkeypatch.setattr(kube, "listing", fails)
    assert fleet(kube) == (1, [], "slurmcluster_operator: the API server cannot be reached\n")
