"""How slurmctld answers while five hundred slurmd start at once.

A real slurmctld with the operator's own configuration and a real slurmd for each node, all on this machine. Elsewhere
each slurmd has a machine of its own, so here they step back before slurmctld (``--nice 19``); with ``--nice 0`` they
compete with it.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.machines import Machines, inside, unpack, writable
from benchmarks.start import CannotMeasureError
from benchmarks.timeline import Spread, verdict
from hack import local
from hack.console import Steps, say, table
from hack.local import BuildFailedError
from hack.together import end_on_terminate
from slurmcluster_operator.api.spec import SlurmClusterSpec
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.manifests.config import slurm_files
from slurmcluster_operator.model import names
from slurmcluster_operator.model.names import Names

NODES: Final = 500
NICE: Final = 19
ANSWER_GOAL: Final = 1000.0
"""Milliseconds within which 95 of 100 questions are answered."""

_SLURM: Final = 64030
_RESTD: Final = 64031
_ALICE: Final = 2001
_PATIENCE: Final = 240.0
_SOCKET: Final = "run/slurmctld/rest.sock"


@dataclass
class Probe:
    """One question, asked again and again; milliseconds until each answer."""

    what: str
    ask: Callable[[], object]
    every: float
    taken: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def run(self, stop: threading.Event) -> None:
        """Ask until told to stop."""
        while not stop.is_set():
            start = time.monotonic()
            try:
                self.ask()
            except Exception as error:  # noqa: BLE001 - any failure is a question without an answer
                self.failed.append(str(error))
            self.taken.append((time.monotonic() - start) * 1000)
            stop.wait(self.every - (time.monotonic() - start))

    @property
    def p95(self) -> float:
        """The time within which 95 of 100 were answered."""
        return statistics.quantiles(self.taken, n=20, method="inclusive")[-1]


@contextmanager
def asked(probes: Sequence[Probe]) -> Iterator[None]:
    """Ask everything for as long as the block lasts."""
    stop = threading.Event()
    threads = [threading.Thread(target=probe.run, args=(stop,)) for probe in probes]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


class Slurm:
    """slurmctld and slurmrestd on machine 0, and a slurmd on each of the others."""

    def __init__(self, machines: Machines, controller: Path, worker: Path, folder: Path, extra: dict[str, str]) -> None:
        self._machines = machines
        self._root, self._worker, self._folder = controller, worker, folder
        self._cluster = _cluster(machines.count - 1, extra)
        service = self._cluster.names.part(names.CONTROLLER)
        hosts = f"127.0.0.1 localhost\n{machines.address(0)} {service} {self._cluster.names.controller_pod}\n"
        files = slurm_files(self._cluster, "Pod")
        for root, owner in ((controller, _SLURM), (worker, 0)):
            (root / "etc/hosts").write_text(hosts)
            _write(root / "var/lib/extrausers/passwd", f"alice:x:{_ALICE}:{_ALICE}::/tmp:/bin/bash\n", 0)
            _write(root / "var/lib/extrausers/group", f"alice:x:{_ALICE}:\n", 0)
            for name, text in files.items():
                _write(root / "etc/slurm" / name, text, owner)
        self._keys()
        self._start_controller()
        self._token = self.run(_SLURM, "scontrol", "token", "username=slurm", "lifespan=3600").strip().split("=", 1)[1]

    def run(self, user: int, *command: str) -> str:
        """Run a Slurm command on the controller's machine."""
        return inside(self._controller, self._root, user, *command)

    def ping(self) -> None:
        """Ask slurmctld through slurmrestd."""
        connection = _Local(self._root / _SOCKET)
        headers = {"X-SLURM-USER-NAME": "slurm", "X-SLURM-USER-TOKEN": self._token}
        with contextlib.closing(connection):
            connection.request("GET", "/slurm/v0.0.45/ping/", headers=headers)
            (ping,) = json.load(connection.getresponse())["pings"]
        if not ping["responding"]:
            raise CannotMeasureError(f"slurmctld does not respond: {ping}")

    def storm(self, nice: int) -> None:
        """Start a slurmd for each node at once."""
        empty = ("run", "tmp", "var/spool/slurmd")
        for number in range(1, self._machines.count):
            command = ["nice", "-n", str(nice), "slurmd", "-D", "-b", "-N", f"n-{number - 1}"]
            log = self._folder / f"slurmd-{number - 1}.log"
            self._machines.start(number, self._worker, f"n-{number - 1}", command, log=log, empty=empty)

    def states(self) -> Counter[str]:
        """Count the nodes in each state."""
        lines = self.run(_SLURM, "sinfo", "-h", "-o", "%T %D").split("\n")
        found: Counter[str] = Counter()
        for line in filter(None, lines):
            state, number = line.split()
            found[state] += int(number)
        return found

    def _keys(self) -> None:
        shared = secrets.token_bytes(1024)
        _write(self._root / "etc/slurm/jwt.key", secrets.token_bytes(32), _SLURM)
        _write(self._root / "etc/slurm/slurm.key", shared, _SLURM)
        _write(self._worker / "etc/slurm/slurm.key", shared, 0)

    def _start_controller(self) -> None:
        name, log = self._cluster.names.controller_pod, self._folder / "controller.log"
        start = self._machines.start
        self._controller = start(0, self._root, name, ["slurmctld-start"], log=log, user=_SLURM)
        command = ["slurmrestd", "-a", "rest_auth/jwt", "-s", "slurmctld", f"unix:/{_SOCKET}"]
        env = {"SLURM_JWT": "daemon", "SLURMRESTD_SECURITY": "disable_unshare_sysv,disable_unshare_files"}
        try:
            _until("slurmctld answers", lambda: "Slurmctld(primary)" in self.run(_SLURM, "scontrol", "ping"))
        except CannotMeasureError as error:
            raise CannotMeasureError(f"{error}: {log.read_text()[-2000:]}") from error
        (self._root / "run/slurmctld").chmod(0o777)  # slurmrestd is another user and listens there
        start(0, self._root, name, command, log=self._folder / "slurmrestd.log", user=_RESTD, env=env)
        _until("slurmrestd listens", (self._root / _SOCKET).exists)


class _Local(http.client.HTTPConnection):
    """HTTP over a socket in the file system: the machines' network is another one."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _cluster(nodes: int, extra: dict[str, str]) -> Cluster:
    machine = {"cpus": 2, "memory": "2Gi"}
    spec = {
        "accounting": {"enabled": False},
        "pools": [{"name": "n", "nodes": {"min": 0, "max": nodes}, "machine": machine, "isolation": "Pod"}],
        "partitions": [{"name": "all", "pools": ["n"], "default": True}],
        "slurmConf": extra,
    }
    return Cluster(Names("storm", "demo"), "uid", SlurmClusterSpec.model_validate(spec))


def _write(path: Path, content: str | bytes, owner: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(0o600 if path.suffix == ".key" else 0o644)
    shutil.chown(path, owner, owner)


def _until(what: str, probe: Callable[[], bool], seconds: float = 30) -> float:
    start = time.monotonic()
    while True:
        with contextlib.suppress(subprocess.CalledProcessError, IndexError):
            if probe():
                return time.monotonic() - start
        if time.monotonic() - start > seconds:
            raise CannotMeasureError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.1)


def measure(nodes: int, nice: int, extra: dict[str, str], steps: Steps) -> list[tuple[str, str, str, str]]:
    """Let one job ask for every node; return rows for a table of results."""
    machines = Machines(nodes + 1)
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        with steps.step("Unpack the images"):
            for name in ("slurm", "slurmd"):
                unpack(local.archive(name), folder / "images" / name)
        controller, worker = (
            stack.enter_context(writable(folder / "images" / name, folder / name)) for name in ("slurm", "slurmd")
        )
        with steps.step(f"Connect {nodes + 1} machines, start slurmctld"):
            stack.enter_context(machines.connected())
            slurm = Slurm(machines, controller, worker, folder, extra)
        return _storm(slurm, nodes, nice, steps)


def _storm(slurm: Slurm, nodes: int, nice: int, steps: Steps) -> list[tuple[str, str, str, str]]:
    submit = ("sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null")
    job = slurm.run(_ALICE, *submit, f"--nodes={nodes}", "--wrap=true").strip()
    _until("slurmctld powers the nodes up", lambda: slurm.states()["allocated#"] + slurm.states()["mixed#"] == nodes)
    probes = [
        Probe("slurmrestd: ping", slurm.ping, 0.1),
        Probe("squeue", lambda: slurm.run(_ALICE, "squeue", "-h"), 0.3),
        Probe("sbatch", lambda: slurm.run(_ALICE, *submit, "--hold", "--wrap=true"), 0.5),
    ]
    with steps.step(f"Start {nodes} slurmd at once"), asked(probes):
        slurm.storm(nice)
        up = _until("every node registers", lambda: registered(slurm.states()) == nodes, _PATIENCE)
        ended = up + _until("the job ends", lambda: not slurm.run(_ALICE, "squeue", "-h", "-j", job), _PATIENCE)
    return [
        *(row(probe) for probe in probes),
        verdict(f"{nodes} slurmd started -> all registered", None, Spread((up,)), "s"),
        verdict(f"{nodes} slurmd started -> the job on all of them has ended", None, Spread((ended,)), "s"),
    ]


def registered(states: Mapping[str, int]) -> int:
    """Count the nodes whose slurmd has registered and answers: sinfo marks the others (``idle~``, ``mixed#``…)."""
    return sum(count for state, count in states.items() if state.isalpha())


def row(probe: Probe) -> tuple[str, str, str, str]:
    """Return a row for a table of results."""
    what = f"{probe.what}: 95 of 100 answered within ({len(probe.taken)} asked, at most {max(probe.taken):.0f} ms)"
    if probe.failed:
        return what, f"{ANSWER_GOAL:g} ms", f"{len(probe.failed)} without an answer: {probe.failed[0]}", "NO"
    return verdict(what, ANSWER_GOAL, Spread((probe.p95,)), "ms")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storm", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--nice", type=int, default=NICE, help="how far the slurmd step back")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a further line of slurm.conf")
    options = parser.parse_args(arguments)
    end_on_terminate()
    try:
        local.build()
        extra = dict(line.split("=", 1) for line in options.set)
        rows = measure(options.nodes, options.nice, extra, Steps())
    except (BuildFailedError, CannotMeasureError) as error:
        say(f"\ncannot measure: {error}")
        return 1
    say("\n" + table([("what", "goal", "measured", "ok"), *rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
