"""``slurmd-stop``: waits for the last job step, and has slurmd register while there are any."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from images.build import ROOT

SCRIPT = ROOT / "images/slurm/rootfs/usr/local/bin/slurmd-stop"

# Stand-ins: processes of the host are none of its business. A step ends once slurmd has registered.
PGREP = """#!/bin/bash
echo "pgrep $*" >>"$LAB/calls"
[ -e "$LAB/step" ]
"""
PKILL = """#!/bin/bash
echo "pkill $*" >>"$LAB/calls"
rm "$LAB/step"
if [ -e "$LAB/waiting" ]; then
    (sleep 1; touch "$LAB/step"; sleep 6; rm "$LAB/step") >/dev/null 2>&1 &
fi
"""


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in (("pgrep", PGREP), ("pkill", PKILL)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    return tmp_path


def stop(lab: Path, limit: int, after: int) -> tuple[set[str], str]:
    """Run it as if it had begun so many seconds ago; return the different commands it ran, and what it said."""
    env = {"PATH": f"{lab}/bin:{os.environ['PATH']}", "LAB": str(lab), "SECONDS": str(after)}
    done = subprocess.run([str(SCRIPT), str(limit)], env=env, capture_output=True, text=True, timeout=60, check=True)
    return set((lab / "calls").read_text().splitlines()), done.stderr


LOOK = r"pgrep -f ^slurmstepd: \["


def test_without_a_step_it_returns_at_once(lab: Path) -> None:
    assert stop(lab, 100, 0) == ({LOOK}, "")


def test_a_step_that_slurmctld_has_forgotten_ends_because_slurmd_registers(lab: Path) -> None:
    (lab / "step").touch()
    assert stop(lab, 100, 14) == ({LOOK, "pkill -HUP -f ^slurmd "}, "")


def test_a_job_that_comes_because_slurmd_registered_is_waited_for(lab: Path) -> None:
    (lab / "step").touch()
    (lab / "waiting").touch()
    began = time.monotonic()
    assert stop(lab, 100, 14) == ({LOOK, "pkill -HUP -f ^slurmd "}, "")
    assert time.monotonic() - began > 7, "1 s until it begins, 6 s that it runs"


def test_a_step_is_waited_for_only_so_long_and_slurmd_is_left_alone_at_first(lab: Path) -> None:
    (lab / "step").touch()
    assert stop(lab, 12, 11) == ({LOOK}, "slurmd-stop: job steps are left after 12 s\n")
    assert (lab / "step").exists()
