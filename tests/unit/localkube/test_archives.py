"""The image collection: it deletes what it made itself, and nothing else."""

import json
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from localkube import archives
from localkube.errors import LocalkubeError
from localkube.layout import Cache


def _archive(path: Path, name: str, content: bytes = b"") -> Path:
    manifest = json.dumps([{"RepoTags": [name]}]).encode()
    with tarfile.open(path, "w") as tar:
        for file, data in (("manifest.json", manifest), ("content", content)):
            entry = tarfile.TarInfo(file)
            entry.size = len(data)
            tar.addfile(entry, BytesIO(data))
    return path


def _cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache" / "localkube")


def test_files_of_others_survive(tmp_path: Path) -> None:
    cache = _cache(tmp_path)
    beside = cache.root.parent / "images" / "slurm-26.05-abc.tar"
    within = cache.images / "somebody-elses.tar"
    for file in (beside, within):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("precious")
    for content in (b"old", b"new"):
        archives.remember(cache, [_archive(tmp_path / "a.tar", "docker.io/me/a:1", content)])
    archives.forget_all(cache)
    assert beside.read_text() == within.read_text() == "precious"


def test_a_newer_archive_of_the_same_name_replaces_the_older(tmp_path: Path) -> None:
    cache = _cache(tmp_path)
    old = archives.remember(cache, [_archive(tmp_path / "a.tar", "docker.io/me/a:1", b"old")])
    new = archives.remember(cache, [_archive(tmp_path / "a.tar", "docker.io/me/a:1", b"new")])
    assert not old["docker.io/me/a:1"].exists()
    assert new["docker.io/me/a:1"].exists()


def test_an_archive_stays_while_another_name_needs_it(tmp_path: Path) -> None:
    cache = _cache(tmp_path)
    both = _archive(tmp_path / "a.tar", "docker.io/me/a:1")
    kept = archives.remember(cache, [both])["docker.io/me/a:1"]
    archives.remember(cache, [_archive(tmp_path / "b.tar", "docker.io/me/b:1")])
    assert kept.exists()


def test_the_copy_does_not_follow_the_original(tmp_path: Path) -> None:
    original = _archive(tmp_path / "a.tar", "docker.io/me/a:1")
    before = original.read_bytes()
    copy = archives.remember(_cache(tmp_path), [original])["docker.io/me/a:1"]
    original.write_bytes(b"rebuilt in place")
    assert copy.read_bytes() == before


@pytest.mark.parametrize("name", ["image:1", "me/image:1"])
def test_names_without_a_registry_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(LocalkubeError, match="lacks its registry"):
        archives.image_names(_archive(tmp_path / "a.tar", name))
