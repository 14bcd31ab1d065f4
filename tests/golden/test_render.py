"""What an example becomes, whole: a change of the manifests shows up here as a diff to read.

``UPDATE_GOLDEN=1 make unit ARGS=tests/golden`` writes the files anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurmcluster_operator.__main__ import main

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"


@pytest.mark.parametrize("example", ["minimal", "demo", "production"])
def test_an_example_renders_as_it_did(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", str(EXAMPLES / f"{example}.yaml")]) == 0
    rendered = capsys.readouterr().out
    golden = HERE / f"{example}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(rendered)
    assert rendered == golden.read_text()


def test_a_file_without_a_cluster_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.yaml").write_text("kind: Namespace\n")
    assert main(["render", str(tmp_path / "empty.yaml")]) == 1
    assert "there is no SlurmCluster in it" in capsys.readouterr().err


def test_a_bad_spec_is_an_error_with_the_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (EXAMPLES / "minimal.yaml").read_text()
    (tmp_path / "bad.yaml").write_text(text.replace("\nspec:\n", "\nspec:\n  slurmVersion: '1.0'\n"))
    assert main(["render", str(tmp_path / "bad.yaml")]) == 1
    assert "spec.slurmVersion" in capsys.readouterr().err
