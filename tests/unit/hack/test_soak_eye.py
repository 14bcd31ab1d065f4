"""The soak's observer is watched itself: one that has ended has not seen "no double claims"."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest

from hack.soak.eye import Eye
from hack.soak.observer import BlindError, Observer
from hack.soak.sightings import pod_seen

LASTING = """\
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('{"sightings": 2}')))
print('{"sightings": 1}')
time.sleep(60)
"""
DYING = """\
import sys
print('{"sightings": 1}')
sys.exit(3)
"""


@contextmanager
def eye_on(program: str) -> Iterator[Eye]:
    with subprocess.Popen([sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, text=True) as process:
        eye = Eye(process)
        while not eye.findings:
            time.sleep(0.01)
        yield eye


def test_the_last_report_of_an_observer_that_was_told_to_end_counts() -> None:
    with eye_on(LASTING) as eye:
        assert eye.close() == {"sightings": 2}
        assert not eye.is_blind


def test_an_observer_that_dies_is_noticed() -> None:
    with eye_on(DYING) as eye:
        while not eye.is_blind:
            time.sleep(0.01)
        assert eye.close() == {"sightings": 1, "blind": "its process has ended with status 3"}


def test_a_watch_that_ends_in_the_middle_of_a_line_blinds_the_observer(tmp_path: Path) -> None:
    cut = tmp_path / "watch"
    cut.write_text('{"type": "ADDED", "obj')
    observer = Observer("team.demo", StringIO())
    watch = subprocess.Popen(["cat", str(cut)], stdout=subprocess.PIPE, text=True)
    with watch, pytest.raises(ValueError, match="Unterminated"):
        observer._follow("/api/v1/pods", pod_seen, watch)
    with pytest.raises(BlindError, match="the watch of /api/v1/pods has ended"):
        observer.findings(0.0)
