from __future__ import annotations

from pathlib import Path

import pytest

from hack.shell import CommandError, capture, show


def test_capture_returns_standard_output_alone() -> None:
    assert capture(["bash", "-c", "cat; echo no >&2"], stdin="yes") == "yes"


def test_a_failure_ends_with_the_programs_own_words() -> None:
    with pytest.raises(CommandError, match=r"(?s)exit status 3:\n    it is broken") as caught:
        capture(["bash", "-c", "echo it is broken >&2; exit 3"])
    assert caught.value.status == 3


def test_show_prints_command_and_output(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert show(["bash", "-c", "echo one; pwd >&2"], cwd=tmp_path) == f"one\n{tmp_path}\n"
    assert capsys.readouterr().out == f"    $ bash -c 'echo one; pwd >&2'\n    one\n    {tmp_path}\n"


def test_show_hides_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(["printf", "one\n\nNOTES:\ntwo\n"], shown="", until="NOTES:") == "one\n\nNOTES:\ntwo\n"
    assert capsys.readouterr().out == "    one\n    \n"


def test_show_fails_with_its_command() -> None:
    with pytest.raises(CommandError, match="`kubectl get x` failed with exit status 1"):
        show(["false"], shown="kubectl get x")
