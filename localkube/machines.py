"""Starting and ending machines from the outside."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from localkube.errors import LocalkubeError
from localkube.layout import SOURCE, MachineFolder
from localkube.locks import holder
from localkube.services import Service
from localkube.shell import log_tail

# Programs write to these fixed paths, so that every machine gets a folder of its own there.
PRIVATE_FOLDERS = ("/run/containerd", "/var/log/containers")
# The addresses that pods had are kept too: given anew from the first on, an old one would lead to another pod.
KEPT_FOLDERS = ("/var/lib/cni", "/var/lib/kubelet", "/var/log/pods")
# Machines forward: to their pods, and the control plane from the host to Services. A redirect would lead the host past
# the address translation that it was sent for.
_SYSCTLS = {
    "net/ipv4/ip_forward": "1",
    "net/ipv4/conf/all/send_redirects": "0",
    "net/ipv4/conf/eth0/send_redirects": "0",
}
_START_SECONDS = 20
_END_SECONDS = 60
# The caller's variables (a proxy, for one) are no business of the cluster.
_ENVIRONMENT = {"HOME": "/root", "LANG": "C.UTF-8"}
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Machine:
    """What is to run, and in which namespaces."""

    folder: MachineFolder
    services: Sequence[Service]
    bin: Path
    namespace: str
    gpus: int = 0

    def spec(self) -> dict[str, Any]:
        """Return what the machine's init reads."""
        return {
            "lock": str(self.folder.lock),
            "status": str(self.folder.status),
            "logs": str(self.folder.logs),
            "dev": str(self.folder.run / "dev"),
            "hostname": self.folder.root.name,
            "gpus": self.gpus,
            "private": list(PRIVATE_FOLDERS),
            "binds": {path: str(self.folder.disk(path)) for path in KEPT_FOLDERS},
            "sysctls": _SYSCTLS,
            "environment": {**_ENVIRONMENT, "PATH": f"{self.bin}:{_SYSTEM_PATH}"},
            "services": [service.to_json() for service in self.services],
        }

    def command(self) -> list[str]:
        """Return the command that makes the namespaces and runs the init in them."""
        enter = ["nsenter", f"--net=/run/netns/{self.namespace}"]
        unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--propagation", "slave", "--mount-proc"]
        return [*enter, *unshare, "--uts", sys.executable, "-m", "localkube.init", str(self.folder.spec)]


def pid_of(folder: MachineFolder) -> int | None:
    """Return the process id of a machine's init, or None when the machine is off."""
    return holder(folder.lock)


def start(machine: Machine) -> None:
    """Start a machine that is off, as after a power cut: what lives in memory only is gone."""
    folder = machine.folder
    shutil.rmtree(folder.run, ignore_errors=True)
    for path in (folder.logs, folder.run / "dev", *(folder.disk(path) for path in KEPT_FOLDERS)):
        path.mkdir(parents=True, exist_ok=True)
    folder.status.unlink(missing_ok=True)
    folder.spec.write_text(json.dumps(machine.spec(), indent=1))
    log = folder.logs / "init.log"
    with log.open("a") as output:
        process = subprocess.Popen(
            machine.command(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env={**_ENVIRONMENT, "PATH": _SYSTEM_PATH, "PYTHONPATH": str(SOURCE.parent)},
            start_new_session=True,
        )
    deadline = time.monotonic() + _START_SECONDS
    while not folder.status.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise LocalkubeError(f"machine {folder.root.name} did not start", log=log_tail(log))
        time.sleep(0.02)
    # The process lives on without us: a later garbage collection must not complain about it.
    process.returncode = 0


def kill(folder: MachineFolder) -> bool:
    """End a machine with everything in it; True when there was something to end."""
    pid = pid_of(folder)
    if pid is None:
        return False
    descriptor = os.pidfd_open(pid)
    try:
        # Between reading the lock and opening the process the number may have changed hands.
        if pid_of(folder) == pid:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            _wait_for_end(descriptor, folder.root.name)
    finally:
        os.close(descriptor)
    return True


def started_at(folder: MachineFolder) -> datetime:
    """Return when a machine was last started."""
    return datetime.fromtimestamp(folder.spec.stat().st_mtime, tz=UTC)


def statuses(folder: MachineFolder) -> dict[str, Any]:
    """Return what the machine's init last said of its services."""
    try:
        value: dict[str, Any] = json.loads(folder.status.read_text())
    except FileNotFoundError:
        return {}
    return value


def _wait_for_end(descriptor: int, name: str) -> None:
    """Wait for an init to be gone; the kernel lets it go last, after every process of the machine."""
    if not select.select([descriptor], [], [], _END_SECONDS)[0]:
        raise LocalkubeError(
            f"machine {name} is still alive {_END_SECONDS} s after it was killed",
            advice="A process of it hangs in the kernel (state D in `ps`); try again later.",
        )
