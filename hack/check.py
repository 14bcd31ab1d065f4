"""Everything that CI runs: ``make test``.

The programs of localkube take a quarter of an hour to build on two cores, the first time. Beside that run the set-up
of the Python environment, the linters, the unit tests, and the making of the images. Then come a short soak and
localkube's own tests; the end-to-end tests are last and alone: their waits are measured by what they do themselves.
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

SOAK: Final = "--minutes 5 --seed 7"
"""The same troubles in each run; half an hour of others is ``make soak``."""


def make(target: str, arguments: str = "") -> Task:
    """Return the task of making one target."""
    return Task(target, ("make", "--no-print-directory", target, *([f"ARGS={arguments}"] if arguments else [])))


def parts(environment: Mapping[str, str]) -> list[list[Task]]:
    """Return what comes first: what may run beside each other on a machine that has built nothing yet."""
    checks = [make("venv"), make("lint-code"), make("unit")]
    if environment.get("KUBECONFIG_E2E"):
        return [checks]
    return [[local.BUILD_PROGRAMS], [*checks, *local.build_images(SLURM_VERSIONS)]]


def trials(environment: Mapping[str, str]) -> list[list[Task]]:
    """Return what comes next: clusters of their own that are treated badly. Neither goes by how fast it is."""
    if environment.get("KUBECONFIG_E2E"):
        return [[make("lint-chart")]]
    return [[make("soak", SOAK)], [make("lint-chart"), make("test-localkube")]]


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
    outcomes: list[Outcome] = []
    try:
        for stage in (parts(os.environ), trials(os.environ)):
            outcomes += Runner().run(stage)
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
