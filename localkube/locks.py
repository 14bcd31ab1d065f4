"""Locks between processes. The kernel drops them when their holder dies, however it dies."""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localkube.console import say

_FLOCK = "hhqqi4x"


@contextmanager
def exclusive(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file; when somebody else holds it, say so and wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another command that is {what}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def hold_for_life(path: Path) -> bool:
    """Take a record lock that only this process's end releases; False when another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    return True


def holder(path: Path) -> int | None:
    """Return the process that holds a record lock.

    Unlike a pid in a file this cannot be out of date: not after a crash, not after a reboot, and not when the
    number has gone to another process.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        query = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, query))
    finally:
        os.close(descriptor)
    return int(pid) if kind != fcntl.F_UNLCK else None
