"""Cache keys: every input counts, nothing else does."""

from dataclasses import replace
from pathlib import Path

import pytest

from localkube import families
from localkube.errors import LocalkubeError
from localkube.families import EXTRAS, FAMILIES, KUBERNETES, KUBERNETES_VERSION, Family, family_key, with_extras

COMPILER = "go1.26 linux amd64"


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Family:
    monkeypatch.setattr(families, "SOURCE", tmp_path)
    one = Family("one", ldflags=("-X=a=b",))
    one.source.mkdir(parents=True)
    (one.source / "go.mod").write_text("module one")
    (one.source / "go.sum").write_text("sums")
    return one


def test_equal_inputs_give_equal_keys_wherever_the_checkout_lies(
    family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = family_key(family, COMPILER)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (tmp_path / "go").rename(moved / "go")
    monkeypatch.setattr(families, "SOURCE", moved)
    assert family_key(family, COMPILER) == before


@pytest.mark.parametrize("file", ["go.mod", "go.sum", "main.go", "deep/er.go"])
def test_a_changed_or_new_source_changes_the_key(family: Family, file: str) -> None:
    before = family_key(family, COMPILER)
    (family.source / file).parent.mkdir(exist_ok=True)
    (family.source / file).write_text("changed")
    assert family_key(family, COMPILER) != before


def test_moving_text_between_files_changes_the_key(family: Family) -> None:
    (family.source / "a.go").write_text("ab")
    (family.source / "b.go").write_text("c")
    before = family_key(family, COMPILER)
    (family.source / "a.go").write_text("a")
    (family.source / "b.go").write_text("bc")
    assert family_key(family, COMPILER) != before


def test_flags_names_and_the_compiler_change_the_key(family: Family) -> None:
    others = [
        family_key(replace(family, ldflags=("-X=a=c",)), COMPILER),
        family_key(replace(family, packages=(".",)), COMPILER),
        family_key(replace(family, rename=(("a", "b"),)), COMPILER),
        family_key(family, "go1.27 linux amd64"),
    ]
    assert len({family_key(family, COMPILER), *others}) == len(others) + 1


def test_tests_do_not_change_the_key(family: Family) -> None:
    before = family_key(family, COMPILER)
    (family.source / "main_test.go").write_text("package main")
    assert family_key(family, COMPILER) == before


def test_every_family_is_pinned() -> None:
    for family in (*FAMILIES, *EXTRAS):
        assert (family.source / "go.sum").stat().st_size > 0


def test_extras_are_built_only_when_they_are_named() -> None:
    assert with_extras([]) == FAMILIES
    assert with_extras(["kwok", "kwok"]) == (*FAMILIES, *EXTRAS)
    with pytest.raises(LocalkubeError, match="frobnicate"):
        with_extras(["frobnicate"])


def test_the_version_that_clients_see_is_the_one_that_is_built() -> None:
    modules = (KUBERNETES.source / "go.mod").read_text()
    assert f"k8s.io/kubernetes v{KUBERNETES_VERSION}" in modules
