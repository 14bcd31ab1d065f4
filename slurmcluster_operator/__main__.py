"""``python -m slurmcluster_operator``: run the operator, or look at what it would do."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import yaml
from pydantic import ValidationError

from slurmcluster_operator.api.crd import KIND, to_yaml
from slurmcluster_operator.api.errors import problems
from slurmcluster_operator.api.spec import SlurmClusterSpec
from slurmcluster_operator.api.text import to_text
from slurmcluster_operator.decide.report import summary, sums, table, to_json
from slurmcluster_operator.manifests.build import content_hash, standing_objects
from slurmcluster_operator.manifests.cluster import Cluster, Json
from slurmcluster_operator.manifests.slurmd import pod
from slurmcluster_operator.model.names import Names
from slurmcluster_operator.settings import Settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    chosen = _parser().parse_args(arguments)
    try:
        settings = Settings.from_environment(os.environ)
        if chosen.command == "run":
            return _run(settings)
        if chosen.command == "crd":
            sys.stdout.write(to_yaml())
            return 0
        if chosen.command == "why":
            return _why(settings, chosen)
        if chosen.command == "fleet":
            return _fleet(settings, chosen)
        return _render(chosen.file, settings)
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
    from slurmcluster_operator.operator import run  # noqa: PLC0415 - the other commands need neither kopf nor a cluster

    asyncio.run(run(settings))
    return 0


def _why(settings: Settings, chosen: argparse.Namespace) -> int:
    from slurmcluster_operator.runtime.why import why  # noqa: PLC0415 - the other commands need no cluster

    print(asyncio.run(why(settings, chosen.namespace, chosen.cluster, chosen.job)))
    return 0


def _fleet(settings: Settings, chosen: argparse.Namespace) -> int:
    from slurmcluster_operator.runtime.ledger import ledger  # noqa: PLC0415 - the other commands need no cluster

    found, notes = asyncio.run(ledger(settings, chosen.namespace, chosen.cluster))
    for note in notes:
        print(f"slurmcluster_operator: {note}", file=sys.stderr)
    shown = [entry for entry in found if entry.problems or not chosen.problems]
    if chosen.output == "json":
        print(to_json(shown, sums(found)))
    else:
        print(*([table(shown, datetime.now(UTC))] if shown else []), summary(sums(found)), sep="\n")
    return 1 if any(entry.problems for entry in found) else 0


def _render(file: Path, settings: Settings) -> int:
    text = sys.stdin.read() if str(file) == "-" else file.read_text()
    documents = [document for document in yaml.safe_load_all(text) if document and document.get("kind") == KIND]
    if not documents:
        raise ValueError(f"{file}: there is no {KIND} in it")
    printed: list[Json] = []
    for document in documents:
        metadata = document["metadata"]
        try:
            spec = SlurmClusterSpec.model_validate(document["spec"])
        except ValidationError as error:
            for problem in problems(error):
                print(f"{file}: {metadata['name']}: {problem}", file=sys.stderr)
            return 1
        names = Names(metadata.get("namespace", "default"), metadata["name"])
        cluster = Cluster(names, metadata.get("uid", "00000000-0000-0000-0000-000000000000"), spec, settings.platform)
        objects = standing_objects(cluster)
        for pool in spec.pools:
            objects += [
                pod(cluster, pool, f"{pool.name}-{ordinal}", content_hash(cluster)) for ordinal in range(pool.nodes.min)
            ]
        printed += objects
    sys.stdout.write(to_text(printed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
