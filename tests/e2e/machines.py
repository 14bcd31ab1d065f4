"""localkube's machines under test: power, cables, and what their pods can reach."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from hack.local import ROOT
from localkube.layout import State
from tests.e2e.support import Kubectl


def needs_localkube(kubectl: Kubectl, why: str) -> None:
    """Skip the test on other clusters than localkube."""
    if "localkube" not in kubectl("config", "view", "-o", "jsonpath={.clusters[*].name}"):
        pytest.skip(why)


def localkube(*arguments: str) -> str:
    """Run a command of localkube; return what it prints."""
    command = [sys.executable, "-m", "localkube", *arguments]
    ran = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=120)
    return ran.stdout.strip()


@contextmanager
def port_cut_off(port: int, machines: Iterable[str]) -> Iterator[None]:
    """Let no pod on these machines reach a port of pods elsewhere."""
    instance = State.from_environment().instance

    def iptables(action: str, machine: str) -> None:
        enter = ["nsenter", f"--net=/run/netns/{instance.namespace(machine)}"]
        rule = ["FORWARD", "--protocol", "tcp", "--dport", str(port), "--jump", "DROP"]
        subprocess.run([*enter, "iptables", "--wait", action, *rule], check=True)

    with ExitStack() as cut:
        for machine in machines:
            iptables("--insert", machine)
            cut.callback(iptables, "--delete", machine)
        yield
