"""The command line."""

import argparse
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from localkube import archives, cluster, golden, host, packages, removal, waiting
from localkube.cluster import Cluster
from localkube.console import say, step, together
from localkube.errors import LocalkubeError
from localkube.families import EXTRAS, ensure_toolchain, with_extras
from localkube.layout import Cache, State
from localkube.locks import exclusive
from localkube.network import set_cable
from localkube.plan import Plan
from localkube.report import show


def main(argv: list[str] | None = None) -> int:
    """Run one command; a failure that a person can act on is shown without a traceback."""
    arguments = _parser().parse_args(argv)
    try:
        result: int = arguments.run(arguments)
    except LocalkubeError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m localkube",
        description="A real Kubernetes on this machine, whose workers have simulated GPUs.",
        epilog="LOCALKUBE_INSTANCE, a number from 0 to 9, tells clusters on one machine from each other; "
        "LOCALKUBE_CACHE and LOCALKUBE_STATE say where the cache and the running cluster's files lie.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        return command

    up = add("up", _up, "Start the cluster, or repair the running one.")
    up.add_argument("--workers", type=int, help=f"number of worker nodes (default {Plan.workers})")
    up.add_argument("--gpus", type=int, help=f"number of GPUs of each worker (default {Plan.gpus})")
    up.add_argument("--image", type=Path, nargs="+", metavar="TAR", help="image archives that all nodes are to have")
    add("down", _down, "Remove the cluster and everything that it left on the machine.")
    add("status", _status, "Show machines, their services, and the nodes.")
    load = add("load-image", _load_image, "Load image archives into all nodes, and keep them for later clusters.")
    load.add_argument("archive", type=Path, nargs="+", metavar="TAR", help="docker or OCI archive, fully named")
    add("forget-images", _forget_images, "Forget the images that load-image and --image kept.")
    node = add("node", _node, "Pull a node's power plug (stop) or network cable (cut), or undo either (start).")
    node.add_argument("action", choices=["stop", "start", "cut"])
    node.add_argument("name", metavar="NAME", help="for example worker-0")
    for name, text in (
        ("build", "Build the programs, and nothing else; print their folder."),
        ("bin", "Print the folder with kubectl and helm, for PATH; builds them when they are missing."),
    ):
        build = add(name, _build, text)
        build.add_argument("extra", nargs="*", help=f"also: {', '.join(family.name for family in EXTRAS)}")
    add("kubeconfig", _kubeconfig, "Print the path of the administrator's kubeconfig.")
    return parser


def _up(arguments: argparse.Namespace) -> int:
    host.require_root()
    cache, state = Cache.from_environment(), State.from_environment()
    with _locked(cache, state):
        programs: list[Path] = []
        together(packages.install_missing, lambda: programs.append(ensure_toolchain(cache)))
        if arguments.image:
            archives.remember(cache, arguments.image)
        if cluster.usable(state):
            running = cluster.load(state, cache)
            _refuse_changes(running.plan, arguments)
            with step("looking after the running cluster"):
                cluster.repair(running)
            _load(running, arguments.image or [])
            if running.bin != programs[0]:
                say("newer programs are built; `down`, then `up`, to run them")
        else:
            wanted = Plan(_or(arguments.workers, Plan.workers), _or(arguments.gpus, Plan.gpus), state.instance)
            cluster.create(Cluster(state, cache, wanted, programs[0]))
    say(f"the cluster is ready: export KUBECONFIG={state.kubeconfig} PATH={programs[0]}:$PATH")
    return 0


def _down(_: argparse.Namespace) -> int:
    host.require_root()
    cache, state = Cache.from_environment(), State.from_environment()
    with _locked(cache, state), step("removing the cluster"):
        removal.remove(state)
    return 0


def _status(_: argparse.Namespace) -> int:
    return show(cluster.load(State.from_environment(), Cache.from_environment()))


def _build(arguments: argparse.Namespace) -> int:
    print(ensure_toolchain(Cache.from_environment(), with_extras(arguments.extra)))
    return 0


def _kubeconfig(_: argparse.Namespace) -> int:
    print(State.from_environment().kubeconfig)
    return 0


def _load_image(arguments: argparse.Namespace) -> int:
    host.require_root()
    cache, state = Cache.from_environment(), State.from_environment()
    with _locked(cache, state):
        _load(cluster.load(state, cache), arguments.archive)
    return 0


def _forget_images(_: argparse.Namespace) -> int:
    archives.forget_all(Cache.from_environment())
    return 0


def _node(arguments: argparse.Namespace) -> int:
    host.require_root()
    cache, state = Cache.from_environment(), State.from_environment()
    with _locked(cache, state):
        running = cluster.load(state, cache)
        node = running.plan.node(arguments.name)
        with step(f"{arguments.action} {node.name}"):
            if arguments.action == "stop":
                cluster.power_off(running, node)
            elif arguments.action == "cut":
                set_cable(node, connected=False)
            else:
                cluster.power_on(running, [node])
                waiting.for_nodes(running.api, state, [node])
    return 0


def _load(running: Cluster, files: list[Path]) -> None:
    """Load archives into every node that is on, and keep them for the next cluster."""
    if not files:
        return
    by_archive: dict[Path, list[str]] = {}
    for name, archive in sorted(archives.remember(running.cache, files).items()):
        by_archive.setdefault(archive, []).append(name)
    nodes = [running.state.machine(node.name) for node in running.plan.nodes]
    for archive, names in by_archive.items():
        lacking = [node for node in nodes if node.containerd_socket.exists() and not golden.has(node, archive, names)]
        if lacking:
            with step(f"loading {', '.join(names)} into {len(lacking)} nodes"):
                together(*(partial(golden.load, node, archive, names) for node in lacking))


def _refuse_changes(running: Plan, arguments: argparse.Namespace) -> None:
    wanted = Plan(_or(arguments.workers, running.workers), _or(arguments.gpus, running.gpus), running.instance)
    if wanted != running:
        raise LocalkubeError(
            f"the running cluster has {running.workers} workers with {running.gpus} GPUs each",
            advice="To change that: python3 -m localkube down, then up with the new options.",
        )


def _locked(cache: Cache, state: State) -> AbstractContextManager[None]:
    name = str(state.root).strip("/").replace("/", "-")
    return exclusive(cache.locks / f"state-{name}", "changing the cluster")


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
