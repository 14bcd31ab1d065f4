"""Beginnings and ends: whatever was there before, `up` makes a cluster, and `down` leaves nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from localkube.machines import KEPT_FOLDERS, PRIVATE_FOLDERS
from tests.localkube.support import Localkube, mounts_of, running, traces, wait_for

_POLL = """
import socket, sys, time
while True:
    try:
        socket.create_connection((sys.argv[1], 6443), timeout=2).close()
    except OSError:
        pass
    time.sleep(0.5)
"""


@contextmanager
def _client(address: str) -> Iterator[int]:
    """Run a program that asks the API server again and again."""
    with subprocess.Popen([sys.executable, "-c", _POLL, address]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def _mounts(cluster: Localkube) -> list[list[str]]:
    """Return the folders that its machines have to themselves; a folder that the host removes would take them along."""
    mounts = [mounts_of(pid) for pid in cluster.lives().values() if pid]
    return [[point for point in points if point in {*PRIVATE_FOLDERS, *KEPT_FOLDERS}] for points in mounts]


def _reaches(address: str) -> bool:
    return subprocess.run(["ip", "route", "get", address], check=False, capture_output=True).returncode == 0


def test_another_instance_comes_and_goes_unnoticed(cluster: Localkube, second: Localkube) -> None:
    web = running(cluster.kubectl, "web")
    before = cluster.lives(), web.get(), _mounts(cluster)
    second("up", "--workers", "0")
    assert len(second.kubectl.json("get", "nodes")["items"]) == 1
    second("down")
    assert not traces(second.state)
    assert (cluster.lives(), web.get(), _mounts(cluster)) == before
    cluster("status")


def test_down_leaves_nothing(cluster: Localkube) -> None:
    cluster("down")
    assert not traces(cluster.state)
    assert "done in" in cluster("down")


def test_down_goes_on_where_an_interrupted_one_was(localkube: Localkube) -> None:
    localkube("up", "--workers", "0")
    with localkube.start("down") as process:
        wait_for(lambda: not localkube.state.pki.exists(), process)
        process.kill()
    assert traces(localkube.state)
    localkube("down")
    assert not traces(localkube.state)


@pytest.mark.parametrize("point", ["control-plane", "worker-0"])
def test_up_after_a_half_finished_one(localkube: Localkube, point: str) -> None:
    localkube("down")
    with localkube.start("up", "--workers", "1") as process:
        wait_for(localkube.state.machine(point).status.exists, process)
        process.kill()
    assert "there is no cluster" in localkube.fails("status")
    localkube("up", "--workers", "1")
    localkube("status")
    assert None not in localkube.lives().values()


def test_no_packet_of_a_client_that_stays_leaves_the_machine(localkube: Localkube) -> None:
    localkube("up", "--workers", "1")
    address = localkube.instance.api_address
    with _client(address) as pid:
        said = localkube("down")
        assert f"(pid {pid}) still asks" in said
        assert set(traces(localkube.state)) == {"routes"}
        assert not _reaches(address)
    localkube("down")
    assert not traces(localkube.state)


def test_addresses_that_are_in_use_are_refused(localkube: Localkube) -> None:
    localkube("down")
    taken = localkube.instance.pods_of(200)
    subprocess.run(["ip", "route", "add", taken, "dev", "lo"], check=True)
    try:
        said = localkube.fails("up")
    finally:
        subprocess.run(["ip", "route", "delete", taken, "dev", "lo"], check=True)
    assert taken in said
    assert "LOCALKUBE_INSTANCE" in said
    assert not traces(localkube.state)
