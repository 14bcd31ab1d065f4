"""Typing into an interactive program, as a person at a terminal does."""

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hack.shell import CommandError

_PROMPT: Final = re.compile(r"[$#] $")
_ESCAPES: Final = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07)|\r")
_PAUSE: Final = 0.05


@dataclass
class Screen:
    """What the program has printed, and which part of it was dealt with."""

    text: str = ""
    answered: int = 0
    """Up to here every prompt has its answer."""
    shown: int = 0
    """Up to here whole lines have been passed on."""

    def add(self, text: str) -> None:
        """Take more output. Escape sequences and carriage returns are dropped."""
        self.text = _ESCAPES.sub("", self.text + text)

    def asks(self) -> bool:
        """Tell whether a prompt waits for an answer."""
        return bool(_PROMPT.search(self.text[self.answered :]))

    def answer(self) -> None:
        """Note that the prompt has been answered."""
        self.answered = len(self.text)

    def new_lines(self) -> list[str]:
        """Return the lines that are complete and have not been returned before."""
        *lines, rest = self.text[self.shown :].split("\n")
        self.shown = len(self.text) - len(rest)
        return lines


def converse(
    command: Sequence[str], lines: Sequence[str], say: Callable[[str], None], *, env: Mapping[str, str], limit: float
) -> str:
    """Run a command and type each line when its prompt asks for it; return what stood on the screen."""
    screen = Screen()
    deadline = time.monotonic() + limit
    with subprocess.Popen(
        list(command), env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
    ) as process:
        try:
            waiting = list(lines)
            while _read(process, screen):
                for line in screen.new_lines():
                    say(line)
                if waiting and screen.asks():
                    screen.answer()
                    _type(process, waiting.pop(0))
                if time.monotonic() > deadline:
                    raise CommandError(command[-1], 124, f"{screen.text}\n(it does not go on)")
                time.sleep(_PAUSE)
            status = process.wait()
        finally:
            process.kill()
    if status:
        raise CommandError(command[-1], status, screen.text)
    return screen.text


def _read(process: "subprocess.Popen[bytes]", screen: Screen) -> bool:
    """Take what the process has printed by now; False once it has ended."""
    if process.stdout is None:
        return False
    os.set_blocking(process.stdout.fileno(), False)
    data = process.stdout.read()
    screen.add((data or b"").decode(errors="replace"))
    return data != b""


def _type(process: "subprocess.Popen[bytes]", line: str) -> None:
    if process.stdin is not None:
        process.stdin.write(f"{line}\n".encode())
