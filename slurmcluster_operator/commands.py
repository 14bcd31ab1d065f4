"""The commands beside ``run``: they print something, and end."""

from __future__ import annotations

import argparse
import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

import yaml
from pydantic import ValidationError

from slurmcluster_operator.api.crd import to_yaml
from slurmcluster_operator.api.errors import problems
from slurmcluster_operator.api.group import KIND
from slurmcluster_operator.api.spec import SlurmClusterSpec
from slurmcluster_operator.api.text import to_text
from slurmcluster_operator.decide.report import summary, sums, table, to_json
from slurmcluster_operator.manifests.build import content_hash, standing_objects
from slurmcluster_operator.manifests.cluster import Cluster, Json
from slurmcluster_operator.manifests.slurmd import pod
from slurmcluster_operator.model.names import Names
from slurmcluster_operator.runtime.ledger import ledger
from slurmcluster_operator.runtime.why import why
from slurmcluster_operator.settings import Settings


def carry_out(chosen: argparse.Namespace, settings: Settings) -> int:
    """Carry out one command; return its exit status."""
    if chosen.command == "crd":
        sys.stdout.write(to_yaml())
        return 0
    if chosen.command == "why":
        return _why(settings, chosen)
    if chosen.command == "fleet":
        return _fleet(settings, chosen)
    return _render(chosen.file, settings)


def _why(settings: Settings, chosen: argparse.Namespace) -> int:
    print(asyncio.run(why(settings, chosen.namespace, chosen.cluster, chosen.job)))
    return 0


def _fleet(settings: Settings, chosen: argparse.Namespace) -> int:
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
