from __future__ import annotations

from pathlib import Path

import pytest

from localkube import golden
from localkube.errors import LocalkubeError
from localkube.layout import MachineFolder

NAME = "docker.io/me/image:1"


def test_an_archive_is_loaded_once_and_again_when_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    monkeypatch.setattr(golden, "import_archive", lambda socket, archive: loaded.append(archive.name))
    node = MachineFolder(tmp_path)
    for archive in (Path("a.tar"), Path("a.tar"), Path("b.tar")):
        if not golden.has(node, archive, [NAME]):
            golden.load(node, archive, [NAME])
    assert loaded == ["a.tar", "b.tar"]


def test_a_note_that_cannot_be_read_counts_as_none(tmp_path: Path) -> None:
    node = MachineFolder(tmp_path)
    node.images.write_text("half a no")
    assert not golden.has(node, Path("a.tar"), [NAME])


def test_an_import_that_fails_is_not_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(socket: Path, archive: Path) -> None:
        raise RuntimeError(str((socket, archive)))

    monkeypatch.setattr(golden, "import_archive", fail)
    node = MachineFolder(tmp_path)
    with pytest.raises(RuntimeError):
        golden.load(node, Path("a.tar"), [NAME])
    assert not golden.has(node, Path("a.tar"), [NAME])


def test_a_load_that_containerds_collection_of_garbage_spoils_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def once_in_vain(socket: Path, archive: Path) -> None:
        loaded.append(archive.name)
        if len(loaded) == 1:
            raise LocalkubeError("failed", log="parent snapshot sha256:d930 does not exist: not found")

    monkeypatch.setattr(golden, "import_archive", once_in_vain)
    node = MachineFolder(tmp_path)
    golden.load(node, Path("a.tar"), [NAME])
    assert loaded == ["a.tar", "a.tar"]
    assert golden.has(node, Path("a.tar"), [NAME])


def test_a_load_that_fails_again_and_again_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def fail(socket: Path, archive: Path) -> None:
        tried.append(archive.name)
        raise LocalkubeError("no space left on device")

    monkeypatch.setattr(golden, "import_archive", fail)
    with pytest.raises(LocalkubeError, match="no space left"):
        golden.load(MachineFolder(tmp_path), Path("a.tar"), [NAME])
    assert len(tried) == 3
