"""The end-to-end tests: ``make e2e``.

On the cluster that ``KUBECONFIG_E2E`` names, else on localkube, which is removed afterwards unless it ran before.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from hack import local
from hack.console import Steps, say
from hack.local import BuildFailedError, Kubernetes
from hack.shell import CommandError
from hack.together import end_on_terminate
from images.catalog import SLURM_VERSIONS

WORKERS: Final = 8
"""Four for the clusters of a fixed size, four for the elastic one."""


def run_tests(kubernetes: Kubernetes, arguments: Sequence[str]) -> int:
    """Run pytest with kubectl and helm speaking to this cluster."""
    command = [str(local.ROOT / ".venv/bin/python"), "-m", "pytest", "-v", "--durations=15", *arguments]
    environment = {**os.environ, **kubernetes.env}
    return subprocess.run(command, cwd=local.ROOT, env=environment, stdin=subprocess.DEVNULL, check=False).returncode


def run(environment: Mapping[str, str], steps: Steps, arguments: Sequence[str]) -> int:
    """Find a cluster, run the tests on it, and leave the machine as it was."""
    if environment.get("KUBECONFIG_E2E"):
        kubernetes = local.existing(environment["KUBECONFIG_E2E"])
        with steps.step(f"End-to-end tests on {kubernetes.kubeconfig}"):
            return run_tests(kubernetes, arguments)
    with steps.step("Build what is missing: localkube's programs, and the images"):
        local.build(SLURM_VERSIONS)
    with local.borrowed(SLURM_VERSIONS, WORKERS) as kubernetes, steps.step("End-to-end tests"):
        return run_tests(kubernetes, arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the command line; the arguments are pytest's."""
    end_on_terminate()
    steps = Steps()
    try:
        status = run(os.environ, steps, arguments or ["tests/e2e"])
    except (BuildFailedError, CommandError) as error:
        say(f"\n{error}")
        return 1
    say(f"\n{steps.summary()}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
