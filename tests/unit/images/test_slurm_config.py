"""``slurm-config install`` and ``applied``: files go to /etc/slurm as a whole, and drift is seen."""

import os
import subprocess
import time
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


def run(folders: tuple[Path, Path], command: str) -> int:
    source, target = folders
    env = {**os.environ, "SLURM_CONFIG_SOURCE": str(source), "SLURM_CONFIG_TARGET": str(target)}
    return subprocess.run([str(SCRIPT), command], env=env, check=False).returncode


def test_files_arrive_with_their_modes(folders: tuple[Path, Path]) -> None:
    assert run(folders, "install") == 0
    target = folders[1]
    assert sorted(path.name for path in target.iterdir()) == [".applied", "slurm.conf", "slurm.key"]
    assert (target / "slurm.key").stat().st_mode & 0o777 == 0o600
    assert (target / "slurm.conf").stat().st_mode & 0o777 == 0o644


def test_applied_notices_a_change_and_install_mends_it(folders: tuple[Path, Path]) -> None:
    assert run(folders, "applied") != 0
    assert run(folders, "install") == 0
    assert run(folders, "applied") == 0
    (folders[0] / "config" / "slurm.conf").write_text("ClusterName=b\n")
    assert run(folders, "applied") != 0
    assert run(folders, "install") == 0
    assert run(folders, "applied") == 0
    assert (folders[1] / "slurm.conf").read_text() == "ClusterName=b\n"


def test_what_left_the_source_leaves_the_target(folders: tuple[Path, Path]) -> None:
    extra = folders[0] / "config" / "gres.conf"
    extra.write_text("Name=gpu\n")
    assert run(folders, "install") == 0
    assert (folders[1] / "gres.conf").exists()
    extra.unlink()
    assert run(folders, "applied") != 0
    assert run(folders, "install") == 0
    assert not (folders[1] / "gres.conf").exists()


def test_a_configuration_is_sent_to_the_nodes_once_also_by_the_next_pod(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    told = tmp_path / "told"
    (tmp_path / "bin").mkdir()
    (tmp_path / "state").mkdir()
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.write_text(f'#!/bin/sh\necho "$@" >>{told}\n')
    scontrol.chmod(0o755)

    def watched(pod: str) -> int:
        """Let a new pod watch for a while; return how often slurmctld has been told to reconfigure."""
        target = tmp_path / pod
        target.mkdir()
        environment = {
            **os.environ,
            "PATH": f"{scontrol.parent}:{os.environ['PATH']}",
            "SLURM_CONFIG_SOURCE": str(folders[0]),
            "SLURM_CONFIG_TARGET": str(target),
            "SLURM_CONFIG_STATE": str(tmp_path / "state"),
        }
        assert run((folders[0], target), "install") == 0
        with subprocess.Popen([str(SCRIPT), "watch"], env=environment) as watch:
            time.sleep(2)
            watch.terminate()
        return len(told.read_text().splitlines())

    assert watched("first") == 1
    assert watched("second") == 1, "it has that already"
    (folders[0] / "config" / "slurm.conf").write_text("ClusterName=b\n")
    assert watched("third") == 2
