from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from hack.together import Outcome, Runner, Task


def _shell(name: str, script: str) -> Task:
    return Task(name, ("bash", "-c", script))


def test_parts_run_beside_each_other_and_lines_are_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Each waits for the other's file: one after the other they would never end.
    meet = "touch {own}; until [ -e {other} ]; do sleep 0.05; done; echo met"
    one = meet.format(own=tmp_path / "one", other=tmp_path / "two")
    two = meet.format(own=tmp_path / "two", other=tmp_path / "one")
    outcomes = Runner().run([[_shell("one", one)], [_shell("second", two)]])
    assert [outcome.status for outcome in outcomes] == ["passed", "passed"]
    assert {"one    | met", "second | met"} <= set(capsys.readouterr().out.splitlines())


def test_a_part_ends_at_its_first_failure_and_stops_the_others() -> None:
    start = time.monotonic()
    outcomes = Runner().run(
        [[_shell("bad", "echo why; exit 7"), _shell("never", "true")], [_shell("long", "sleep 60 & wait")]]
    )
    assert [(one.task.name, one.status) for one in outcomes] == [("bad", "failed"), ("long", "stopped")]
    assert time.monotonic() - start < 20
    assert "why" in outcomes[0].explain().splitlines()


def test_a_failure_leaves_alone_what_is_to_come_to_its_end() -> None:
    parts = [[_shell("bad", "exit 7"), _shell("never", "true")], [_shell("long", "sleep 0.5; echo here")]]
    outcomes = Runner().run(parts, to_the_end=True)
    assert [(one.task.name, one.status) for one in outcomes] == [("bad", "failed"), ("long", "passed")]
    assert list(outcomes[1].lines) == ["here"]


def test_what_is_stopped_takes_its_children_along() -> None:
    script = "import subprocess, sys; subprocess.run(['sleep', '60'])"
    runner = Runner()
    start = time.monotonic()
    runner.run([[_shell("bad", "sleep 0.3; exit 1")], [Task("parent", (sys.executable, "-c", script))]])
    # The pipe of a child that lived on would keep the reader waiting.
    assert time.monotonic() - start < 20


def test_only_the_end_of_the_output_is_kept() -> None:
    (outcome,) = Runner().run([[_shell("much", "seq 50; exit 1")]])
    assert list(outcome.lines)[-1] == "50"
    assert len(outcome.lines) == 40


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("===== 12 passed, 1 skipped in 3.21s =====", "12 passed, 1 skipped"),
        ("======= 2 failed, 300 passed in 61.00s (0:01:01) =======", "2 failed, 300 passed"),
        ("3 passed in 0.01s", "3 passed"),
        ("All checks passed!", ""),
        ("no tests ran in 0.01s", ""),
    ],
)
def test_pytests_summary_is_found(line: str, words: str) -> None:
    outcome = Outcome(Task("unit", ()), "passed", 1.0)
    outcome.lines.extend(["collected 12 items", line, "make: done"])
    assert outcome.tests == words


def test_the_makes_job_slots_are_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAKEFLAGS", " -j2 --jobserver-auth=3,4")
    (outcome,) = Runner().run([[_shell("look", 'echo "flags:${MAKEFLAGS-none}"')]])
    assert list(outcome.lines) == ["flags:none"]


def test_a_quiet_task_shows_its_progress_alone() -> None:
    (outcome,) = Runner().run([[Task("images", ("bash", "-c", "echo path; echo progress >&2"), quiet=True)]])
    assert list(outcome.lines) == ["progress"]
