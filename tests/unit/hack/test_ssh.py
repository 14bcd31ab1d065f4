from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hack import ssh


def test_a_key_is_made_once_and_private(tmp_path: Path) -> None:
    key = ssh.make_key(tmp_path / "demo")
    first = key.read_text()
    key.chmod(0o644)
    assert ssh.make_key(tmp_path / "demo").read_text() == first
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.with_suffix(".pub").read_text().startswith("ssh-ed25519 ")


@pytest.mark.parametrize(
    ("address", "parts"), [("10.0.0.1:22", ("10.0.0.1", 22)), ("lb.example.com:2222", ("lb.example.com", 2222))]
)
def test_addresses_are_split(address: str, parts: tuple[str, int]) -> None:
    assert ssh.split_address(address) == parts


def test_known_hosts_names_other_ports_in_brackets() -> None:
    keys = ["ssh-ed25519 AAAA1 root@pod\n", "ssh-rsa AAAA2"]
    assert ssh.known_hosts("10.0.0.1", 22, keys) == "10.0.0.1 ssh-ed25519 AAAA1\n10.0.0.1 ssh-rsa AAAA2\n"
    assert ssh.known_hosts("127.0.0.1", 4022, keys[:1]) == "[127.0.0.1]:4022 ssh-ed25519 AAAA1\n"


def test_ssh_checks_the_server_and_asks_nobody() -> None:
    login = ssh.Login("10.0.0.1", 2222, Path("/k/id"), Path("/k/known"))
    words = login.command("alice", "-tt")
    assert words[-2:] == ["-tt", "alice@10.0.0.1"]
    assert {"StrictHostKeyChecking=yes", "BatchMode=yes", "UserKnownHostsFile=/k/known"} <= set(words)
    assert login.for_people("alice") == ["ssh -i /k/id -o UserKnownHostsFile=/k/known -p 2222 alice@10.0.0.1"]


def test_a_forwarded_port_is_for_the_program_alone() -> None:
    login = ssh.Login("127.0.0.1", 40123, Path("/k/id"), Path("/k/known"), "kubectl port-forward x 2222:ssh")
    assert login.for_people("bob") == [
        "kubectl port-forward x 2222:ssh &",
        "ssh -i /k/id -o UserKnownHostsFile=/k/known -p 2222 bob@127.0.0.1",
    ]


def test_reachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert ssh.reachable("127.0.0.1", port)
    assert not ssh.reachable("127.0.0.1", port)
