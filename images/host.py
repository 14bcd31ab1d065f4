"""The tools that building needs on this machine."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

_TOOLS: Final = {"buildah": "buildah", "mmdebstrap": "mmdebstrap"}
_KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def missing_packages() -> list[str]:
    """Return the Debian packages that have to be installed first."""
    missing = [package for tool, package in _TOOLS.items() if shutil.which(tool) is None]
    return missing if _KEYRING.exists() else [*missing, "debian-archive-keyring"]


def install(packages: list[str]) -> None:
    """Install packages with apt-get."""
    subprocess.run(["apt-get", "update", "-q"], check=True, stdout=subprocess.DEVNULL)
    command = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "--no-install-recommends"]
    subprocess.run([*command, *packages], check=True, stdout=subprocess.DEVNULL)
