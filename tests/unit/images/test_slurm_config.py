"""``slurm-config install`` and ``applied``: files go to /etc/slurm as a whole, and drift is seen."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from images.build import ROOT

SCRIPT = ROOT / "images/slurm/rootfs/usr/local/bin/slurm-config"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "source", tmp_path / "target"
    target.mkdir()
    for volume, name, text in (("config", "slurm.conf", "ClusterName=a\n"), ("keys", "slurm.key", "secret")):
        # As the kubelet writes volumes: real files behind ..data, links in front.
        data = source / volume / "..2026_01"
        data.mkdir(parents=True)
        (data / name).write_text(text)
        (source / volume / "..data").symlink_to("..2026_01")
        (source / volume / name).symlink_to(f"..data/{name}")
    return source, target


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """Return where scontrol notes what it was asked; it refuses with the words of ``told.answer``, if any."""
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.parent.mkdir()
    told = tmp_path / "told"
    told.touch()
    scontrol.write_text(
        f'#!/bin/sh\necho "$@" >>{told}\n[ ! -e {told}.answer ] || {{ cat {told}.answer >&2; exit 1; }}\n'
    )
    scontrol.chmod(0o755)
    return told


def environment(folders: tuple[Path, Path]) -> dict[str, str]:
    base = folders[0].parent
    return {
        **os.environ,
        "PATH": f"{base / 'bin'}:{os.environ['PATH']}",
        "SLURM_CONFIG_SOURCE": str(folders[0]),
        "SLURM_CONFIG_TARGET": str(folders[1]),
        "SLURM_CONFIG_STATE": str(base),
        "TERMINATION_LOG": str(base / "said"),
    }


def run(folders: tuple[Path, Path], command: str) -> int:
    return subprocess.run([str(SCRIPT), command], env=environment(folders), check=False).returncode


@contextmanager
def watching(folders: tuple[Path, Path]) -> Iterator[subprocess.Popen[bytes]]:
    """Install the configuration as a new pod does, and let it watch for as long as the caller likes."""
    assert run(folders, "install") == 0
    with subprocess.Popen([str(SCRIPT), "watch"], env=environment(folders)) as watch:
        try:
            yield watch
        finally:
            watch.terminate()


def change(folders: tuple[Path, Path], text: str) -> None:
    (folders[0] / "config" / "..data" / "slurm.conf").write_text(text)


def eventually(is_so: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_files_arrive_with_their_modes(folders: tuple[Path, Path]) -> None:
    assert run(folders, "install") == 0
    target = folders[1]
    assert sorted(path.name for path in target.iterdir()) == [".applied", "slurm.conf", "slurm.key"]
    assert (target / "slurm.key").stat().st_mode & 0o777 == 0o600
    assert (target / "slurm.conf").stat().st_mode & 0o777 == 0o644


@pytest.mark.usefixtures("told")
def test_applied_notices_a_change_and_a_watch_mends_it(folders: tuple[Path, Path]) -> None:
    assert run(folders, "applied") != 0
    with watching(folders):
        eventually(lambda: run(folders, "applied") == 0)
        change(folders, "ClusterName=b\n")
        assert run(folders, "applied") != 0
    with watching(folders):
        eventually(lambda: run(folders, "applied") == 0)
    assert (folders[1] / "slurm.conf").read_text() == "ClusterName=b\n"


def test_a_start_is_over_only_once_slurmctld_was_told_to_reconfigure(folders: tuple[Path, Path], told: Path) -> None:
    away = told.with_suffix(".answer")
    away.write_text("slurm_reconfigure error: Unable to contact slurm controller (connect failure)")
    with watching(folders):
        eventually(lambda: len(told.read_text().splitlines()) >= 3)
        assert run(folders, "applied") != 0
        away.unlink()
        eventually(lambda: run(folders, "applied") == 0)
        asked = len(told.read_text().splitlines())
        time.sleep(1)
        assert len(told.read_text().splitlines()) == asked, "once it has heard that is enough"


def test_a_slurmctld_that_runs_but_will_not_be_reconfigured_is_quoted_and_left_alone(
    folders: tuple[Path, Path], told: Path
) -> None:
    told.with_suffix(".answer").write_text("slurm_reconfigure error: Cannot allocate memory")
    assert run(folders, "install") == 0
    env = {**environment(folders), "SLURM_CONFIG_STARTING": "2"}
    command = ["timeout", "10", str(SCRIPT), "watch"]
    assert subprocess.run(command, env=env, check=False).returncode == 1
    assert "Cannot allocate memory" in (folders[0].parent / "said").read_text()
    asked = len(told.read_text().splitlines())
    assert asked > 1, "it was given time"
    subprocess.run(["timeout", "3", *command[2:]], env=env, check=False)
    assert len(told.read_text().splitlines()) == asked + 1, "from then on it is asked once a minute"
    assert run(folders, "applied") != 0


def test_what_slurmctld_refuses_is_not_tried_again_at_once(folders: tuple[Path, Path], told: Path) -> None:
    with watching(folders):
        eventually(lambda: run(folders, "applied") == 0)
    asked = len(told.read_text().splitlines())
    told.with_suffix(".answer").write_text("scontrol: error: Invalid SchedulerType")
    change(folders, "SchedulerType=nonsense\n")
    command = ["timeout", "10", str(SCRIPT), "watch"]
    assert subprocess.run(command, env=environment(folders), check=False).returncode == 1
    assert "Invalid SchedulerType" in (folders[0].parent / "said").read_text()
    subprocess.run(["timeout", "3", *command[2:]], env=environment(folders), check=False)
    assert len(told.read_text().splitlines()) == asked + 2, "once for each container"
    assert (folders[1] / "slurm.conf").read_text() == "ClusterName=a\n"


def test_what_left_the_source_leaves_the_target(folders: tuple[Path, Path]) -> None:
    extra = folders[0] / "config" / "gres.conf"
    extra.write_text("Name=gpu\n")
    assert run(folders, "install") == 0
    assert (folders[1] / "gres.conf").exists()
    extra.unlink()
    assert run(folders, "install") == 0
    assert not (folders[1] / "gres.conf").exists()


def test_a_configuration_is_sent_to_the_nodes_once_also_by_the_next_pod(
    folders: tuple[Path, Path], told: Path, tmp_path: Path
) -> None:
    def watched(pod: str) -> int:
        """Let a new pod watch for a while; return how often slurmctld has been told to reconfigure."""
        target = tmp_path / pod
        target.mkdir()
        with watching((folders[0], target)):
            time.sleep(2)
        return len(told.read_text().splitlines())

    assert watched("first") == 1
    assert watched("second") == 1, "it has that already"
    change(folders, "ClusterName=b\n")
    assert watched("third") == 2
