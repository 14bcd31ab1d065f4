"""Everything that CI runs: ``make test``.

The programs of localkube take a quarter of an hour to build on two cores, the first time. Beside that, and beside a
short soak, run the set-up of the Python environment, the linters, the unit tests and the tests of localkube. The
end-to-end tests come last and alone: their waits are measured by what they do themselves.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from hack import local
from hack.console import say, seconds, table
from hack.local import BuildFailedError
from hack.together import Outcome, Runner, Task, end_on_terminate
from images.catalog import SLURM_VERSIONS

SOAK_MINUTES: Final = 5


def make(target: str, arguments: str = "") -> Task:
    """Return the task of making one target."""
    return Task(target, ("make", "--no-print-directory", target, *([f"ARGS={arguments}"] if arguments else [])))


def parts(environment: Mapping[str, str]) -> list[list[Task]]:
    """Return what may run beside each other before the end-to-end tests."""
    checks = [make("venv"), make("lint-code"), make("unit"), make("lint-chart")]
    if environment.get("KUBECONFIG_E2E"):
        return [checks]
    soak = make("soak", f"--minutes {SOAK_MINUTES}")
    return [
        [local.BUILD_PROGRAMS, *local.build_images(SLURM_VERSIONS), soak],
        [*checks, make("test-localkube")],
    ]


def rows(outcomes: Sequence[Outcome]) -> list[tuple[str, str, str, str]]:
    """Return the table of what ran."""
    return [(one.task.name, one.status, seconds(one.seconds), one.tests) for one in outcomes]


def in_front(task: Task) -> Outcome:
    """Run a task whose output goes straight to the reader."""
    say(f"\n==> {task.name}")
    start = time.monotonic()
    with subprocess.Popen(list(task.command), cwd=local.ROOT, stdin=subprocess.DEVNULL) as process:
        try:
            status = process.wait()
        except BaseException:
            # Politely: what it started is to be removed.
            process.terminate()
            raise
    return Outcome(task, "failed" if status else "passed", time.monotonic() - start)


def main() -> int:
    """Run everything; return whether it passed."""
    end_on_terminate()
    start = time.monotonic()
    outcomes = Runner().run(parts(os.environ))
    try:
        local.refuse_failures(outcomes)
    except BuildFailedError:
        pass
    else:
        outcomes.append(in_front(make("e2e")))
    say("\n" + table([("part", "result", "time", "tests"), *rows(outcomes)], right=frozenset({2})))
    for outcome in outcomes:
        if outcome.tests:
            say(f"{outcome.task.name}: {outcome.tests}")
    failed = [outcome.task.name for outcome in outcomes if outcome.status == "failed"]
    verdict = f"FAILED: {', '.join(failed)}" if failed else "PASSED"
    say(f"\nmake test: {verdict} in {seconds(time.monotonic() - start)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
