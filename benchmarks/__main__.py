"""``make bench``: how long things take and what the operator costs, beside the goals.

``start``: from nothing to the first job, nodes for jobs, and the idle operator, on localkube. ``scale``: what one look
decides at 10,000 nodes. ``large``: the operator as a process with 10,000 nodes. ``storm``: 500 slurmd at once.

Figures are for reading: a missed goal is shown, and fails nothing. Only what cannot be measured does.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks import idle, large, scale, storm
from benchmarks.elastic import Elastic
from benchmarks.start import CannotMeasureError, starts
from benchmarks.timeline import Spread, break_down, verdict
from hack import local
from hack.console import INDENT, Steps, say, seconds, table
from hack.demo import EXAMPLE
from hack.kube import Chart, Kubectl
from hack.local import BuildFailedError, Kubernetes
from hack.shell import CommandError
from hack.together import end_on_terminate

COMPLETED_GOAL: Final = 20.0
RUNNING_GOAL: Final = 3.0
MEMORY_GOAL: Final = 90.0
WHAT: Final = ("start", "scale", "large", "storm")


def example() -> dict[str, Any]:
    """Return the SlurmCluster that the demo uses."""
    documents = yaml.safe_load_all((local.ROOT / EXAMPLE).read_text())
    found: dict[str, Any] = next(one for one in documents if one and one["kind"] == "SlurmCluster")
    return found


def fixed(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return it with pools that neither grow nor shrink."""
    pools = [{**pool, "nodes": {**pool["nodes"], "min": pool["nodes"]["max"]}} for pool in cluster["spec"]["pools"]]
    return {**cluster, "spec": {**cluster["spec"], "pools": pools}}


def size(cluster: Mapping[str, Any]) -> int:
    """Return how many nodes its pools have at most."""
    return sum(int(pool["nodes"]["max"]) for pool in cluster["spec"]["pools"])


def measure(kubernetes: Kubernetes, steps: Steps, options: argparse.Namespace) -> None:
    """Measure everything and print it."""
    os.environ["KUBECONFIG"] = str(kubernetes.kubeconfig)
    kubectl = Kubectl(kubernetes.env)
    with steps.step("Install the operator with Helm"):
        Chart(local.ROOT, local.chart_values(kubernetes)).install(kubernetes.env)
        if others := kubectl.text("get", "slc", "-A", "-o", "name").split():
            raise CannotMeasureError(f"there are SlurmClusters already, which use the nodes: {', '.join(others)}")
    nodes = kubectl.names("nodes", "localkube.dev/role=worker")[: size(example())]
    with steps.step(f"Start {EXAMPLE} with pools of a fixed size {options.runs} times, each time from nothing"):
        fixed_runs, last = asyncio.run(starts(kubectl, fixed(example()), nodes, options.runs))
        say(f"{INDENT}removed in {seconds(last.remove())}")
    with steps.step(f"Start {EXAMPLE} {options.runs} times, each time from nothing"):
        runs, last = asyncio.run(starts(kubectl, example(), nodes, options.runs))
    try:
        with steps.step(f"Start nodes for jobs, {options.rounds} times for one and for all of them"):
            elastic = Elastic.on(last).measure(options.rounds)
        with steps.step(f"Watch the idle operator for {options.idle:.0f} s"):
            cost = idle.measure(kubectl, options.settle, options.idle)
    finally:
        last.remove()
    rows = [
        ("what", "goal", "measured", "ok"),
        *first_job("fixed pools", fixed_runs),
        *first_job("from zero nodes", runs),
        *elastic,
        verdict("operator, idle: memory", MEMORY_GOAL, Spread((cost.memory,)), "MiB"),
        verdict("operator, idle: processor", None, Spread((cost.millicores,)), "millicores"),
        verdict("operator, idle: API calls", None, Spread((cost.calls_per_minute,)), "a minute"),
    ]
    for stages in (break_down(fixed_runs), break_down(runs)):
        say(f"\n{table(stages, right=frozenset(range(1, len(stages[0]))))}")
    say(f"\n{table(rows)}")


def first_job(how: str, runs: Sequence[Mapping[str, float]]) -> list[tuple[str, str, str, str]]:
    """Return the rows on the way to the first job."""
    completed = Spread(tuple(run["first job COMPLETED"] for run in runs))
    running = Spread(tuple(run["first job RUNNING"] - run["Ready"] for run in runs))
    return [
        verdict(f"{how}: apply -> first job COMPLETED", COMPLETED_GOAL, completed, "s"),
        verdict(f"{how}: Ready -> first job RUNNING", RUNNING_GOAL, running, "s"),
    ]


def elsewhere(what: Sequence[str], steps: Steps) -> list[tuple[str, str, str, str]]:
    """Measure what needs no cluster; return rows for a table of results."""
    rows = []
    if "scale" in what:
        with steps.step(f"Decide on {scale.NODES:,} nodes"):
            rows += scale.report(scale.NODES, rounds=5)
    if "large" in what:
        with tempfile.TemporaryDirectory() as folder:
            rows += asyncio.run(large.measure(local.programs(), Path(folder), large.NODES, steps))
    if "storm" in what:
        rows += storm.measure(storm.NODES, storm.NICE, {}, steps)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="how many starts (default 5)")
    parser.add_argument("--rounds", type=int, default=10, help="how many times nodes are started (default 10)")
    parser.add_argument("--settle", type=float, default=30, help="seconds before the idle operator is watched")
    parser.add_argument("--idle", type=float, default=120, help="seconds for which it is watched")
    parser.add_argument("--only", choices=WHAT, action="append", help="measure only this; can be given again")
    options = parser.parse_args(arguments)
    what = options.only or WHAT
    end_on_terminate()
    steps = Steps()
    try:
        if {"start", "large", "storm"} & set(what):
            with steps.step("Build what is missing"):
                local.build()
        if "start" in what:
            with local.borrowed() as kubernetes:
                measure(kubernetes, steps, options)
        if rows := elsewhere(what, steps):
            say("\n" + table([("what", "goal", "measured", "ok"), *rows]))
    except (BuildFailedError, CannotMeasureError, CommandError) as error:
        say(f"\ncannot measure: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
