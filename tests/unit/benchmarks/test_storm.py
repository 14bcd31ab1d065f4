from __future__ import annotations

import threading
from collections import Counter

from benchmarks.storm import Probe, asked, registered, row


def test_a_probe_asks_until_it_is_stopped_and_notes_failures() -> None:
    enough = threading.Event()
    answers = iter(["fine", ConnectionError("away")])

    def ask() -> None:
        answer = next(answers, None)
        if answer is None:
            enough.set()
        elif isinstance(answer, Exception):
            raise answer

    probe = Probe("question", ask, every=0.001)
    with asked([probe]):
        assert enough.wait(5)
    assert len(probe.taken) >= 3
    assert probe.failed == ["away"]
    assert row(probe)[2:] == ("1 without an answer: away", "NO")


def test_ninety_five_of_a_hundred_count() -> None:
    probe = Probe("question", lambda: None, every=1, taken=[*([10.0] * 97), 5000.0, 5000.0])
    assert row(probe)[1:] == ("1000 ms", "10.0 ms", "yes")
    probe.taken += [5000.0] * 10
    assert row(probe)[3] == "NO"


def test_only_nodes_that_slurmctld_hears_of_are_registered() -> None:
    states = Counter({"idle": 3, "allocated": 2, "idle~": 100, "allocated#": 7, "mixed*": 5, "completing": 1})
    assert registered(states) == 6
