from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from hack.soak import report
from hack.soak.history import Tenure
from hack.soak.report import Enough, Result, failures
from hack.soak.work import Job

FINDINGS: dict[str, Any] = {
    "double_claims": [],
    "round_trips": {"worker-0": 2, "worker-1": 1},
    "pods": {"ran": 9, "completed": 7, "evicted": 2, "failed": 0},
    "tenures": [asdict(Tenure("worker-0", 102.0, ["h100-0"], 107.0, 140.0, reclaimed=True))],
    "sightings": 77,
}


def job(state: str = "COMPLETED", notes: str = "start h100-0 110, end h100-0 113", nodes: int = 1) -> Job:
    made = Job("soak-1-0", "h100", nodes, 100.0, "1", state)
    words = [note.split() for note in notes.split(", ") if note]
    made.notes = [(what, host, float(at)) for what, host, at in words]
    return made


def test_a_good_run_has_no_failures() -> None:
    again = job(notes="start h100-0 110, end h100-0 113, start h100-1 150, end h100-1 153")
    cut_short = job(notes="start h100-0 110, start h100-1 110, start h100-1 150, start h100-0 150, "
                    "end h100-0 153, end h100-1 153", nodes=2)  # fmt: skip
    assert list(failures(Result([job(), again, cut_short], FINDINGS, {}, (), Enough(3)))) == []


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (job("FAILED"), "is lost: Slurm says FAILED of it; it wrote: start on h100-0; end on h100-0"),
        (job("CANCELLED"), "is lost"),
        (job("", ""), "is lost: Slurm says nothing of it; it wrote: nothing"),
        (job(notes="start h100-0 110"), "is lost: Slurm says COMPLETED of it; it wrote: start on h100-0"),
        (job(nodes=2), "2 nodes of h100) is lost"),
        # Run again, elsewhere: the last run counts, and has not ended.
        (job(notes="start h100-0 110, end h100-0 113, start h100-1 150"), "is lost"),
        (job(notes="start h100-0 110, end h100-0 113, start h100-0 150"), "is lost"),
        (job("PENDING", ""), "has not ended: Slurm says PENDING"),
        (job("RUNNING"), "has not ended: Slurm says RUNNING of it; it wrote: start on h100-0; end on h100-0"),
    ],
)
def test_a_job_that_did_not_complete_is_named(bad: Job, words: str) -> None:
    (sentence,) = failures(Result([job(), bad], FINDINGS, {}, (), Enough(3)))
    assert sentence.startswith("job 1 (soak-1-0, ")
    assert words in sentence


def test_double_claims_too_few_round_trips_and_problems_are_failures() -> None:
    claim = {"node": "worker-0", "words": "pod a/b is there, and soak.soak owns the node", "at": 1.0, "version": 2}
    findings = {**FINDINGS, "double_claims": [claim]}
    enough = Enough(4, ["operator killed", "kubelet killed"])
    result = Result([job()], findings, {"kubelet killed": 1}, ["login pod deleted: not within 120 s"], enough)
    assert list(failures(result)) == [
        "double claim on worker-0: pod a/b is there, and soak.soak owns the node",
        "only 3 round trips of nodes from Slurm to Kubernetes and back; 4 are needed",
        "there was no operator killed",
        "login pod deleted: not within 120 s",
    ]
    assert [one.split()[0] for one in failures(Result())] == ["only"], "a run that has seen nothing has shown nothing"


@pytest.mark.parametrize(
    ("tenure", "waited"),
    [
        (Tenure("worker-0", 102.0, ["h100-0"], 107.0, 140.0, reclaimed=True), [10.0]),
        (Tenure("worker-0", 102.0, ["h100-0"], 107.0, None, reclaimed=True), [10.0]),
        (Tenure("worker-0", 102.0, ["h100-0"], 107.0, 140.0, reclaimed=False), []),
        (Tenure("worker-0", 99.0, ["h100-0"], 107.0, 140.0, reclaimed=True), []),
        (Tenure("worker-0", 102.0, ["h100-1"], 107.0, 140.0, reclaimed=True), []),
        (Tenure("worker-0", 102.0, ["h100-0"], 107.0, 109.0, reclaimed=True), []),
    ],
    ids=["taken for it", "still there", "was idle", "taken before", "another node", "gone before"],
)
def test_waits_are_those_of_jobs_whose_node_was_taken_from_kubernetes_for_them(
    tenure: Tenure, waited: list[float]
) -> None:
    assert report.waits([job()], [tenure]) == waited


def test_a_job_that_was_run_again_waited_until_its_first_start() -> None:
    twice = job(notes="start h100-0 110, start h100-0 130, end h100-0 135")
    tenure = Tenure("worker-0", 102.0, ["h100-0"], 107.0, 140.0, reclaimed=True)
    assert report.waits([twice], [tenure]) == [10.0]
    assert twice.runs == 2


def test_returns_are_counted_from_the_last_job_there() -> None:
    jobs = [job(), job(notes="start h100-0 114, end h100-0 120"), job(notes="start h100-0 150, end h100-0 160")]
    here = Tenure("worker-0", 102.0, ["h100-0"], 107.0, 140.0)
    assert report.returns(jobs, [here]) == [20.0]
    assert report.returns(jobs, [Tenure("worker-0", 102.0, ["h100-0"], 107.0, None)]) == []
    assert report.returns(jobs, [Tenure("worker-1", 102.0, ["h100-1"], 107.0, 140.0)]) == []


def test_the_summary_tells_all_figures() -> None:
    lost, again = job("FAILED"), job(notes="start h100-0 110, start h100-0 111, end h100-0 113")
    text = report.summary(Result([job(), lost, again], FINDINGS, {"power cut": 3}))
    rows = {tuple(line.rsplit("  ", 1)) for line in text.splitlines()}
    cells = {name.strip(): value.strip() for name, value in (row for row in rows if len(row) > 1)}
    assert cells["Slurm jobs submitted"] == "3"
    assert cells["Slurm jobs completed"] == "2"
    assert cells["Slurm jobs started more than once"] == "1"
    assert cells["Slurm jobs LOST"] == "1"
    assert cells["Kubernetes Jobs' pods that were evicted"] == "2"
    assert cells["round trips of worker-0"] == "2"
    assert cells["claim of a node -> slurmd ready"] == "median 5.0 s, longest 5.0 s (1)"
    assert cells["sbatch -> running on nodes taken from Kubernetes"] == "median 10.0 s, longest 10.0 s (3)"
    assert cells["end of the last job -> node returned"] == "median 27.0 s, longest 27.0 s (1)"
    assert cells["trouble: power cut"] == "3"
    assert cells["DOUBLE CLAIMS"] == "0"
