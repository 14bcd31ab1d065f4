from __future__ import annotations

import os
import sys

import pytest

from hack.shell import CommandError
from hack.terminal import Screen, converse

_SHELL = ["bash", "--norc", "--noprofile", "-i"]
_ENV = {**os.environ, "TERM": "dumb", "PS1": "test$ "}


def test_escape_sequences_are_dropped_even_in_halves() -> None:
    screen = Screen()
    screen.add("\x1b[?2004h\x1b]0;title\x07one\r\n\x1b[3")
    screen.add("1mtwo\r\n")
    assert screen.text == "one\ntwo\n"


def test_lines_are_passed_on_once_and_whole() -> None:
    screen = Screen()
    screen.add("a\nb")
    assert screen.new_lines() == ["a"]
    screen.add("c\nd\ne")
    assert screen.new_lines() == ["bc", "d"]
    assert screen.new_lines() == []


def test_a_prompt_is_answered_once() -> None:
    screen = Screen()
    screen.add("welcome\nalice@h100-0:~$ ")
    assert screen.asks()
    screen.answer()
    assert not screen.asks()
    screen.add("hostname\nh100-0\nalice@h100-0:~$ ")
    assert screen.asks()


def test_converse_types_when_it_is_asked() -> None:
    said: list[str] = []
    # `script` gives the shell a terminal, as ssh -tt does.
    command = ["script", "-qefc", " ".join(_SHELL), "/dev/null"]
    text = converse(command, ["tty", "echo $((6 * 7))", "exit"], said.append, env=_ENV, limit=20)
    assert "/dev/pts/" in text
    assert "42" in said


def test_converse_reports_failure_with_the_screen() -> None:
    with pytest.raises(CommandError, match=r"(?s)exit status 5.*bad luck"):
        converse(["bash", "-c", "echo bad luck; exit 5"], [], lambda _: None, env=_ENV, limit=20)


def test_converse_gives_up() -> None:
    command = [sys.executable, "-c", "import time; print('half', flush=True); time.sleep(60)"]
    with pytest.raises(CommandError, match=r"(?s)half.*does not go on"):
        converse(command, [], lambda _: None, env=_ENV, limit=1)
