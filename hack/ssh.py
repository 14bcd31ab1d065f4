"""ssh as users have it: a key of their own, and host keys that are checked."""

import contextlib
import os
import re
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hack.console import INDENT, say
from hack.shell import CommandError, capture, show
from hack.terminal import converse

FORWARD_PORT: Final = 2222
_CONNECT_SECONDS: Final = 5.0


def make_key(folder: Path) -> Path:
    """Return a private key in the folder, made when there is none; its public half lies beside it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = folder / "id_ed25519"
    if not key.exists():
        capture(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "slurmcluster-demo", "-f", str(key)])
    key.chmod(0o600)
    return key


def split_address(address: str) -> tuple[str, int]:
    """Split ``host:port``."""
    host, _, port = address.rpartition(":")
    return host, int(port)


def known_hosts(host: str, port: int, public_keys: Iterable[str]) -> str:
    """Return the lines by which ssh knows a server, from the server's public keys."""
    name = host if port == 22 else f"[{host}]:{port}"  # noqa: PLR2004 - ssh's own default
    return "".join(f"{name} {' '.join(key.split()[:2])}\n" for key in public_keys)


def reachable(host: str, port: int) -> bool:
    """Tell whether something accepts connections there."""
    try:
        with socket.create_connection((host, port), _CONNECT_SECONDS):
            return True
    except OSError:
        return False


@dataclass(frozen=True)
class Login:
    """Where users log in, with which key, and how the server is known."""

    host: str
    port: int
    key: Path
    known_hosts: Path
    forward: str = ""
    """What a person has to run beside, on ``FORWARD_PORT``, where the address is good for this program alone."""

    def command(self, user: str, *options: str) -> list[str]:
        """Return the ssh command, to which a remote command may be added."""
        settings = {
            "BatchMode": "yes",
            "IdentitiesOnly": "yes",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": str(self.known_hosts),
            "GlobalKnownHostsFile": "/dev/null",
            "ConnectTimeout": "10",
            "LogLevel": "ERROR",
        }
        words = ["ssh", "-F", "none", "-i", str(self.key), "-p", str(self.port)]
        for name, value in settings.items():
            words += ["-o", f"{name}={value}"]
        return [*words, *options, f"{user}@{self.host}"]

    def for_people(self, user: str) -> list[str]:
        """Return the commands to type."""
        port = FORWARD_PORT if self.forward else self.port
        option = "" if port == 22 else f" -p {port}"  # noqa: PLR2004
        command = f"ssh -i {self.key} -o UserKnownHostsFile={self.known_hosts}{option} {user}@{self.host}"
        return [f"{self.forward} &", command] if self.forward else [command]

    def run(self, user: str, command: str, *, stdin: str | None = None) -> str:
        """Run a command in front of the reader."""
        say(f"{INDENT}{user}@login$ {command}")
        try:
            return show([*self.command(user), command], stdin=stdin, shown="")
        except CommandError as error:
            raise CommandError(f"ssh {user}@{self.host} {command}", error.status, error.output) from error

    def quietly(self, user: str, command: str, *, stdin: str | None = None) -> str:
        """Run a command and return what it printed."""
        return capture([*self.command(user), command], stdin=stdin)

    def converse(self, user: str, command: str, lines: Sequence[str], *, limit: float = 60) -> str:
        """Start an interactive command in a terminal, and type each line when the prompt asks for it."""
        say(f"{INDENT}{user}@login$ {command}")
        words = [*self.command(user, "-tt"), command]
        # A plain terminal: no colours, no titles.
        env = {**os.environ, "TERM": "dumb"}
        return converse(words, lines, lambda line: say(f"{INDENT}{line}"), env=env, limit=limit)


@contextmanager
def forwarded(service: str, namespace: str, env: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Reach a Service through ``kubectl port-forward`` for as long as the block lasts."""
    command = ["kubectl", "-n", namespace, "port-forward", f"service/{service}", ":ssh"]
    with subprocess.Popen(
        command,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            found = re.search(r"127\.0\.0\.1:(\d+)", line)
            if not found:
                raise CommandError(" ".join(command), 1, line)
            yield "127.0.0.1", int(found[1])
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
