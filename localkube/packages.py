"""Debian packages that the cluster needs, installed only when one is missing."""

import os
import shutil
import subprocess
import time

from localkube.console import say, step
from localkube.errors import LocalkubeError
from localkube.shell import run

PACKAGES = (
    "buildah",
    "conntrack",
    "containerd",
    "containernetworking-plugins",
    "ethtool",
    "gcc",
    "ipset",
    "iproute2",
    "iptables",
    "libc6-dev",
    "mmdebstrap",
    "openssl",
    "runc",
    "socat",
    "util-linux",
)
_ATTEMPTS = 10


def install_missing() -> None:
    """Install what is missing; on a system without apt, trust that the programs are there."""
    if not shutil.which("dpkg-query"):
        say("no dpkg here: expecting containerd, runc, CNI plugins, iptables, conntrack and openssl on PATH")
        return
    missing = missing_packages(_installed())
    if not missing:
        return
    with step(f"installing packages: {' '.join(missing)}", announce=True):
        _apt("update")
        _apt("install", "--yes", "--no-install-recommends", *missing)


def missing_packages(installed: set[str]) -> list[str]:
    """Return the packages that are not among the installed ones."""
    return [package for package in PACKAGES if package not in installed]


def _installed() -> set[str]:
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Abbrev} ${Package}\n", *PACKAGES]
    listed = subprocess.run(query, check=False, capture_output=True, text=True).stdout
    return {line.split()[1] for line in listed.splitlines() if line.startswith("ii ")}


def _apt(*words: str) -> None:
    """Run apt-get; another apt may hold a lock for a while, which its own timeout does not always cover."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    advice = "Repair apt (its own words are above), then run the same command again."
    for attempt in range(_ATTEMPTS):
        try:
            run(["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300", *words], env=environment, advice=advice)
        except LocalkubeError as error:
            if "lock" not in error.log.lower() or attempt == _ATTEMPTS - 1:
                raise
            time.sleep(5)
        else:
            return
