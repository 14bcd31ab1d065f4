"""An image is built again exactly when something that it is made from changed."""

import dataclasses
from pathlib import Path

import pytest

from images.cache_key import MissingInputError, base_key, fingerprint, image_key
from images.catalog import Image

RECIPE = ["--variant=minbase", "trixie"]
IMAGE = Image(
    name="tool",
    tag="1.0",
    suite="trixie",
    dockerfile="tool/Dockerfile",
    context="tool",
    inputs=("tool/rootfs", "lock.txt"),
    args={"VERSION": "1.0"},
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    scripts = tmp_path / "tool" / "rootfs" / "bin"
    scripts.mkdir(parents=True)
    (tmp_path / "tool" / "Dockerfile").write_text("FROM debian:trixie-slim\n")
    (scripts / "start").write_text("#!/bin/sh\n")
    (tmp_path / "lock.txt").write_text("a==1\n")
    return tmp_path


def test_the_same_sources_have_the_same_key(root: Path) -> None:
    assert image_key(root, IMAGE, RECIPE) == image_key(root, IMAGE, list(RECIPE))


@pytest.mark.parametrize("name", ["tool/Dockerfile", "tool/rootfs/bin/start", "lock.txt"])
def test_each_input_counts(root: Path, name: str) -> None:
    before = image_key(root, IMAGE, RECIPE)
    (root / name).write_text("changed")
    assert image_key(root, IMAGE, RECIPE) != before


def test_a_new_file_counts(root: Path) -> None:
    before = image_key(root, IMAGE, RECIPE)
    (root / "tool" / "rootfs" / "bin" / "stop").write_text("")
    assert image_key(root, IMAGE, RECIPE) != before


def test_the_executable_bit_counts(root: Path) -> None:
    before = image_key(root, IMAGE, RECIPE)
    (root / "tool" / "rootfs" / "bin" / "start").chmod(0o755)
    assert image_key(root, IMAGE, RECIPE) != before


@pytest.mark.parametrize(
    "change",
    [{"args": {"VERSION": "1.1"}}, {"target": "final"}, {"tag": "1.1"}, {"name": "other"}],
)
def test_what_the_build_is_told_counts(root: Path, change: dict[str, object]) -> None:
    before = image_key(root, IMAGE, RECIPE)
    assert image_key(root, dataclasses.replace(IMAGE, **change), RECIPE) != before  # type: ignore[arg-type]


def test_the_base_counts(root: Path) -> None:
    other = [*RECIPE, "--include=less"]
    assert base_key(RECIPE) != base_key(other)
    assert image_key(root, IMAGE, RECIPE) != image_key(root, IMAGE, other)


def test_files_that_are_not_copied_do_not_count(root: Path) -> None:
    before = image_key(root, IMAGE, RECIPE)
    (root / "README.md").write_text("words")
    cache = root / "tool" / "rootfs" / "__pycache__"
    cache.mkdir()
    (cache / "x.pyc").write_bytes(b"\0")
    assert image_key(root, IMAGE, RECIPE) == before


def test_a_missing_input_is_named(root: Path) -> None:
    (root / "lock.txt").unlink()
    with pytest.raises(MissingInputError, match=r"lock\.txt"):
        image_key(root, IMAGE, RECIPE)


def test_the_order_of_files_is_fixed(root: Path) -> None:
    for name in ("b", "a", "c"):
        (root / "tool" / "rootfs" / name).write_text(name)
    names = [name for name, _, _ in fingerprint(root, ["tool/rootfs"])]
    assert names == sorted(names)
