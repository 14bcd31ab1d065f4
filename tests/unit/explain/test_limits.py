"""Limits of accounting in words: every name that Slurm has for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmcluster_operator.explain.job import explain
from slurmcluster_operator.explain.limits import in_words

NAMES = (Path(__file__).parent / "limits-26.05.txt").read_text().split()


@pytest.mark.parametrize("name", NAMES)
def test_every_limit_has_words(name: str) -> None:
    words = in_words(name, "vision", "normal")
    assert words is not None
    assert f"({name})" in words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("QOSMaxGRESPerUser", "The limit of QOS normal on GPUs (or other GRES) of one user at the same time"),
        ("AssocGrpGRES", "The limit of account vision on GPUs (or other GRES) of all its jobs together"),
        ("AssocMaxJobsLimit", "The limit of account vision on running jobs of one user"),
        ("QOSGrpCPUMinutesLimit", "The limit of QOS normal on minutes of CPUs of all its jobs together"),
        (
            "MaxCpuRunMinsPerUser",
            "The limit of QOS normal on minutes of CPUs that running jobs may still use of one user",
        ),
        ("AssocMaxWallDurationPerJobLimit", "The limit of account vision on run time of one job"),
        ("QOSMinGRES", "The least GPUs (or other GRES) of one user that QOS normal demands"),
    ],
)
def test_limits_in_words(name: str, words: str) -> None:
    assert str(in_words(name, "vision", "normal")).startswith(words)


@pytest.mark.parametrize("name", ["Resources", "QOSNotAllowed", "MaxNodeCount", ""])
def test_other_reasons_are_no_limits(name: str) -> None:
    assert in_words(name, "vision", "normal") is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("AssocGrpGRES", "is reached. It starts by itself"),
        ("QOSMaxJobsPerUserLimit", "is reached. It starts by itself"),
        ("QOSMaxCpuPerJobLimit", "does not fit this job, so it never starts as it is."),
        ("QOSMinGRES", "does not fit this job"),
    ],
)
def test_whether_it_starts_by_itself(name: str, words: str) -> None:
    job = {"job_id": 7, "job_state": ["PENDING"], "state_reason": name, "account": "vision", "qos": "normal"}
    assert words in explain(job, [], 0)
