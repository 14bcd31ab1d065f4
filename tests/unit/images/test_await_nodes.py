"""``await-nodes``: waits for a job's nodes, asks slurmctld once for everybody, and never outstays its job."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from images.build import ROOT

SCRIPT = ROOT / "images/slurm/rootfs/usr/local/bin/await-nodes"
PATIENCE = 120.0
"""Seconds that a machine which does other things at the same time may need for a hundred processes."""

# Stand-ins for Slurm's commands: the nodes that are not up and the jobs that wait are files.
SINFO = """#!/bin/bash
echo "$*" >>"$LAB/asked"
echo "$EPOCHREALTIME" >>"$LAB/times"
[ ! -e "$LAB/slow" ] || sleep "$(cat "$LAB/slow")"
[ ! -e "$LAB/away" ] || exit 1
cat "$LAB/not-up"
"""
SQUEUE = """#!/bin/bash
case "$*" in
    *'-t configuring'*) cat "$LAB/configuring" ;;
    *'-t running'*) cat "$LAB/running" ;;
esac
"""
SCONTROL = """#!/bin/bash
[ "$1" != requeue ] || echo "$2" >>"$LAB/requeued"
[ "$*" = "show hostnames n-[0-1]" ] && printf 'n-0\\nn-1\\n'
"""
WAKE = """#!/bin/bash
echo woken >>"$LAB/woken"
"""


@dataclass
class Lab:
    folder: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def set(self, name: str, *lines: str) -> None:
        new = self.folder / f"{name}.new"
        new.write_text("".join(f"{line}\n" for line in lines))
        new.rename(self.folder / name)

    def start(self, job: int, nodes: str, **more: str) -> subprocess.Popen[bytes]:
        env = {
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "LAB": str(self.folder),
            "AWAIT_NODES_FOLDER": str(self.folder / "run"),
            "AWAIT_NODES_RECHECK": "1",
            "SLURM_JOB_ID": str(job),
            "SLURM_JOB_NODELIST": nodes,
            **more,
        }
        process = subprocess.Popen([str(SCRIPT)], env=env, start_new_session=True)
        self.running.append(process)
        return process

    def waiting(self) -> int:
        return len(list((self.folder / "run").glob("*.job")))

    def asked(self) -> list[str]:
        return (self.folder / "asked").read_text().splitlines()


def until(true: Callable[[], object], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.02)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in (("sinfo", SINFO), ("squeue", SQUEUE), ("scontrol", SCONTROL), ("wake-operator", WAKE)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    lab = Lab(tmp_path)
    lab.set("not-up")
    lab.set("configuring", *map(str, range(100)))
    yield lab
    for process in lab.running:
        if process.poll() is None:
            process.kill()
        process.wait()
    # The one that asks ends by itself once nobody waits.
    until(lambda: not (tmp_path / "run" / "poller").exists())


def test_a_job_on_nodes_that_are_up_passes(lab: Lab) -> None:
    assert lab.start(1, "n-[0-1]").wait(PATIENCE) == 0
    assert len(lab.asked()) == 1
    assert "-n n-[0-1]" in lab.asked()[0]
    assert not (lab.folder / "woken").exists()


def test_many_short_jobs_on_one_node_ask_about_once_a_second(lab: Lab) -> None:
    for job in range(8):
        assert lab.start(job, "n-0").wait(PATIENCE) == 0
    assert len(lab.asked()) <= 4


def test_it_ends_when_the_last_node_is_up(lab: Lab) -> None:
    lab.set("not-up", "n-0", "n-1")
    process = lab.start(1, "n-[0-1]")
    until(lambda: lab.waiting() == 1)
    assert (lab.folder / "woken").read_text() == "woken\n"
    lab.set("not-up", "n-1")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    lab.set("not-up")
    assert process.wait(PATIENCE) == 0
    assert lab.waiting() == 0


def test_one_asks_for_all(lab: Lab) -> None:
    lab.set("not-up", "n-0")
    processes = [lab.start(job, "n-0") for job in range(20)]
    until(lambda: lab.waiting() == 20)
    before, start = len(lab.asked()), time.monotonic()
    time.sleep(1)
    rounds = len(lab.asked()) - before
    assert 1 <= rounds <= (time.monotonic() - start) / 0.1 + 1
    lab.set("not-up")
    assert [process.wait(PATIENCE) for process in processes] == [0] * 20


def test_while_asking_is_slow_it_pauses_for_as_long_and_no_longer(lab: Lab) -> None:
    lab.set("not-up", "n-0")
    lab.set("slow", "0.5")
    lab.start(1, "n-0")
    until(lambda: lab.waiting() == 1)
    until(lambda: len(lab.asked()) >= 6)
    # The first was asked by the job's own process; the times after it are the poller's.
    times = [float(line) for line in (lab.folder / "times").read_text().splitlines()][1:6]
    assert 1 <= min(after - before for before, after in itertools.pairwise(times)) < 2
    lab.set("not-up")


def test_it_ends_when_its_job_is_requeued(lab: Lab) -> None:
    lab.set("not-up", "n-0")
    gone, waits = lab.start(1, "n-0"), lab.start(2, "n-0")
    until(lambda: lab.waiting() == 2)
    lab.set("configuring", "2")
    assert gone.wait(PATIENCE) == 0
    assert waits.poll() is None


def test_nothing_of_a_killed_one_stays(lab: Lab) -> None:
    lab.set("not-up", "n-0")
    process = lab.start(1, "n-0")
    until(lambda: lab.waiting() == 1 and (lab.folder / "run" / "poller").exists())
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    until(lambda: sorted(path.name for path in (lab.folder / "run").iterdir()) == ["lock"])


def test_jobs_that_are_stuck_after_a_reconfiguration_are_requeued(lab: Lab) -> None:
    lab.set("running", "1 10:00 Prolog", "2 10:00 Prolog", "3 10:00 None", "4 10:00 Prolog")
    env = {"PATH": f"{lab.folder}/bin:{os.environ['PATH']}", "LAB": str(lab.folder), "AWAIT_NODES_SETTLE": "2"}
    process = subprocess.Popen([str(SCRIPT), "--relaunch"], env=env)
    time.sleep(1)
    # 2 was launched meanwhile, 4 was requeued and started again, 5 is new.
    lab.set("running", "1 10:00 Prolog", "2 10:00 None", "3 10:00 Prolog", "4 10:01 Prolog", "5 10:01 Prolog")
    assert process.wait(PATIENCE) == 0
    assert (lab.folder / "requeued").read_text() == "1\n"


def test_what_a_job_left_that_was_killed_early_is_removed(lab: Lab) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = lab.folder / "run" / f"{ended.pid}.wake"
    left.parent.mkdir()
    left.write_text("")
    lab.set("not-up", "n-0")
    lab.start(1, "n-0")
    until(lambda: not left.exists())


def test_no_answer_ends_nothing(lab: Lab) -> None:
    lab.set("not-up", "n-0")
    process = lab.start(1, "n-0")
    until(lambda: lab.waiting() == 1)
    lab.set("away")
    asked = len(lab.asked())
    until(lambda: len(lab.asked()) > asked + 1)  # whoever was asking has seen it
    lab.set("not-up")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.7)
    (lab.folder / "away").unlink()
    assert process.wait(PATIENCE) == 0


def test_a_killed_poller_is_replaced(lab: Lab) -> None:
    lab.set("not-up", "n-0")
    first = lab.start(1, "n-0")
    poller = lab.folder / "run" / "poller"
    until(poller.exists)
    os.kill(int(poller.read_text()), signal.SIGKILL)
    second = lab.start(2, "n-0")
    until(lambda: lab.waiting() == 2)
    lab.set("not-up")
    assert first.wait(PATIENCE) == 0
    assert second.wait(PATIENCE) == 0


def test_it_ends_when_it_has_been_told_and_did_not_hear_it(lab: Lab) -> None:
    lab.set("not-up", "n-0")
    process = lab.start(1, "n-0")
    until(lambda: lab.waiting() == 1)
    # As the one that asks does once the nodes are up, but for the word.
    (lab.folder / "run" / f"{process.pid}.job").unlink()
    assert process.wait(PATIENCE) == 0


def test_it_gives_up_in_the_end(lab: Lab) -> None:
    lab.set("not-up", "n-0")
    assert lab.start(1, "n-0", AWAIT_NODES_SECONDS="0").wait(PATIENCE) == 0


def test_without_a_job_it_does_nothing(lab: Lab) -> None:
    assert lab.start(1, "").wait(PATIENCE) == 0
    assert not (lab.folder / "asked").exists()
