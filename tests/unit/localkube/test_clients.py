"""`down` gives a cluster's addresses up only when nobody asks for them any more."""

import itertools

import pytest

from localkube import clients
from localkube.plan import Instance

INSTANCE = Instance(9)
ESTABLISHED = 'ESTAB 0 0 172.30.9.2:59078 172.30.9.1:6443 users:(("kubectl",pid=42,fd=7))\n'


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(clients, "time", clock)
    return clock


def _say(monkeypatch: pytest.MonkeyPatch, answers: "itertools.chain[str]") -> None:
    monkeypatch.setattr(clients, "run", lambda argv: next(answers))


def test_programs_are_named_once_and_connections_without_one_by_their_peer() -> None:
    orphan = "LAST-ACK 0 1 172.30.9.2:40000 10.253.11.2:22\n"
    both = 'ESTAB 0 0 172.30.9.2:1 172.30.9.200:22 users:(("ssh",pid=7,fd=3),("tmux",pid=8,fd=3))\n'
    assert clients.names(ESTABLISHED * 2 + orphan + both) == [
        "kubectl (pid 42)",
        "a connection to 10.253.11.2:22",
        "ssh (pid 7)",
        "tmux (pid 8)",
    ]


def test_a_quiet_cluster_is_left_at_once_when_clearing_away_took_long(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _say(monkeypatch, itertools.chain())
    assert clients.wait_for_end(INSTANCE, clock.now - 60) == []


def test_who_asks_again_and_again_is_waited_for_and_named(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = clock.now
    # Asks for a fifth of a second every two.
    _say(monkeypatch, itertools.chain.from_iterable(itertools.repeat([*[""] * 9, ESTABLISHED])))
    assert clients.wait_for_end(INSTANCE, begin) == ["kubectl (pid 42)"]
    assert 10 < clock.now - begin < 20


def test_who_ends_is_forgotten(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = clock.now
    _say(monkeypatch, itertools.chain([ESTABLISHED] * 5, itertools.repeat("")))
    assert clients.wait_for_end(INSTANCE, begin) == []
    assert 3 < clock.now - begin < 6
