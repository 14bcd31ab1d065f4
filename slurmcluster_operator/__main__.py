"""``python -m slurmcluster_operator``: run the operator, or look at what it would do."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml
from pydantic import ValidationError

from slurmcluster_operator.api.crd import KIND, to_yaml
from slurmcluster_operator.api.errors import problems
from slurmcluster_operator.api.spec import SlurmClusterSpec
from slurmcluster_operator.api.text import to_text
from slurmcluster_operator.manifests.build import content_hash, standing_objects
from slurmcluster_operator.manifests.cluster import Cluster, Json
from slurmcluster_operator.manifests.slurmd import pod
from slurmcluster_operator.model.names import Names
from slurmcluster_operator.settings import Settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    parser = argparse.ArgumentParser(prog="slurmcluster_operator", description="Slurm on Kubernetes.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="run the operator (in a pod, or with KUBECONFIG outside)")
    commands.add_parser("crd", help="print the CustomResourceDefinition")
    render = commands.add_parser("render", help="print every object that the SlurmClusters of a file would produce")
    render.add_argument("file", type=Path, help="YAML with one or more SlurmClusters; - for standard input")
    why = commands.add_parser("why", help="say why a job is not running (in the operator's pod)")
    why.add_argument("job", metavar="JOBID", help="the job's number")
    why.add_argument("-n", "--namespace", default="", help="the SlurmCluster's namespace, where there are several")
    why.add_argument("-c", "--cluster", default="", help="its name")
    chosen = parser.parse_args(arguments)
    try:
        settings = Settings.from_environment(os.environ)
        if chosen.command == "run":
            return _run(settings)
        if chosen.command == "crd":
            sys.stdout.write(to_yaml())
            return 0
        if chosen.command == "why":
            return _why(settings, chosen)
        return _render(chosen.file, settings)
    except (OSError, ValueError, yaml.YAMLError) as error:
        print(f"slurmcluster_operator: {error}", file=sys.stderr)
        return 1


def _run(settings: Settings) -> int:
    from slurmcluster_operator.operator import run  # noqa: PLC0415 - the other commands need neither kopf nor a cluster

    asyncio.run(run(settings))
    return 0


def _why(settings: Settings, chosen: argparse.Namespace) -> int:
    from slurmcluster_operator.runtime.why import why  # noqa: PLC0415 - the other commands need no cluster

    print(asyncio.run(why(settings, chosen.namespace, chosen.cluster, chosen.job)))
    return 0


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
