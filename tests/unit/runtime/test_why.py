"""The command ``why`` in the operator's pod: what it asks slurmrestd, and what it says when there is nothing to say."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from slurmcluster_operator.__main__ import main
from slurmcluster_operator.kube.client import Kube, NotFoundError
from slurmcluster_operator.runtime import rest
from slurmcluster_operator.slurm.client import SlurmRest

RECORDED = json.loads((Path(__file__).parents[1] / "explain/recorded-26.05.json").read_text())


class FakeKube:
    """Serves SlurmClusters and their keys."""

    def __init__(self, *clusters: str, keys: bool = True) -> None:
        self.clusters = [dict(zip(("namespace", "name"), one.split("/"), strict=True)) for one in clusters]
        self.keys = keys

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        return None

    async def listing(self, path: str, query: Mapping[str, str], shape: Any) -> AsyncIterator[dict[str, Any]]:
        for one in self.clusters:
            yield {"metadata": one}

    async def get(self, api_version: str, kind: str, namespace: str, name: str) -> dict[str, Any]:
        if not self.keys:
            raise NotFoundError(404, f'secrets "{name}" not found')
        return {"data": {"jwt.key": base64.b64encode(b"k" * 32).decode()}}


class Lab:
    """Runs the command. ``jobs`` is what slurmrestd answers, or its error; ``asked`` the jobs that it was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.jobs: list[dict[str, Any]] | str = []
        self.asked: list[str] = []
        self.kube = FakeKube("team/demo")
        self._capsys = capsys

        class Reached(SlurmRest):
            def __init__(own, url: str, tokens: Any, proxy: str = "") -> None:  # noqa: N805 - self is the lab
                super().__init__(url, tokens, httpx.MockTransport(self._answer), proxy)

        async def connect() -> FakeKube:
            return self.kube

        monkeypatch.setattr(rest, "SlurmRest", Reached)
        monkeypatch.setattr(Kube, "connect", connect)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        _, slash, job = request.url.path.partition("/job/")
        if not slash:
            return httpx.Response(200, json={"nodes": RECORDED["nodes"], "errors": []})
        self.asked.append(job)
        if isinstance(self.jobs, str):
            return httpx.Response(500, json={"jobs": [], "errors": [{"error": self.jobs}]})
        return httpx.Response(200, json={"jobs": self.jobs, "errors": []})

    def why(self, *arguments: str) -> tuple[int, str, str]:
        status = main(["why", *arguments])
        said = self._capsys.readouterr()
        return status, said.out, said.err.removeprefix("slurmcluster_operator: ")


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lab:
    return Lab(monkeypatch, capsys)


def test_a_job(lab: Lab) -> None:
    lab.jobs = RECORDED["jobs"]["helduser"]
    said = "Job 61 is pending: its owner holds it. It goes on with: scontrol release 61\n"
    assert lab.why("61") == (0, said, "")
    assert lab.asked == ["61"]


def test_a_job_that_does_not_exist(lab: Lab) -> None:
    words = "team/demo: there is no job 5: Slurm forgets jobs some minutes after their end\n"
    assert lab.why("5") == (1, "", words)
    lab.jobs = "Invalid job id specified"
    status, said, words = lab.why("5")
    assert (status, said) == (1, "")
    assert words.startswith("team/demo: ")
    assert "Invalid job id specified" in words


@pytest.mark.parametrize("number", ["5", "5_7", "5+1"])
def test_what_is_a_job_number_is_asked_for(lab: Lab, number: str) -> None:
    assert f"there is no job {number}:" in lab.why(number)[2]
    assert lab.asked == [number]


@pytest.mark.parametrize("number", ["abc", "1 2", "", "1_2_3", "5/../6", "5?x=1", "9" * 11])
def test_what_is_no_job_number_is_not_asked_for(lab: Lab, number: str) -> None:
    status, said, words = lab.why(number)
    assert (status, said, lab.asked) == (1, "", [])
    assert words == f"{number!r} is no job number: write 123, 123_7 (array) or 123+1 (heterogeneous)\n"


@pytest.mark.parametrize(
    ("kube", "words"),
    [
        (FakeKube(), "there are: none"),
        (FakeKube("team/demo", "lab/x"), "say which SlurmCluster, with --namespace and --cluster"),
        (FakeKube("team/demo", keys=False), "not found"),
    ],
)
def test_which_cluster_is_meant_must_be_clear_and_its_key_there(lab: Lab, kube: FakeKube, words: str) -> None:
    lab.kube = kube
    status, said, error = lab.why("5")
    assert (status, said, lab.asked) == (1, "", [])
    assert words in error


def test_one_of_several_clusters(lab: Lab) -> None:
    lab.kube = FakeKube("team/demo", "lab/x")
    assert lab.why("5", "--namespace", "lab")[2].startswith("lab/x: there is no job 5")
