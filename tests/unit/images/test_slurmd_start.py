"""``slurmd-start``: when slurmd registers once more, and when another takes its place."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from images.build import ROOT

SCRIPT = ROOT / "images/slurm/rootfs/usr/local/bin/slurmd-start"

SLURMD = """#!/bin/bash
echo "slurmd $*" >>"$LAB/calls"
trap 'echo registers >>"$LAB/calls"' HUP
trap 'exit 3' TERM
while :; do sleep 0.1; done
"""


SCONTROL = """#!/bin/bash
echo "$(cat "$LAB/node") Extra=none"
"""

CALLED = f"slurmd -D -b -N {os.uname().nodename} -v"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A folder with a slurmd that tells of its calls, and a scontrol that tells what is written there."""
    (tmp_path / "bin").mkdir()
    for name, text in (("slurmd", SLURMD), ("scontrol", SCONTROL)):
        program = tmp_path / "bin" / name
        program.write_text(text)
        program.chmod(0o755)
    node(tmp_path, "IDLE+CLOUD", 0)
    return tmp_path


def node(lab: Path, state: str, ahead: float) -> None:
    """Let slurmctld have this state, and have heard of a slurmd that began so many seconds from now."""
    began = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + ahead))
    (lab / "node").write_text(f"NodeName=h100-0 State={state} BootTime=Unknown SlurmdStartTime={began}")


def run(lab: Path, *calls: str, quiet: float = 0) -> None:
    """Start it, wait until slurmd has been called like this, and for a while longer; end it."""
    log = lab / "calls"
    log.write_text("")
    env = {"PATH": f"{lab}/bin:{os.environ['PATH']}", "LAB": str(lab)}
    env |= {"SLURMD_SPOOL": str(lab), "SLURMD_REGISTER_AGAIN": "0.5"}
    with subprocess.Popen([str(SCRIPT), "--local-config", "-v"], env=env, start_new_session=True) as process:
        try:
            deadline = time.monotonic() + 60
            while log.read_text().splitlines() != [*calls] and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(quiet)
            assert log.read_text().splitlines() == [*calls]
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_a_slurmd_that_is_not_the_first_of_its_pod_registers_once_more(lab: Path) -> None:
    run(lab, CALLED, quiet=1.5)
    run(lab, CALLED, "registers", quiet=1)


def test_a_slurmd_that_slurmctld_ignores_makes_way_for_another(lab: Path) -> None:
    # The first has been heard of when it is looked at; the second begins later than that.
    node(lab, "MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", 0.9)
    run(lab, CALLED, CALLED, quiet=2.5)


@pytest.mark.parametrize(
    ("state", "ahead"),
    [
        ("MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", -5),
        ("MIXED+CLOUD+POWERED_DOWN", 0.9),
        ("MIXED+CLOUD", 0.9),
        ("IDLE+CLOUD+DRAIN+POWERING_UP+INVALID_REG", 0.9),
    ],
    ids=["has not been heard of", "is not waited for yet", "serves", "is refused"],
)
def test_a_slurmd_is_left_alone_that(lab: Path, state: str, ahead: float) -> None:
    node(lab, state, ahead)
    run(lab, CALLED, quiet=2.5)
