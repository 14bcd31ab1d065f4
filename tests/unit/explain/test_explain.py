"""What ``why`` says, on jobs and nodes recorded from ``scontrol --json`` of real clusters of both versions."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurmcluster_operator.explain import explain, explain_all

Json = dict[str, Any]

HERE = Path(__file__).parent
RECORDED: dict[str, Json] = {
    version: json.loads((HERE / f"recorded-{version}.json").read_text()) for version in ("26.05", "24.11")
}
NODES = (
    "Of the 6 nodes that it may use, 2 are {N0} (n-[0-1]), 1 is drained (n-2: no Kubernetes node with 8 free "
    "GPUs), 1 is drained (n-3: ticket 4711), 1 is down (n-4: burnt) and 1 is reserved (n-5: maint). "
    "The operator tries again by itself; only an administrator can bring back n-[3-4]."
)
WAITS_FOR_N0 = "it needs 1 node. The node that it may use is {N0} (n-0)."
WAITS_FOR_N2 = (
    "it needs 1 node. The node that it may use is drained (n-2: no Kubernetes node with 8 free GPUs). "
    "The operator tries again by itself."
)
EXPECTED = {
    "all6": f"Job ID is pending: it needs 6 nodes. {NODES}",
    "feature": "Job ID is pending: its turn has not come (other jobs in partition gpu come first). " + NODES,
    "busy": f"Job ID is pending: {WAITS_FOR_N0}",
    "drained": f"Job ID is pending: {WAITS_FOR_N2}",
    "two": (
        "Job ID is pending: it needs 2 nodes. Of the 2 nodes that it may use, 1 is drained (n-2: no Kubernetes node "
        "with 8 free GPUs) and 1 is drained (n-3: ticket 4711). The operator tries again by itself; "
        "only an administrator can bring back n-3."
    ),
    "maintnode": (
        "Job ID is pending: it needs 1 node. The node that it may use is reserved (n-5: maint). "
        "slurmctld expects to start it at 17:00:01 at the latest."
    ),
    "array": (
        "Job ID_[3-7%2] is pending: its turn has not come (other jobs in partition gpu come first). "
        "The node that it may use is {N0} (n-0)."
    ),
    "het": (
        f"Job ID+0 is pending: {WAITS_FOR_N0}\nJob ID+1 is pending: {WAITS_FOR_N2}\n"
        "All parts of a heterogeneous job start together."
    ),
    "helduser": "Job ID is pending: its owner holds it. It goes on with: scontrol release ID",
    "heldadmin": (
        "Job ID is pending: an administrator holds it, and only an administrator can release it (scontrol release ID)."
    ),
    "nodelimit": (
        "Job ID is pending: it asks for 2 nodes, which is outside the limits of partition small, so it never starts as "
        "it is. Change it (scontrol update jobid=ID numnodes=N) or its partition."
    ),
    "timelimit": (
        "Job ID is pending: its time limit of 1 h 0 min is above what partition small allows, so it never starts as it "
        "is. Lower it: scontrol update jobid=ID timelimit=TIME"
    ),
    "off": (
        "Job ID is pending: partition off is closed by an administrator: it takes jobs but starts none. "
        "Wait, or move the job: scontrol update jobid=ID partition=OTHER"
    ),
}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(params=list(RECORDED))
def recorded(request: pytest.FixtureRequest) -> Json:
    return copy.deepcopy(RECORDED[request.param])


def at(job: Json, seconds: float = 30) -> float:
    """Return a time so long after the job was submitted."""
    return float(job["submit_time"]["number"]) + seconds


def said(recorded: Json, case: str, **more: Any) -> str:
    jobs = recorded["jobs"][case]
    nodes = more.pop("nodes", recorded["nodes"])
    words = explain_all([{**job, **more} for job in jobs], nodes, at(jobs[0]))
    return re.sub(rf"(Job |jobid=|release |scancel ){jobs[0]['job_id']}(?!\d)", r"\1ID", words)


def expected(recorded: Json, words: str) -> str:
    """Fill in what n-0 and n-1 did when this was recorded."""
    return words.replace("{N0}", "busy" if recorded["nodes"][0]["state"] == ["ALLOCATED", "CLOUD"] else "being started")


@pytest.mark.parametrize("case", EXPECTED)
def test_recorded_jobs(recorded: Json, case: str) -> None:
    assert said(recorded, case) == expected(recorded, EXPECTED[case])


def test_a_dependency_names_its_job(recorded: Json) -> None:
    first = int(recorded["jobs"]["dependency"][0]["dependency"].partition(":")[2].partition("(")[0])
    assert said(recorded, "dependency") == (
        f"Job ID is pending: it waits until job {first} has ended without error. Nothing else is needed."
    )


@pytest.mark.parametrize(
    ("dependency", "words"),
    [
        ("afterok:12(failed),afterany:13(unfulfilled)", "job 12 has ended without error and job 13 has ended."),
        ("after:12+5(unfulfilled)?afternotok:9_*(unfulfilled)", "job 12+5 has started or job 9_* has failed."),
        ("singleton(unfulfilled)", "no other job of this name and user runs."),
        ("", "the jobs that it depends on have ended."),
    ],
)
def test_kinds_of_dependency(recorded: Json, dependency: str, words: str) -> None:
    assert f"it waits until {words}" in said(recorded, "dependency", dependency=dependency)


def test_a_dependency_that_cannot_come_true(recorded: Json) -> None:
    words = said(recorded, "dependency", state_reason="DependencyNeverSatisfied")
    assert "can never come true" in words
    assert "scancel ID" in words


def test_a_begin_time(recorded: Json) -> None:
    words = said(recorded, "begin")
    assert re.fullmatch(r"Job ID is pending: it was submitted to begin later, in 1 h 59 min, at 17:59:\d\d\.", words)


def test_a_job_that_was_put_back_and_the_operators_words(recorded: Json) -> None:
    job = recorded["jobs"]["requeued"][0]
    now = float(job["start_time"]["number"]) - 4
    failed = [{**node, "state": ["DOWN"], "reason": "slurmcluster: image x/y:1 cannot be pulled"}
              if node["name"] == "n-5" else node for node in recorded["nodes"]]  # fmt: skip
    words = explain(job, failed, now)
    assert "a node failed or could not be started, so it was put back; it goes on in 4 s, at " in words
    assert "The node that it may use is down (n-5: image x/y:1 cannot be pulled)." in words
    assert words.endswith("The operator says: the image is being pulled.")


def test_a_job_whose_nodes_are_being_started(recorded: Json) -> None:
    job = recorded["jobs"]["configuring"][0]
    nodes = recorded["nodes_while_configuring"]
    now = float(job["start_time"]["number"]) + 14
    head = f"Job {job['job_id']} got its nodes (n-5) 14 s ago and starts when all of them are up."
    assert explain(job, nodes, now) == f"{head} n-5 is being started."
    commented = [{**node, "comment": "slurmcluster: pulling the image"} for node in nodes]
    assert explain(job, commented, now) == f"{head} n-5 is being started. n-5: pulling the image."
    waits = {**job, "admin_comment": "slurmcluster: no node with 8 GPUs is free."}
    assert explain(waits, nodes, now).endswith("The operator says: no node with 8 GPUs is free.")
    up = [{**node, "state": ["MIXED", "CLOUD"]} for node in nodes]
    assert explain(job, up, now) == f"{head} All of them are up, and slurmctld launches it now."
    two = {**job, "nodes": "n-[4-5]"}
    mixed = [{**node, "state": ["ALLOCATED", "CLOUD"]} if node["name"] == "n-4" else node for node in nodes]
    assert "n-5 is being started; n-4 is up." in explain(two, mixed, now)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (["RUNNING"], "Job ID is running on n-5 since"),
        (["RUNNING", "COMPLETING"], "Job ID has ended, and its nodes (n-5) are being cleaned up."),
        (["SUSPENDED"], "Job ID is suspended."),
        (["COMPLETED"], "Job ID has ended without error"),
        (["CANCELLED", "COMPLETING"], "Job ID was cancelled"),
        (["FAILED"], "Job ID has failed with exit code 3"),
        (["TIMEOUT"], "Job ID was ended at its time limit"),
        (["OUT_OF_MEMORY"], "Job ID was ended because it used more memory than it asked for"),
        (["NODE_FAIL"], "Job ID was lost with one of its nodes"),
        (["NEW_IN_A_LATER_SLURM"], "Job ID is new_in_a_later_slurm."),
    ],
)
def test_jobs_that_do_not_wait(recorded: Json, state: list[str], words: str) -> None:
    code = {"return_code": {"set": True, "infinite": False, "number": 3}}
    assert said(recorded, "configuring", job_state=state, exit_code=code).startswith(words)


def test_a_job_that_is_being_launched(recorded: Json) -> None:
    words = said(recorded, "configuring", job_state=["RUNNING"], state_reason="Prolog")
    assert words == "Job ID has its nodes (n-5), and they make ready for it."


def test_tasks_of_an_array_are_summed_up(recorded: Json) -> None:
    rest = recorded["jobs"]["array"][0]
    array, task = rest["array_job_id"], {"set": True, "infinite": False, "number": 1}
    runs = {**rest, "job_id": 900, "array_task_id": task, "array_task_string": "", "job_state": ["RUNNING"]}
    ended = {**runs, "job_id": 901, "job_state": ["COMPLETED"]}
    words = explain_all([rest, runs, ended], recorded["nodes"], at(rest)).splitlines()
    assert words[0] == "Of its parts: 1 running, 1 ended."
    assert words[1].startswith(f"Job {array['number']}_[3-7%2] is pending:")
    assert explain(runs, [], at(rest)).startswith(f"Job {array['number']}_1 is running")
    limit = explain({**rest, "state_reason": "JobArrayTaskLimit"}, [], at(rest))
    assert "as many tasks of its array run as it allows at a time (3-7%2)." in limit


def test_how_many_jobs_come_first(recorded: Json) -> None:
    job = recorded["jobs"]["prio"][0]
    assert "3 jobs have a higher priority in partition gpu)." in explain(job, [], at(job), 3)
    assert "1 job has a higher priority" in explain(job, [], at(job), 1)
    assert "other jobs in partition gpu come first" in explain(job, [], at(job), 0)


def test_a_job_that_is_new(recorded: Json) -> None:
    job = {**recorded["jobs"]["busy"][0], "state_reason": "None"}
    assert "just been submitted" in explain(job, recorded["nodes"], at(job, 1))
    assert expected(recorded, WAITS_FOR_N0) in explain(job, recorded["nodes"], at(job, 10))


def test_a_job_that_is_put_back_is_not_called_new_although_its_submit_time_is(recorded: Json) -> None:
    once = {"set": True, "infinite": False, "number": 1}
    job = {**recorded["jobs"]["busy"][0], "state_reason": "None", "restart_cnt": once}
    reason = "slurmcluster: could not be started: no slurmd registered within 30s"
    failed = [{**node, "state": ["DOWN", "CLOUD", "POWERED_DOWN"], "reason": reason} for node in recorded["nodes"]]
    words = explain(job, failed, at(job, 1))
    assert "could not be started, so it was put back; slurmctld looks at it in a moment." in words
    assert "no slurmd registered within 30s" in words
    assert expected(recorded, WAITS_FOR_N0) in explain(job, recorded["nodes"], at(job, 10))


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Licenses", "the licenses that it asks for (matlab:1) are in use."),
        ("Reservation", "it belongs to reservation maint"),
        ("BadConstraints", "what it asks for cannot be met"),
        ("JobHoldMaxRequeue", "scontrol release ID"),
        ("MaxPoweredUpNodes", "the cluster runs as many nodes as it may"),
        ("Cleaning", "still being cleaned up"),
        ("AccountNotAllowed", "its account is not allowed in this partition (AccountNotAllowed)."),
        ("SomethingNew", "Slurm's reason is SomethingNew (in detail)."),
    ],
)
def test_further_reasons(recorded: Json, reason: str, words: str) -> None:
    more = {"state_reason": reason, "state_description": "in detail", "resv_name": "maint", "licenses": "matlab:1"}
    assert words in said(recorded, "license", **more)


def test_without_nodes_it_says_so(recorded: Json) -> None:
    assert "not known at the moment" in said(recorded, "all6", nodes=[])
    elsewhere = [{**node, "partitions": ["other"]} for node in recorded["nodes"]]
    assert "No node of its partition fits" in said(recorded, "all6", nodes=elsewhere)


REASONS = (
    *("None", "Resources", "ReqNodeNotAvail", "Priority", "Dependency", "DependencyNeverSatisfied", "BeginTime"),
    *("JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "PartitionDown", "PartitionTimeLimit", "PartitionNodeLimit"),
    *("Licenses", "Reservation", "JobArrayTaskLimit", "BadConstraints", "MaxPoweredUpNodes", "Cleaning"),
    *("InvalidAccount", "QOSGrpCpuLimit", "AssocMaxJobsLimit", "SomethingNew"),
)
WORST = (
    {"state": ["DOWN"], "reason": "slurmcluster: could not be started: x"},
    {"state": ["DOWN"], "reason": "Not responding"},
    {"state": ["IDLE", "DRAIN"], "reason": "ticket 4711"},
)
"""Nodes that are brought back by the operator, by themselves, and by a person."""


def sentences(paragraph: str) -> list[str]:
    return paragraph.removesuffix(".").split(". ")


@pytest.mark.parametrize("comment", ["", "slurmcluster: pool h100 cannot start nodes: no such image"])
@pytest.mark.parametrize("reason", REASONS)
def test_no_explanation_has_more_than_three_sentences(recorded: Json, reason: str, comment: str) -> None:
    nodes = [{**node, **WORST[place % 3]} for place, node in enumerate(recorded["nodes"])]
    for jobs in recorded["jobs"].values():
        for job in jobs:
            soon = {"set": True, "infinite": False, "number": at(job) + 600}
            changed = {"state_reason": reason, "admin_comment": comment, "start_time": soon, "restart_cnt": 1}
            words = explain({**job, **changed}, nodes, at(job))
            assert len(sentences(words)) <= 3, words
            assert words.removesuffix(".").endswith(comment.removeprefix("slurmcluster: ")), words


def test_a_start_that_many_nodes_keep_up_is_three_sentences(recorded: Json) -> None:
    job = {**recorded["jobs"]["configuring"][0], "nodes": "n-[0-5]", "admin_comment": "slurmcluster: no such image"}
    nodes = [
        {**node, "state": ["POWERING_UP"], "comment": f"slurmcluster: cause {place}."}
        for place, node in enumerate(recorded["nodes"])
    ]
    words = sentences(explain(job, nodes, at(job)))
    assert len(words) == 3
    assert words[2] == "n-0: cause 0; n-1: cause 1; n-2: cause 2; and 3 more; the operator says: no such image"


def test_when_the_operators_words_follow_its_trying_again_and_the_plan_are_not_said(recorded: Json) -> None:
    job = recorded["jobs"]["busy"][0]
    soon = {"set": True, "infinite": False, "number": at(job) + 600}
    nodes = [{**node, **WORST[0]} for node in recorded["nodes"]]
    planned = {**job, "start_time": soon}
    assert re.search(
        r"by itself; slurmctld expects to start it at \S+ at the latest\.$", explain(planned, nodes, at(job))
    )
    words = explain({**planned, "admin_comment": "slurmcluster: no such image"}, nodes, at(job))
    assert words.endswith("could not be started: x). The operator says: no such image.")
    nodes = [{**node, **WORST[2]} for node in recorded["nodes"]]
    words = explain({**planned, "admin_comment": "slurmcluster: no such image"}, nodes, at(job))
    assert words.endswith("Only an administrator can bring back n-0; the operator says: no such image.")
