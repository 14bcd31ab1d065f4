"""Whether a machine is alive is told by a kernel lock, never by a number in a file."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localkube import machines
from localkube.layout import MachineFolder
from localkube.locks import hold_for_life, holder

_HOLD = (
    "import sys,time,pathlib; from localkube.locks import hold_for_life;"
    "print(hold_for_life(pathlib.Path(sys.argv[1])), flush=True); time.sleep(60)"
)


@pytest.fixture
def folder(tmp_path: Path) -> MachineFolder:
    return MachineFolder(tmp_path)


@pytest.fixture
def living(folder: MachineFolder) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _HOLD, str(folder.lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "True"
        yield process
        process.kill()


def test_the_holder_is_found(folder: MachineFolder, living: subprocess.Popen[str]) -> None:
    assert machines.pid_of(folder) == living.pid


def test_a_second_machine_cannot_take_the_lock(folder: MachineFolder, living: subprocess.Popen[str]) -> None:
    assert living.poll() is None
    assert not hold_for_life(folder.lock)


def test_kill_ends_the_holder_and_nothing_twice(folder: MachineFolder, living: subprocess.Popen[str]) -> None:
    assert machines.kill(folder)
    assert living.wait(5) == -signal.SIGKILL
    assert machines.pid_of(folder) is None
    assert not machines.kill(folder)


def test_a_number_that_went_to_another_process_is_not_believed(folder: MachineFolder) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as bystander:
        folder.lock.write_text(str(bystander.pid))
        assert not machines.kill(folder)
        assert bystander.poll() is None
        bystander.kill()


def test_a_machine_that_never_ran_has_no_holder(tmp_path: Path) -> None:
    assert holder(tmp_path / "none") is None


def test_the_lock_is_free_after_a_crash(folder: MachineFolder, living: subprocess.Popen[str]) -> None:
    os.kill(living.pid, signal.SIGKILL)
    living.wait(5)
    assert machines.pid_of(folder) is None
