"""Running other programs: quietly, or for the reader to watch."""

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from hack.console import INDENT, say

_TAIL = 30


class CommandError(Exception):
    """A program failed; the message ends with its own last words."""

    def __init__(self, command: str, status: int, output: str) -> None:
        words = "\n".join(f"{INDENT}{line}" for line in output.splitlines()[-_TAIL:])
        super().__init__(f"`{command}` failed with exit status {status}" + (f":\n{words}" if words else ""))
        self.status = status
        self.output = output


def capture(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: str | None = None, timeout: float = 300
) -> str:
    """Run a program and return its standard output."""
    done = subprocess.run(
        list(command),
        env=_environment(env),
        input=stdin,
        # Without input nobody is asked anything.
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )
    if done.returncode:
        raise CommandError(shlex.join(command), done.returncode, done.stderr or done.stdout)
    return done.stdout


def show(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    cwd: Path | None = None,
    shown: str | None = None,
    until: str = "",
) -> str:
    """Run a program in front of the reader, its output indented; return all that it printed.

    ``shown`` is the command to print in place of the real one; an empty one prints none. From a line ``until`` on the
    output is kept from the reader.
    """
    text = shlex.join(command) if shown is None else shown
    if text:
        say(f"{INDENT}$ {text}")
    lines: list[str] = []
    hidden = False
    with subprocess.Popen(
        list(command),
        cwd=cwd,
        env=_environment(env),
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        if process.stdin is not None and stdin is not None:
            process.stdin.write(stdin)
            process.stdin.close()
        for line in process.stdout or ():
            lines.append(line)
            hidden = hidden or line.rstrip() == until != ""
            if not hidden:
                say(f"{INDENT}{line.rstrip()}")
    if process.returncode:
        raise CommandError(text or shlex.join(command), process.returncode, "")
    return "".join(lines)


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, **(extra or {})}
