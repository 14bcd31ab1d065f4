"""``python -m slurmcluster_operator``: run the operator, or look at what it would do."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from slurmcluster_operator.settings import Settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    chosen = _parser().parse_args(arguments)
    try:
        settings = Settings.from_environment(os.environ)
        if chosen.command == "run":
            return _run(settings)
        from slurmcluster_operator.commands import carry_out  # noqa: PLC0415 - run is to start at once

        return carry_out(chosen, settings)
    except (OSError, ValueError, yaml.YAMLError) as error:
        print(f"slurmcluster_operator: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="slurmcluster_operator", description="Slurm on Kubernetes.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="run the operator (in a pod, or with KUBECONFIG outside)")
    commands.add_parser("crd", help="print the CustomResourceDefinition")
    render = commands.add_parser("render", help="print every object that the SlurmClusters of a file would produce")
    render.add_argument("file", type=Path, help="YAML with one or more SlurmClusters; - for standard input")
    why = commands.add_parser("why", help="say why a job is not running (in the operator's pod)")
    why.add_argument("job", metavar="JOBID", help="the job's number")
    _name_a_cluster(why, "the SlurmCluster's namespace, where there are several")
    fleet = commands.add_parser(
        "fleet",
        help="print who has which Kubernetes node (in the operator's pod)",
        description="One line for each Kubernetes node that is granted or owned: the SlurmClusters to which it is"
        " granted, its owner, how far its claim is and since when, the Slurm node that it serves as, pods of others"
        " that count there, and why it is so. A line of sums follows.",
        epilog="The exit status is 1 when something is wrong with a node that is shown (WHY begins with WRONG), or when"
        " it could not be found out. A slurmrestd that does not answer is told of on standard error, and its nodes'"
        " states are shown as '?'.",
    )
    _name_a_cluster(fleet, "only nodes of SlurmClusters in this namespace")
    fleet.add_argument("-o", "--output", choices=("table", "json"), default="table", help="a table is the default")
    fleet.add_argument("--problems", action="store_true", help="only nodes on which something is wrong")
    return parser


def _name_a_cluster(command: argparse.ArgumentParser, which: str) -> None:
    command.add_argument("-n", "--namespace", default="", help=which)
    command.add_argument("-c", "--cluster", default="", help="the SlurmCluster's name")


def _run(settings: Settings) -> int:
    # By default every 700 new objects make it look for cycles: half of the time that reading a large cluster takes.
    gc.set_threshold(100_000, 50, 100)
    from slurmcluster_operator.start import run  # noqa: PLC0415 - the other commands need no kopf

    asyncio.run(run(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
