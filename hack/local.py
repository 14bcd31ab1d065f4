"""The Kubernetes of this machine with our images in it: ``python3 -m hack.local up|down|build|tool NAME``."""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hack.console import say
from hack.shell import CommandError, capture
from hack.together import Outcome, Runner, Task
from images.build import archive_of, cache_folder
from images.catalog import SLURM_VERSIONS, catalog
from localkube import cluster
from localkube.layout import State

ROOT: Final = Path(__file__).resolve().parent.parent
BUILD_PROGRAMS: Final = Task("programs", (sys.executable, "-m", "localkube", "build"), quiet=True)
DEFAULT_VERSIONS: Final = SLURM_VERSIONS[:1]


@dataclass(frozen=True)
class Kubernetes:
    """A cluster to work on: its kubeconfig, and a folder with kubectl and helm when they are not on PATH."""

    kubeconfig: Path
    bin: Path | None = None
    is_local: bool = False

    @property
    def env(self) -> dict[str, str]:
        """Return the environment in which kubectl and helm speak to this cluster."""
        path = os.environ.get("PATH", os.defpath)
        return {"KUBECONFIG": str(self.kubeconfig), "PATH": f"{self.bin}:{path}" if self.bin else path}


class BuildFailedError(Exception):
    """A build failed; its output stands above."""


def localkube(*arguments: str) -> None:
    """Run localkube in front of the reader."""
    done = subprocess.run(
        [sys.executable, "-m", "localkube", *arguments], cwd=ROOT, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        raise CommandError(f"python3 -m localkube {' '.join(arguments)}", done.returncode, "")


def is_running() -> bool:
    """Tell whether localkube runs."""
    return cluster.usable(State.from_environment())


def build_images(versions: Sequence[str]) -> list[Task]:
    """Return the tasks of building the images for these versions of Slurm."""
    command = (sys.executable, "-m", "images.build", "--slurm")
    return [Task(f"images {version}", (*command, version), quiet=True) for version in versions]


def archives(versions: Sequence[str] = DEFAULT_VERSIONS) -> list[Path]:
    """Return the archives of all images as the sources are now."""
    images = [image for version in versions for image in catalog(version)]
    return list(dict.fromkeys(archive_of(cache_folder(), image) for image in images))


def archive(name: str) -> Path:
    """Return the archive of one image as the sources are now."""
    return next(path for path in archives() if path.name.startswith(f"{name}-"))


def image_key(name: str) -> str:
    """Return what tells one build of an image from another."""
    return archive(name).stem.rsplit("-", 1)[1]


def chart_values(kubernetes: Kubernetes) -> dict[str, str]:
    """Return the values by which Helm sees that the operator's image is another one under the same name."""
    return {"podAnnotations.image-key": image_key("operator")} if kubernetes.is_local else {}


def demo_folder() -> Path:
    """Return the folder, outside the checkout, for keys that the demo and the benchmarks make."""
    return cache_folder().parent / "demo"


def build(versions: Sequence[str] = DEFAULT_VERSIONS) -> None:
    """Build localkube's programs and the images beside each other; what is there already is not built again."""
    refuse_failures(Runner().run([[BUILD_PROGRAMS], build_images(versions)]))


def refuse_failures(outcomes: Sequence[Outcome]) -> None:
    """Show the end of what failed, and raise."""
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    for outcome in failed:
        say(f"\n{outcome.explain()}")
    if failed:
        raise BuildFailedError(", ".join(outcome.task.name for outcome in failed) + " failed; see above")


def programs() -> Path:
    """Return the folder with kubectl and helm, built when they are missing."""
    return Path(capture([sys.executable, "-m", "localkube", "bin"], timeout=3600).strip())


def up(versions: Sequence[str] = DEFAULT_VERSIONS, workers: int | None = None) -> Kubernetes:
    """Start the cluster with the images in it, or bring the running one up to date."""
    size = [] if workers is None else ["--workers", str(workers)]
    localkube("up", *size, "--image", *map(str, archives(versions)))
    return Kubernetes(State.from_environment().kubeconfig, programs(), is_local=True)


@contextmanager
def borrowed(versions: Sequence[str] = DEFAULT_VERSIONS, workers: int | None = None) -> Iterator[Kubernetes]:
    """Lend a running cluster; afterwards remove it, unless it ran before: then it keeps the workers that it has."""
    ran_before = is_running()
    try:
        yield up(versions, None if ran_before else workers)
    finally:
        if not ran_before:
            localkube("down")


def existing(kubeconfig: str) -> Kubernetes:
    """Return a cluster that somebody else runs."""
    path = Path(kubeconfig).expanduser().absolute()
    if not path.is_file():
        raise CommandError("kubeconfig", 1, f"there is no file {path}")
    found = shutil.which("kubectl") and shutil.which("helm")
    return Kubernetes(path, None if found else programs())


def tool(name: str) -> str:
    """Return the path of kubectl or helm: the one on PATH, else our own."""
    return shutil.which(name) or str(programs() / name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python3 -m hack.local", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="build what is missing, start the cluster, load the images")
    commands.add_parser("down", help="remove the cluster")
    commands.add_parser("build", help="build localkube's programs and the images")
    commands.add_parser("tool", help="print the path of kubectl or helm").add_argument("name")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command in {"up", "build"}:
            build()
        if chosen.command == "up":
            up()
        elif chosen.command == "down":
            localkube("down")
        elif chosen.command == "tool":
            say(tool(chosen.name))
    except (BuildFailedError, CommandError) as error:
        sys.stderr.write(f"\n{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
