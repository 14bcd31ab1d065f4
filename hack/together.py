"""Running commands beside each other, every line marked with the command's name; the first failure ends all."""

import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Literal

from hack.console import say, seconds

_TAIL = 40
_GRACE_SECONDS = 20
_ORPHAN_SECONDS = 2
_PYTEST = re.compile(r"^=* ?(?P<words>(\d+ [a-z]+(, )?)+) in [0-9.]+s( \([0-9:]+\))? ?=*$")


@dataclass(frozen=True)
class Task:
    """A command with a name."""

    name: str
    command: Sequence[str]
    quiet: bool = False
    """Whether its standard output, which is for programs, is kept from the reader; its progress is not."""


@dataclass
class Outcome:
    """How a task ended."""

    task: Task
    status: Literal["passed", "failed", "stopped"]
    seconds: float
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL))

    @property
    def tests(self) -> str:
        """What pytest counted: ``12 passed, 1 skipped``; empty when the task was no test run."""
        return next((found["words"] for line in reversed(self.lines) if (found := _PYTEST.match(line))), "")

    def explain(self) -> str:
        """Return the end of the task's output under a heading."""
        heading = f"{self.task.name} failed after {seconds(self.seconds)}: {shlex.join(self.task.command)}"
        return "\n".join([f"----- {heading}", *self.lines, f"----- end of {self.task.name}"])


class Runner:
    """Runs sequences of tasks side by side."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self._env = {**os.environ, **(env or {})}
        # The make that started us must not lend its job slots to makes that run beside each other.
        for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
            self._env.pop(name, None)
        self._stopping = threading.Event()
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()

    def run(self, parts: Iterable[Sequence[Task]], *, to_the_end: bool = False) -> list[Outcome]:
        """Run the tasks of a part one after the other, and the parts at once; return how each task ended.

        A failure ends the other parts, too, unless they are to come to their end.
        """
        listed = list(parts)
        width = max(len(task.name) for part in listed for task in part)
        with ThreadPoolExecutor(max_workers=len(listed)) as pool:
            futures = [pool.submit(self._part, part, width) for part in listed]
            try:
                pending = set(futures)
                while pending:
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    failed = any(one.exception() or one.result()[-1].status != "passed" for one in done)
                    if failed and not to_the_end:
                        self.stop()
            finally:
                self.stop()
        return [outcome for future in futures for outcome in future.result()]

    def stop(self) -> None:
        """End what still runs, with all its children."""
        self._stopping.set()
        with self._lock:
            running = list(self._running)
        for process in running:
            _signal(process, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_SECONDS
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                _signal(process, signal.SIGKILL)
        # A bash that is told to end just as it starts a child may take the signal for both: the child lives on.
        orphans_until = min(deadline, time.monotonic() + _ORPHAN_SECONDS)
        while any(_signal(process, 0) for process in running) and time.monotonic() < orphans_until:
            time.sleep(0.05)
        for process in running:
            _signal(process, signal.SIGKILL)

    def _part(self, tasks: Sequence[Task], width: int) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for task in tasks:
            outcomes.append(self._task(task, width))
            if outcomes[-1].status != "passed":
                break
        return outcomes

    def _task(self, task: Task, width: int) -> Outcome:
        mark = f"{task.name:<{width}} |"
        outcome = Outcome(task, "stopped", 0.0)
        start = time.monotonic()
        process = self._start(task)
        if process is None:
            return outcome
        with process:
            for line in process.stdout or process.stderr or ():
                outcome.lines.append(line.rstrip())
                say(f"{mark} {line.rstrip()}")
        status = process.returncode
        with self._lock:
            self._running.discard(process)
        outcome.seconds = time.monotonic() - start
        if status == 0:
            outcome.status = "passed"
        elif not self._stopping.is_set():
            outcome.status = "failed"
        say(f"{mark} {outcome.status} after {seconds(outcome.seconds)}")
        return outcome

    def _start(self, task: Task) -> subprocess.Popen[str] | None:
        with self._lock:
            if self._stopping.is_set():
                return None
            process = subprocess.Popen(
                list(task.command),
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if task.quiet else subprocess.PIPE,
                stderr=subprocess.PIPE if task.quiet else subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._running.add(process)
            return process


def end_on_terminate() -> None:
    """Turn SIGTERM and SIGHUP into an exception, so that whatever was started is cleaned up."""

    def leave(number: int, frame: object) -> None:
        del frame
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)


def _signal(process: subprocess.Popen[str], number: int) -> bool:
    """Signal a task's whole process group (0 only asks), and tell whether there is one."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    return True
