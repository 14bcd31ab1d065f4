"""Everything that CI runs: ``make test``.

The programs of localkube take a quarter of an hour to build on two cores, the first time. Beside that run the set-up
of the Python environment, the linters, the unit tests, and the making of the images.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from hack import local
from hack.console import say, seconds, table
from hack.local import BuildFailedError
from hack.together import Outcome, Runner, Task, end_on_terminate
from images.catalog import SLURM_VERSIONS


def make(target: str) -> Task:
    """Return the task of making one target."""
    return Task(target, ("make", "--no-print-directory", target))


def parts(environment: Mapping[str, str]) -> list[list[Task]]:
    """Return what may run beside each other before the end-to-end tests."""
    checks = [make("venv"), make("lint-code"), make("unit")]
    if environment.get("KUBECONFIG_E2E"):
        return [checks]
    return [[local.BUILD_PROGRAMS], [*checks, *local.build_images(SLURM_VERSIONS)]]


def in_turn(environment: Mapping[str, str]) -> list[Task]:
    """Return what follows, one after another: the waits of each are measured by what it does itself."""
    own = [] if environment.get("KUBECONFIG_E2E") else [make("test-localkube")]
    return [make("lint-chart"), make("e2e"), *own]


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
        for task in in_turn(os.environ):
            outcomes.append(in_front(task))
            if outcomes[-1].status != "passed":
                break
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
