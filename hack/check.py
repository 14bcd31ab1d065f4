"""Everything that CI runs: ``make test``.

The programs of localkube take a quarter of an hour to build on two cores, the first time. Beside that run the set-up
of the Python environment, the linters, the unit tests, and the making of the images. Then come a short soak and
localkube's own tests. The end-to-end tests are last, with nothing else beside them: their waits are measured by what
they do themselves. As they wait for two thirds of their time, they run in two halves, on a cluster each.
"""

import os
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

ELASTIC: Final = ("tests/e2e/test_elastic.py", "tests/e2e/test_elastic_failures.py")
"""One half of the end-to-end tests, by the time that they take."""

_BESIDE: Final = ("flock", "/run/lock/localkube-tests", "env", "LOCALKUBE_INSTANCE=7")
"""Runs a command on a second cluster: one of those of localkube's own tests, which hold this lock while they run."""


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


def halves(environment: Mapping[str, str]) -> list[list[Task]]:
    """Return what is last: the end-to-end tests."""
    if environment.get("KUBECONFIG_E2E"):
        return [[make("e2e")]]
    elastic = make("e2e", " ".join(ELASTIC))
    others = make("e2e", " ".join(["tests/e2e", *(f"--ignore={file}" for file in ELASTIC)]))
    return [[others], [Task("e2e elastic", (*_BESIDE, *elastic.command))]]


def rows(outcomes: Sequence[Outcome]) -> list[tuple[str, str, str, str]]:
    """Return the table of what ran."""
    return [(one.task.name, one.status, seconds(one.seconds), one.tests) for one in outcomes]


def main() -> int:
    """Run everything; return whether it passed."""
    end_on_terminate()
    start = time.monotonic()
    outcomes: list[Outcome] = []
    try:
        for stage in (parts(os.environ), trials(os.environ)):
            outcomes += Runner().run(stage)
            local.refuse_failures(outcomes)
        outcomes += Runner().run(halves(os.environ), to_the_end=True)
        local.refuse_failures(outcomes)
    except BuildFailedError:
        pass
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
