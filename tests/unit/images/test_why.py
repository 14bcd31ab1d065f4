"""The command ``why`` of login pods: what it asks Slurm, and what it says when Slurm does not answer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from images.build import ROOT

SCRIPT = ROOT / "images/slurm/rootfs-login/usr/local/bin/why"
RECORDED = json.loads((ROOT / "tests/unit/explain/recorded-26.05.json").read_text())

# A stand-in for Slurm's commands: prints the file that is named after the call.
COMMAND = """#!/bin/bash
name=$(basename "$0") && name="$name $*"
cat "$LAB/${name// /_}" 2>/dev/null || { echo "$name: not expected" >&2; exit 1; }
"""


class Login:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # As the image has it: the folder alone, without the project around it.
        shutil.copytree(ROOT / "slurmcluster_operator/explain", folder / "explain")
        for name in ("squeue", "scontrol"):
            (folder / name).write_text(COMMAND)
            (folder / name).chmod(0o755)
        self.answer("scontrol show nodes --json", nodes=RECORDED["nodes"])

    def answer(self, command: str, **reply: Any) -> None:
        (self.folder / command.replace(" ", "_")).write_text(json.dumps({"errors": [], **reply}))

    def why(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "LAB": str(self.folder),
            "PYTHONPATH": str(self.folder),
        }
        command = [sys.executable, str(SCRIPT), *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def login(tmp_path: Path) -> Login:
    return Login(tmp_path)


def test_a_job(login: Login) -> None:
    login.answer("scontrol show job 69 --json", jobs=RECORDED["jobs"]["all6"])
    done = login.why("69")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Job 69 is pending: it needs 6 nodes. Of the 6 nodes that it may use,")


def test_all_jobs_that_wait_each_a_paragraph(login: Login) -> None:
    jobs = [job for case in ("drained", "het", "array", "configuring") for job in RECORDED["jobs"][case]]
    login.answer("squeue --me -t PENDING,CONFIGURING --json", jobs=jobs)
    paragraphs = login.why().stdout.split("\n\n")
    assert [each.split()[1] for each in paragraphs] == ["67", "73+0", "72_[3-7%2]", "78"]
    assert "Job 73+1 is pending:" in paragraphs[1]


def test_nothing_waits(login: Login) -> None:
    login.answer("squeue --me -t PENDING,CONFIGURING --json", jobs=[])
    assert login.why().stdout == "None of your jobs is waiting.\n"


def test_one_part_of_a_heterogeneous_job(login: Login) -> None:
    login.answer("scontrol show job 73+1 --json", jobs=RECORDED["jobs"]["het"])
    assert login.why("73+1").stdout.startswith("Job 73+1 is pending:")


def test_jobs_that_come_first_are_counted(login: Login) -> None:
    login.answer("scontrol show job 71 --json", jobs=RECORDED["jobs"]["prio"])
    (login.folder / "squeue_-h_-t_PENDING_-p_gpu_-o_%Q").write_text("9\n1\n7\n")
    assert "2 jobs have a higher priority in partition gpu)." in login.why("71").stdout
    (login.folder / "squeue_-h_-t_PENDING_-p_gpu_-o_%Q").unlink()
    assert "other jobs in partition gpu come first" in login.why("71").stdout


def test_an_unknown_job_beside_a_known_one(login: Login) -> None:
    login.answer("scontrol show job 61 --json", jobs=RECORDED["jobs"]["helduser"])
    login.answer("scontrol show job 5 --json", jobs=[])
    done = login.why("5", "61")
    assert done.returncode == 1
    assert done.stdout == "Job 61 is pending: its owner holds it. It goes on with: scontrol release 61\n"
    assert "there is no job 5:" in done.stderr


def test_slurm_does_not_answer(login: Login) -> None:
    (login.folder / "scontrol_show_nodes_--json").unlink()
    done = login.why("61")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "why: scontrol show nodes --json: not expected\n"
    login.answer("scontrol show nodes --json", errors=[{"error": "Zero Bytes were transmitted"}])
    assert login.why("61").stderr == "why: Zero Bytes were transmitted\n"
    (login.folder / "scontrol_show_nodes_--json").write_text("slurm_load_jobs error")
    assert login.why("61").stderr == "why: scontrol printed something else than JSON\n"


@pytest.mark.parametrize("argument", ["abc", "1 2", "", "1_2_3", "-5x", "12;id"])
def test_what_is_no_job_number(login: Login, argument: str) -> None:
    done = login.why(argument)
    assert done.returncode == 2
    assert "usage: why" in done.stderr


def test_help(login: Login) -> None:
    assert "without one: all your jobs that wait" in " ".join(login.why("--help").stdout.split())
