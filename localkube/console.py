"""Progress on the terminal: what is done, and how long each step took."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

_START = time.monotonic()
_LOCK = threading.Lock()


def say(text: str) -> None:
    """Print one line with the seconds since the command began; to stderr, since stdout is for results."""
    with _LOCK:
        print(f"[{time.monotonic() - _START:6.1f}s] {text}", file=sys.stderr, flush=True)


@contextmanager
def step(name: str, *, announce: bool = False) -> Iterator[None]:
    """Time a step. Long ones are announced, so that nobody looks at a silent screen."""
    begin = time.monotonic()
    if announce:
        say(f"{name} ...")
    yield
    say(f"{name}: done in {time.monotonic() - begin:.1f} s")


def together(*tasks: Callable[[], object]) -> None:
    """Run tasks at the same time, and raise the first failure once all have ended."""
    with ThreadPoolExecutor(max_workers=max(1, len(tasks))) as pool:
        futures = [pool.submit(task) for task in tasks]
        wait(futures)
    for future in futures:
        future.result()
