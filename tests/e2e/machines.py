"""localkube's machines under test: power, cables, and what their pods can reach."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

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


def processes(pod: str, command: str) -> list[int]:
    """Return the processes of a pod, by its uid, that were called by this name."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            called = (process / "cmdline").read_text().partition("\0")[0]
            if called == command and f"/pod{pod}/" in (process / "cgroup").read_text():
                found.append(int(process.name))
        except OSError:
            continue  # it has ended
    return found


@contextmanager
def stopped(process: int) -> Iterator[None]:
    """Stop a whole process for a while."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


_PTRACE_SEIZE, _PTRACE_INTERRUPT, _PTRACE_DETACH = 0x4206, 0x4207, 17
_WALL = 0x40000000


@contextmanager
def thread_stopped(process: int, name: str) -> Iterator[None]:
    """Stop one thread of a process for a while, as if it got no processor. Signals stop all of them."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    thread = next(int(task.name) for task in tasks if (task / "comm").read_text().strip() == name)
    libc = ctypes.CDLL(None, use_errno=True)

    def ptrace(request: int) -> None:
        if libc.ptrace(ctypes.c_long(request), ctypes.c_long(thread), None, None):
            raise OSError(ctypes.get_errno(), f"ptrace request {request:#x} of thread {thread} failed")

    ptrace(_PTRACE_SEIZE)
    try:
        ptrace(_PTRACE_INTERRUPT)
        os.waitpid(thread, _WALL)
        yield
    finally:
        ptrace(_PTRACE_DETACH)
