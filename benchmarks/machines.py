"""Many small machines on one: network namespaces around one hub, each running a program from an image's files.

Needs root, iproute2 and util-linux, like localkube.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import posixpath
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

_PREFIX: Final = "storm"
_HUB: Final = f"{_PREFIX}-hub"
_NETWORK: Final = ipaddress.ip_network("10.78.0.0/16")
_WHITEOUT: Final = ".wh."
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# What a container runtime does, as far as slurmd cares. The second argument is a list of folders to begin empty.
_BOX: Final = """\
root=$1; shift; hostname "$1"; shift; user=$1; shift; empty=$1; shift
mount --rbind /dev "$root/dev"; mount -t proc proc "$root/proc"
for folder in $empty; do mount -t tmpfs -o mode=1777 tmpfs "$root/$folder"; done
exec chroot --userspec="$user:$user" "$root" /usr/bin/env -i "$@"
"""


@dataclass(frozen=True)
class Unpacked:
    """An image's files in a folder, and what it says about its program."""

    root: Path
    user: str
    env: Mapping[str, str]
    command: Sequence[str]

    def in_it(self) -> list[str]:
        """Return the command of its program; it has the number of the process that is started with it."""
        return ["chroot", f"--userspec={self.user}", str(self.root), "/usr/bin/env", *self.command]

    def put(self, file: Path) -> str:
        """Copy a file to where its program can read it; return the path there."""
        shutil.copyfile(file, self.root / "tmp" / file.name)
        return f"/tmp/{file.name}"  # noqa: S108 - below the image's root


def unpack(archive: Path, folder: Path) -> Unpacked:
    """Unpack an image's layers, the files that later ones remove left out."""
    folder.mkdir(parents=True)
    with tarfile.open(archive) as image:
        manifest = _json(image, "manifest.json")[0]
        for name in manifest["Layers"]:
            member = image.getmember(name)
            while member.issym():
                member = image.getmember(posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname)))
            stream = image.extractfile(member)
            if stream is not None:
                with stream, tarfile.open(fileobj=stream) as layer:
                    _lay(layer, folder)
        config = _json(image, manifest["Config"])["config"]
    env = dict(variable.split("=", 1) for variable in config.get("Env") or ())
    return Unpacked(folder, config.get("User") or "0:0", env, config.get("Cmd") or ())


def _json(image: tarfile.TarFile, name: str) -> Any:
    stream = image.extractfile(name)
    if stream is None:
        raise ValueError(f"{name} is not a file of the archive")
    with stream:
        return json.load(stream)


def _lay(layer: tarfile.TarFile, folder: Path) -> None:
    for member in layer:
        path, name = posixpath.split(member.name)
        if not name.startswith(_WHITEOUT):
            layer.extract(member, folder, filter="fully_trusted", numeric_owner=True)
            continue
        gone = folder / path / name.removeprefix(_WHITEOUT)
        if gone.is_dir() and not gone.is_symlink():
            shutil.rmtree(gone)
        else:
            gone.unlink(missing_ok=True)


@contextmanager
def writable(image: Path, folder: Path) -> Iterator[Path]:
    """Mount an image's files so that changes stay in ``folder``."""
    parts = {name: folder / name for name in ("upper", "work", "root")}
    for part in parts.values():
        part.mkdir(parents=True)
    options = f"lowerdir={image},upperdir={parts['upper']},workdir={parts['work']}"
    _run("mount", "-t", "overlay", "overlay", "-o", options, str(parts["root"]))
    try:
        yield parts["root"]
    finally:
        _run("umount", "--lazy", str(parts["root"]))


@dataclass
class Machines:
    """The machines, numbered from 0."""

    count: int
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Connect them for as long as the block lasts; what runs on them ends with it."""
        self._disconnect()
        try:
            self._connect()
            yield
        finally:
            for process in self.running:
                process.kill()
            for process in self.running:
                process.wait()
            self._disconnect()

    @staticmethod
    def address(number: int) -> str:
        """Return a machine's address."""
        return str(_NETWORK[257 + number])

    def start(
        self,
        number: int,
        root: Path,
        hostname: str,
        command: Sequence[str],
        *,
        log: Path,
        user: int = 0,
        env: Mapping[str, str] | None = None,
        empty: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a program on a machine: its own processes, mounts and host name; ``empty`` folders of its own."""
        box = ["nsenter", f"--net=/run/netns/{_PREFIX}-{number}", "unshare", "--mount", "--uts", "--ipc", "--pid"]
        box += ["--fork", "--kill-child", "sh", "-c", _BOX, "box", str(root), hostname, str(user), " ".join(empty)]
        variables = [f"{name}={value}" for name, value in ({"PATH": _PATH, "HOME": "/root"} | dict(env or {})).items()]
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*box, *variables, *command], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self.running.append(process)
        return process

    def _connect(self) -> None:
        hub = str(_NETWORK[1])
        _run("ip", "netns", "add", _HUB)
        _run("ip", "netns", "exec", _HUB, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        links: list[str] = ["link set lo up"]
        for number in range(self.count):
            _run("ip", "netns", "add", f"{_PREFIX}-{number}")
            mac = f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}"
            # Each on a link of its own with its neighbour written down: the kernel's table of neighbours, which all
            # namespaces share, would be too small for so many machines that all speak to each other.
            peer = f"peer name eth0 address {mac} netns {_PREFIX}-{number}"
            links += [
                f"link add m{number} address 02:00:00:01:00:00 type veth {peer}",
                f"link set m{number} up",
                f"route add {self.address(number)}/32 dev m{number} src {hub}",
                f"neigh replace {self.address(number)} lladdr {mac} dev m{number} nud permanent",
            ]
            if number == 0:
                links.insert(1, f"addr add {hub}/32 dev lo")
        _batch(_HUB, links)
        for number in range(self.count):
            inside = [
                "link set lo up",
                f"addr add {self.address(number)}/32 dev eth0",
                "link set eth0 up",
                f"neigh replace {hub} lladdr 02:00:00:01:00:00 dev eth0 nud permanent",
                f"route add {hub}/32 dev eth0",
                f"route add default via {hub}",
            ]
            _batch(f"{_PREFIX}-{number}", inside)

    @staticmethod
    def _disconnect() -> None:
        for name in os.listdir("/run/netns") if os.path.isdir("/run/netns") else ():  # noqa: PTH208, PTH112
            if name.startswith(f"{_PREFIX}-"):
                with contextlib.suppress(subprocess.CalledProcessError):
                    _run("ip", "netns", "delete", name)


def inside(process: subprocess.Popen[bytes], root: Path, user: int, *command: str) -> str:
    """Run a command beside a program that was started on a machine, and return what it printed."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    enter = ["nsenter", f"--target={children[0]}", "--all", "chroot", f"--userspec={user}:{user}", str(root)]
    done = subprocess.run(
        [*enter, "/usr/bin/env", "-i", f"PATH={_PATH}", *command],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


def _batch(netns: str, lines: Iterable[str]) -> None:
    subprocess.run(["ip", "-n", netns, "-batch", "-"], input="\n".join(lines), text=True, check=True)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
