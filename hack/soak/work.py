"""The Slurm jobs of the soak: submitted in bursts, each surely and only once, and what became of them."""

import random
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from hack.soak import scene
from hack.soak.stage import NoAnswerError, Stage

_SAVED_SECONDS: Final = 6.0
"""slurmctld saves its state every five seconds: what it was told before outlives that it is killed."""
_GIVE_UP_SECONDS: Final = 180.0
_BURST: Final = (1, 3)
_PAUSE: Final = (12.0, 36.0)
"""Between two bursts: some come while nodes are still there, others when they have gone back."""
_RUN: Final = (2.0, 12.0)


@dataclass
class Job:
    """One Slurm job."""

    name: str
    pool: str
    nodes: int
    submitted: float
    """When it was about to be submitted, in seconds since 1970."""
    number: str = ""
    state: str = ""
    notes: list[tuple[str, str, float]] = field(default_factory=list)
    """(start or end, Slurm node, time), as the job wrote them."""

    @property
    def completed(self) -> bool:
        """Whether Slurm says that it completed, and it came to its own end on each node of its last run.

        There may be an earlier run, on other nodes: a slurmctld that is killed can forget that a job has ended.
        """
        starts = sorted((at, host) for what, host, at in self.notes if what == "start")[-self.nodes :]
        ends = [(at, host) for what, host, at in self.notes if what == "end"]
        ended = {host for began, host in starts if any(host == where and began <= at for at, where in ends)}
        return self.state == "COMPLETED" and len(ended) == self.nodes

    @property
    def waits(self) -> bool:
        """Whether Slurm still has it."""
        return self.state in {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "REQUEUED"}

    @property
    def runs(self) -> int:
        """How often its script was started."""
        starts = [host for what, host, _ in self.notes if what == "start"]
        return max((starts.count(host) for host in starts), default=0)


class Submitter:
    """Submits jobs until it is told to stop."""

    def __init__(self, stage: Stage, seed: int, tag: str) -> None:
        self._stage = stage
        self._chance = random.Random(f"{seed} jobs")  # noqa: S311 - for a run that can be run again
        self._tag = tag
        self._calm = threading.Lock()
        self._last = 0.0
        self.jobs: list[Job] = []

    def run(self, stop: threading.Event) -> None:
        """Submit bursts of jobs to one pool, then to the other, with pauses."""
        pools: list[str] = []
        while not stop.is_set():
            pools = pools or self._chance.sample(sorted(scene.MODELS), len(scene.MODELS))
            pool = pools.pop()
            for _ in range(self._chance.randint(*_BURST)):
                if not stop.is_set():
                    self._submit(pool)
            stop.wait(self._chance.uniform(*_PAUSE))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep jobs from being submitted, once slurmctld has saved all that were."""
        with self._calm:
            time.sleep(max(0.0, self._last + _SAVED_SECONDS - time.monotonic()))
            yield

    def _submit(self, pool: str) -> None:
        nodes = self._chance.choice((1, 1, 2))
        name = f"{self._tag}-{len(self.jobs)}"
        script = scene.batch_script(name, pool, nodes, self._chance.uniform(*_RUN))
        with self._calm:
            job = Job(name, pool, nodes, time.time())
            job.number = self._surely_once(name, script)
            self._last = time.monotonic()
        self.jobs.append(job)

    def _surely_once(self, name: str, script: str) -> str:
        """Submit until slurmctld has it; before each further attempt see whether the one before has come through."""
        deadline = time.monotonic() + _GIVE_UP_SECONDS
        while True:
            try:
                return self._stage.as_user("sbatch --parsable", stdin=script).strip()
            except NoAnswerError:
                if time.monotonic() > deadline:
                    raise
            while True:
                time.sleep(1)
                try:
                    found = self._stage.slurm(f"squeue -h -t all -n {name} -o %A").split()
                    break
                except NoAnswerError:
                    if time.monotonic() > deadline:
                        raise
            if found:
                return found[0]


def look(stage: Stage, jobs: list[Job]) -> None:
    """Learn the states of jobs: from slurmctld, and of those that it has forgotten from the accounting records."""
    now = dict(_pairs(stage.slurm("squeue -h -t all -o '%j|%T'")))
    recorded = dict(_pairs(stage.slurm("sacct -a -X -n -P -S now-1day -o JobName,State")))
    for job in jobs:
        job.state = now.get(job.name) or recorded.get(job.name, "")


def read_notes(stage: Stage, jobs: list[Job], tag: str) -> None:
    """Read what the jobs wrote down."""
    notes = parse_notes(stage.as_user(f"grep -H . {tag}-*.log || true"))
    for job in jobs:
        job.notes = notes.get(job.name, [])


def parse_notes(lines: str) -> Mapping[str, list[tuple[str, str, float]]]:
    """Read lines ``NAME.log:start h100-0 1795287487.5``."""
    found: dict[str, list[tuple[str, str, float]]] = {}
    for line in re.finditer(r"^(\S+)\.log:(start|end) (\S+) ([0-9.]+)$", lines, re.MULTILINE):
        found.setdefault(line[1], []).append((line[2], line[3], float(line[4])))
    return found


def _pairs(lines: str) -> Iterator[tuple[str, str]]:
    for line in lines.splitlines():
        name, _, state = line.partition("|")
        yield name, state.split(" ")[0]
