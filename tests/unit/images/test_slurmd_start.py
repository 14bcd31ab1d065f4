"""``slurmd-start``: a slurmd that takes the place of one that has ended in the same pod registers twice."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from images.build import ROOT

SCRIPT = ROOT / "images/slurm/rootfs/usr/local/bin/slurmd-start"

SLURMD = """#!/bin/bash
echo "slurmd $*" >>"$LAB/calls"
trap 'echo registers >>"$LAB/calls"' HUP
trap 'exit 3' TERM
while :; do sleep 0.1; done
"""


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


def test_a_slurmd_that_is_not_the_first_of_its_pod_registers_once_more(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    slurmd = tmp_path / "bin" / "slurmd"
    slurmd.write_text(SLURMD)
    slurmd.chmod(0o755)
    called = f"slurmd -D -b -N {os.uname().nodename} -v"
    run(tmp_path, called, quiet=1.5)
    run(tmp_path, called, "registers", quiet=1)
