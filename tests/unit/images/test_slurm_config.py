"""``slurm-config install`` and ``applied``: files go to /etc/slurm as a whole, and drift is seen."""

import os
import subprocess
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
