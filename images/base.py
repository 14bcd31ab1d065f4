"""The Debian root file system that the Dockerfiles start from, as ``debian:*-slim`` is on a registry."""

import subprocess
from pathlib import Path
from typing import Final

MINIMAL: Final = (
    "--mode=root",
    "--variant=minbase",
    # A release under preparation may be served with an index that is out of date.
    '--aptopt=Acquire::Check-Valid-Until "false"',
    '--aptopt=APT::Install-Recommends "false"',
    "--dpkgopt=force-unsafe-io",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/info/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
)


def recipe(suite: str) -> list[str]:
    """Return mmdebstrap's arguments, without the file to write; no mirror is named."""
    return [*MINIMAL, suite]


def make(suite: str, tar: Path) -> None:
    """Write the root file system of a Debian release."""
    unfinished = tar.with_suffix(".unfinished.tar")
    subprocess.run(["mmdebstrap", "--quiet", *recipe(suite), str(unfinished)], check=True)
    unfinished.rename(tar)
