"""``wake-operator``: one POST, in the background, and silence when there is nobody to tell."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from images.build import ROOT

SCRIPT = ROOT / "images/slurm/rootfs/usr/local/bin/wake-operator"


class Operator:
    """Keeps what it is sent and answers 204."""

    def __init__(self, delay: float = 0) -> None:
        self.calls: list[bytes] = []
        self.delay = delay
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                request = b""
                while not request.endswith(b"\r\n\r\n") and (more := connection.recv(4096)):
                    request += more
                self.calls.append(request)
                time.sleep(self.delay)
                connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")


@pytest.fixture
def operator() -> Iterator[Operator]:
    operator = Operator()
    yield operator
    operator.socket.close()


def wake(folder: Path, url: str | None, *arguments: str) -> float:
    """Run it and return how long it took."""
    if url is not None:
        (folder / "wake-url").write_text(url)
    env = {"PATH": os.environ["PATH"], "WAKE_URL_FILE": str(folder / "wake-url"), "WAKE_LOCKS": str(folder)}
    start = time.monotonic()
    assert subprocess.run([str(SCRIPT), *arguments], env=env, check=False, timeout=30).returncode == 0
    return time.monotonic() - start


def settled(operator: Operator, expected: int, within: float = 30) -> int:
    """Return how many calls there are once no more come, after at least as many as are expected."""
    end = time.monotonic() + within
    while len(operator.calls) < expected and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.4)
    return len(operator.calls)


def test_it_posts_to_the_url(tmp_path: Path, operator: Operator) -> None:
    wake(tmp_path, f"http://127.0.0.1:{operator.port}/wake/lab/demo\n", "n-[0-3]")
    assert settled(operator, 1) == 1
    request = operator.calls[0].decode()
    assert request.startswith(f"POST /wake/lab/demo HTTP/1.1\r\nHost: 127.0.0.1:{operator.port}\r\n")
    assert request.endswith("\r\n\r\n")


def test_calls_that_wait_their_turn_are_told_as_one(tmp_path: Path, operator: Operator) -> None:
    with (tmp_path / "wake-turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        for _ in range(10):
            wake(tmp_path, f"http://127.0.0.1:{operator.port}/")
        assert settled(operator, 0) == 0
    assert settled(operator, 1) == 1
    # One call is best effort: it gives up after a second, which a busy machine may need.
    for _ in range(5):
        wake(tmp_path, f"http://127.0.0.1:{operator.port}/")
        if settled(operator, 2, within=5) > 1:
            break
    assert len(operator.calls) > 1


@pytest.mark.parametrize("url", [None, "", "\n", "nonsense", "https://h:1/"])
def test_without_a_url_nothing_happens(tmp_path: Path, url: str | None) -> None:
    wake(tmp_path, url)
    assert not (tmp_path / "wake-turn").exists()


def test_it_never_blocks(tmp_path: Path) -> None:
    slow = Operator(delay=30)
    assert wake(tmp_path, f"http://127.0.0.1:{slow.port}/") < 10
    slow.socket.close()
    assert wake(tmp_path, f"http://127.0.0.1:{slow.port}/") < 10
