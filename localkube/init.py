"""The first process of a machine: `python3 -m localkube.init SPEC`.

A machine is a set of Linux namespaces (network, processes, mounts, host name). This process is the
process namespace's init: it starts the machine's services, starts them again when they end, and reaps orphans. When it
ends, the kernel kills everything in the machine and drops its mounts, so that a power cut is one signal.
"""

import json
import os
import resource
import signal
import socket
import stat
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localkube.locks import hold_for_life
from localkube.shell import run

NVIDIA_MAJOR = 195
_SYSTEM_MOUNTS = ("pts", "shm", "mqueue", "hugepages")
_STEADY_SECONDS = 10.0
_LONGEST_DELAY = 8.0


@dataclass
class Running:
    """A service and what became of it."""

    name: str
    argv: list[str]
    after: str
    pid: int = 0
    starts: int = 0
    began: float = 0.0
    due: float = 0.0
    delay: float = 0.5

    def ready(self, now: float) -> bool:
        """Tell whether it should be started now."""
        return not self.pid and now >= self.due and (not self.after or Path(self.after).exists())

    def ended(self, now: float) -> None:
        """Plan the next start: at once after a steady run, later and later for one that keeps failing."""
        self.delay = 0.5 if now - self.began > _STEADY_SECONDS else min(self.delay * 2, _LONGEST_DELAY)
        self.pid, self.due = 0, now + self.delay


def main(spec_path: str) -> int:
    """Set the machine up and serve it until it is killed."""
    spec: dict[str, Any] = json.loads(Path(spec_path).read_text())
    if not hold_for_life(Path(spec["lock"])):
        print("this machine runs already", file=sys.stderr)
        return 1
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    socket.sethostname(spec["hostname"])
    _set_folders(spec["private"], spec["binds"])
    _set_devices(Path(spec["dev"]), spec["gpus"])
    for key, value in spec["sysctls"].items():
        Path("/proc/sys", key).write_text(value)
    return _supervise(spec)


def _set_folders(private: list[str], binds: dict[str, str]) -> None:
    """Give the machine folders of its own at fixed paths: lost with the power, or kept on its disk."""
    for path in private:
        run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", path])
    for path, kept in binds.items():
        run(["mount", "--bind", kept, path])


def _set_devices(dev: Path, gpus: int) -> None:
    """Give the machine a /dev of its own, with the GPUs of the plan."""
    run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", dev])
    _copy_devices(Path("/dev"), dev)
    for index in range(gpus):
        os.mknod(dev / f"nvidia{index}", stat.S_IFCHR | 0o666, os.makedev(NVIDIA_MAJOR, index))
        (dev / f"nvidia{index}").chmod(0o666)
    for name in _SYSTEM_MOUNTS:
        if Path("/dev", name).is_dir():
            (dev / name).mkdir(exist_ok=True)
            run(["mount", "--bind", f"/dev/{name}", dev / name])
    run(["mount", "--rbind", dev, "/dev"])
    # Pods may ask for volumes whose mounts spread in both directions; nothing spreads to the host, which is a slave's
    # one-way street.
    run(["mount", "--make-rshared", "/"])


def _copy_devices(source: Path, target: Path) -> None:
    """Copy the host's device files, except real GPUs: a node has those of the plan and no others."""
    for entry in os.scandir(source):
        copy = target / entry.name
        status = entry.stat(follow_symlinks=False)
        if entry.name.startswith("nvidia") or entry.name in _SYSTEM_MOUNTS:
            continue
        if entry.is_symlink():
            copy.symlink_to(Path(entry.path).readlink())
        elif entry.is_dir():
            copy.mkdir(mode=0o755)
            _copy_devices(Path(entry.path), copy)
        elif stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
            os.mknod(copy, status.st_mode, status.st_rdev)
            copy.chmod(stat.S_IMODE(status.st_mode))


def _supervise(spec: dict[str, Any]) -> int:
    services = [Running(s["name"], s["argv"], s["after"]) for s in spec["services"]]
    shown: dict[str, Any] = {}
    while True:
        now = time.monotonic()
        for service in services:
            if service.ready(now):
                _start(service, Path(spec["logs"]), spec["environment"])
        state = {s.name: {"running": bool(s.pid), "starts": s.starts} for s in services}
        if state != shown:
            _write(Path(spec["status"]), state)
            shown = state
        waiting = any(not service.pid for service in services)
        signal.sigtimedwait({signal.SIGCHLD}, 0.1 if waiting else 60)
        _reap(services)


def _start(service: Running, logs: Path, environment: dict[str, str]) -> None:
    log = str(logs / f"{service.name}.log")
    appending = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    service.pid = os.posix_spawnp(
        service.argv[0],
        service.argv,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, appending, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=(),
    )
    service.began = time.monotonic()
    service.starts += 1


def _reap(services: list[Running]) -> None:
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        for service in services:
            if service.pid == pid:
                service.ended(time.monotonic())


def _write(path: Path, value: dict[str, Any]) -> None:
    """Replace a file in one go, so that a reader never sees half of it."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(value))
    fresh.rename(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
