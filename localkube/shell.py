"""Running other programs, and telling well what went wrong with them."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from localkube.errors import LocalkubeError

TAIL_LINES = 25


def run(
    argv: Sequence[str | Path],
    *,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    advice: str = "",
) -> str:
    """Run a program to its end and return its output; its own words come with the error."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, input=stdin, env=env, cwd=cwd, check=False, text=True, errors="replace", capture_output=True
        )
    except FileNotFoundError as error:
        raise LocalkubeError(f"{words[0]} is not installed", advice=advice) from error
    if done.returncode != 0:
        shown = " ".join(words)
        raise LocalkubeError(
            f"`{shown[:300]}` failed with exit code {done.returncode}",
            advice=advice,
            log=last_lines(done.stdout + done.stderr),
        )
    return done.stdout


def succeeds(argv: Sequence[str | Path]) -> bool:
    """Tell whether a program ends well; for clean-up, where failure means that there was nothing to do."""
    words = [str(word) for word in argv]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0


def last_lines(text: str, count: int = TAIL_LINES) -> str:
    """Return the end of a text."""
    return "\n".join(text.splitlines()[-count:])


def log_tail(path: Path, count: int = TAIL_LINES) -> str:
    """Return the end of a log file under its name, or nothing when there is no such file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return f"--- {path}\n{last_lines(text, count)}"
