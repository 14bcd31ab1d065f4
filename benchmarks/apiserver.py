"""A real API server with its etcd and nothing else: nodes and pods are what somebody writes there.

No kubelet, scheduler or controller manager: nobody finds out that the nodes of a simulation do not exist. So they need
no heartbeats, which for 10,000 nodes, with kwok as with kubelets, would keep two processors busy by themselves.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

TOKEN: Final = "benchmark"  # noqa: S105 - it listens on loopback, for the length of a measurement
_PATIENCE: Final = 120.0


class NotStartedError(Exception):
    """A program did not come up."""


@contextmanager
def api_server(programs: Path, folder: Path, *flags: str) -> Iterator[Path]:
    """Run etcd and kube-apiserver, with further flags, for as long as the block lasts; yield a kubeconfig."""
    etcd, peer, port = _free_ports(3)
    key = folder / "service-accounts.key"
    _quietly("openssl", "genrsa", "-out", str(key), "2048")
    (folder / "tokens.csv").write_text(f"{TOKEN},benchmark,benchmark,system:masters\n")
    with ExitStack() as running:
        running.enter_context(
            program(
                folder / "etcd.log",
                str(programs / "etcd"),
                f"--data-dir={folder}/etcd",
                f"--listen-client-urls=http://127.0.0.1:{etcd}",
                f"--advertise-client-urls=http://127.0.0.1:{etcd}",
                f"--listen-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-cluster=default=http://127.0.0.1:{peer}",
                "--unsafe-no-fsync",
                "--log-level=warn",
            )
        )
        running.enter_context(
            program(
                folder / "kube-apiserver.log",
                str(programs / "kube-apiserver"),
                f"--etcd-servers=http://127.0.0.1:{etcd}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--secure-port={port}",
                f"--cert-dir={folder}/certificates",
                f"--token-auth-file={folder}/tokens.csv",
                "--authorization-mode=RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                "--service-cluster-ip-range=10.255.0.0/24",
                "--allow-privileged=true",
                # Nobody makes service accounts here.
                "--disable-admission-plugins=ServiceAccount",
                *flags,
            )
        )
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(_kubeconfig(port))
        _wait_ready(programs / "kubectl", kubeconfig, folder / "kube-apiserver.log")
        yield kubeconfig


@contextmanager
def program(
    log: Path, *command: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program for as long as the block lasts, its output in a file."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=env, cwd=cwd
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_ports(count: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


def _kubeconfig(port: int) -> str:
    cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "benchmark",
        "clusters": [{"name": "benchmark", "cluster": cluster}],
        "users": [{"name": "benchmark", "user": {"token": TOKEN}}],
        "contexts": [{"name": "benchmark", "context": {"cluster": "benchmark", "user": "benchmark"}}],
    }
    return json.dumps(content)


def _wait_ready(kubectl: Path, kubeconfig: Path, log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    command = [str(kubectl), f"--kubeconfig={kubeconfig}", "--request-timeout=5s", "get", "--raw", "/readyz"]
    while subprocess.run(command, capture_output=True, check=False).returncode:
        if time.monotonic() > deadline:
            words = log.read_text(errors="replace")[-2000:]
            raise NotStartedError(f"the API server did not come up within {_PATIENCE:.0f} s: {words}")
        time.sleep(0.2)


def _quietly(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def log_lines(log: Path, words: str) -> Sequence[str]:
    """Return a log's lines that hold some words."""
    return [line for line in log.read_text(errors="replace").splitlines() if words in line]
