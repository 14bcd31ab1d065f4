"""Build the images: ``python3 -m images.build``.

Each image is written to a cache folder as an archive whose name tells what it was made from, so that
only what changed is built again. Progress goes to standard error, the archives' paths to standard output.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from images import base, host
from images.buildah import Buildah, BuildError, open_storage
from images.cache_key import MissingInputError, base_key, image_key
from images.catalog import SLURM_VERSIONS, Image, catalog

ROOT: Final = Path(__file__).resolve().parent.parent
_KEPT: Final = 3
"""Archives of one image that stay in the cache, for branches that take turns."""


def cache_folder() -> Path:
    """Return where the archives are kept."""
    named = os.environ.get("LOCALKUBE_CACHE")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(named) if named else home / "slurmcluster-operator") / "images"


def archive_of(folder: Path, image: Image) -> Path:
    """Return the archive that holds this image as the sources are now."""
    key = image_key(ROOT, image, base.recipe(image.suite))
    return folder / f"{image.name}-{image.tag}-{key}.tar"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _timed(what: str, action: Callable[[], None]) -> None:
    start = time.monotonic()
    action()
    _say(f"{what}: {time.monotonic() - start:.1f} s")


def _prepare_base(buildah: Buildah, folder: Path, suite: str) -> None:
    key = base_key(base.recipe(suite))
    tar = folder / "base" / f"{suite}-{key}.tar"
    if not tar.exists():
        tar.parent.mkdir(parents=True, exist_ok=True)
        _timed(f"Debian {suite}", lambda: base.make(suite, tar))
    buildah.import_base(suite, tar, key)


def _forget_old(folder: Path, image: Image) -> None:
    archives = sorted(folder.glob(f"{image.name}-{image.tag}-*.tar"), key=lambda path: path.stat().st_mtime)
    for archive in archives[:-_KEPT]:
        archive.unlink(missing_ok=True)


def _build_suite(buildah: Buildah, folder: Path, wanted: Sequence[tuple[Image, Path]], suite: str) -> None:
    """Build one release's images after each other: each uses the layers of the one before."""
    _prepare_base(buildah, folder, suite)
    for image, tar in wanted:

        def make(image: Image = image, tar: Path = tar) -> None:
            buildah.build(ROOT, image)
            buildah.save(image.reference, tar)

        _timed(image.reference, make)
        _forget_old(folder, image)


def build(folder: Path, wanted: Sequence[tuple[Image, Path]]) -> None:
    """Build what has no archive yet, releases beside each other."""
    stale = [(image, tar) for image, tar in wanted if not tar.exists()]
    if not stale:
        return
    if packages := host.missing_packages():
        _timed(f"Packages {' '.join(packages)}", lambda: host.install(packages))
    buildah = open_storage(folder / "storage")
    suites = sorted({image.suite for image, _ in stale})
    with ThreadPoolExecutor(max_workers=2) as pool:
        jobs = [
            pool.submit(_build_suite, buildah, folder, [pair for pair in stale if pair[0].suite == suite], suite)
            for suite in suites
        ]
        for job in jobs:
            job.result()
    buildah.tidy()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m images.build", description="Build the container images.")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this image (may be repeated)")
    parser.add_argument("--slurm", choices=SLURM_VERSIONS, default=SLURM_VERSIONS[0], help="Slurm's version")
    parser.add_argument("--list", action="store_true", help="build nothing; print reference → archive as JSON")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    options = _parse(arguments)
    images = catalog(options.slurm)
    if unknown := set(options.only or []) - {image.name for image in images}:
        _say(f"no such image: {', '.join(sorted(unknown))}; there are {', '.join(image.name for image in images)}")
        return 2
    chosen = [image for image in images if not options.only or image.name in options.only]
    folder = cache_folder()
    try:
        wanted = [(image, archive_of(folder, image)) for image in chosen]
        if options.list:
            print(json.dumps({image.reference: str(tar) for image, tar in wanted}, indent=2))
            return 0
        _timed("All images", lambda: build(folder, wanted))
    except MissingInputError as error:
        _say(f"not there: {error}")
        return 1
    except BuildError as error:
        _say(str(error))
        return 1
    for _, tar in wanted:
        print(tar)
    return 0


if __name__ == "__main__":
    sys.exit(main())
