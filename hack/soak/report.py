"""What a soak comes to: figures, a table of them, and whether anything was wrong. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from hack.console import seconds, table
from hack.soak.history import Tenure
from hack.soak.work import Job


@dataclass(frozen=True)
class Enough:
    """What must have happened, or nothing was shown."""

    trips: int = 1
    """Round trips."""
    troubles: Sequence[str] = ()
    """Kinds of trouble, each at least once."""


@dataclass
class Result:
    """All that is known when the soak has come to its end."""

    jobs: Sequence[Job] = ()
    findings: Mapping[str, Any] = field(default_factory=dict)
    """The observer's last report."""
    troubles: Mapping[str, int] = field(default_factory=dict)
    problems: Sequence[str] = ()
    """What kept the soak from being one: a part that did not come back, an observer that has missed something."""
    enough: Enough = Enough()

    @property
    def trips(self) -> int:
        """All round trips."""
        return sum(self.findings.get("round_trips", {}).values())

    @property
    def lost(self) -> list[Job]:
        """The jobs that Slurm neither has nor completed."""
        return [job for job in self.jobs if not job.completed and not job.waits]

    @property
    def unfinished(self) -> list[Job]:
        """The jobs that still wait or run, though there was time."""
        return [job for job in self.jobs if not job.completed and job.waits]


def failures(result: Result) -> Iterator[str]:
    """Yield what was wrong, each in a sentence."""
    for claim in result.findings.get("double_claims", ()):
        yield f"double claim on {claim['node']}: {claim['words']}"
    for job in result.lost:
        yield f"job {job.number} ({job.name}, {job.nodes} nodes of {job.pool}) is lost: {_fate(job)}"
    for job in result.unfinished:
        yield f"job {job.number} ({job.name}, {job.nodes} nodes of {job.pool}) has not ended: {_fate(job)}"
    if result.trips < result.enough.trips:
        needed = result.enough.trips
        yield f"only {result.trips} round trips of nodes from Slurm to Kubernetes and back; {needed} are needed"
    for kind in result.enough.troubles:
        if not result.troubles.get(kind):
            yield f"there was no {kind}"
    yield from result.problems


def _fate(job: Job) -> str:
    notes = "; ".join(f"{what} on {host}" for what, host, _ in job.notes)
    return f"Slurm says {job.state or 'nothing'} of it; it wrote: {notes or 'nothing'}"


def waits(jobs: Sequence[Job], tenures: Sequence[Tenure]) -> list[float]:
    """Return the seconds from sbatch to the job's start, for jobs that ran on a node taken from Kubernetes for them."""
    found = []
    for job in jobs:
        starts = {host: at for what, host, at in reversed(job.notes) if what == "start"}
        if any(_taken_for(job, host, at, one) for host, at in starts.items() for one in tenures):
            found.append(min(starts.values()) - job.submitted)
    return found


def _taken_for(job: Job, host: str, started: float, tenure: Tenure) -> bool:
    freed = tenure.freed or started
    return tenure.reclaimed and host in tenure.seats and job.submitted < tenure.claimed < started <= freed


def returns(jobs: Sequence[Job], tenures: Sequence[Tenure]) -> list[float]:
    """Return the seconds from the end of the last job on a node to its return."""
    ends = [(host, at) for job in jobs for what, host, at in job.notes if what == "end"]
    found = []
    for tenure in tenures:
        here = [at for host, at in ends if host in tenure.seats and tenure.claimed < at < (tenure.freed or 0.0)]
        if here and tenure.freed is not None:
            found.append(tenure.freed - max(here))
    return found


def spread(values: Sequence[float]) -> str:
    """Write durations for people."""
    if not values:
        return "none"
    return f"median {seconds(median(values))}, longest {seconds(max(values))} ({len(values)})"


def summary(result: Result) -> str:
    """Return the table."""
    tenures = [Tenure(**one) for one in result.findings.get("tenures", ())]
    pods = result.findings.get("pods", {})
    states = [
        ("submitted", len(result.jobs)),
        ("completed", sum(job.completed for job in result.jobs)),
        ("started more than once", sum(job.runs > 1 for job in result.jobs)),
        ("not ended", len(result.unfinished)),
        ("LOST", len(result.lost)),
    ]
    rows = [
        *((f"Slurm jobs {what}", str(count)) for what, count in states),
        *((f"Kubernetes Jobs' pods that {_WORDS[what]}", str(count)) for what, count in pods.items()),
        *((f"round trips of {node}", str(count)) for node, count in result.findings.get("round_trips", {}).items()),
        ("claim of a node -> slurmd ready", spread([one.served - one.claimed for one in tenures if one.served])),
        ("sbatch -> running on nodes taken from Kubernetes", spread(waits(result.jobs, tenures))),
        ("end of the last job -> node returned", spread(returns(result.jobs, tenures))),
        *((f"trouble: {kind}", str(count)) for kind, count in sorted(result.troubles.items())),
        ("changes watched", str(result.findings.get("sightings", 0))),
        ("DOUBLE CLAIMS", str(len(result.findings.get("double_claims", ())))),
    ]
    return table([("what", "measured"), *rows])


_WORDS = {"ran": "ran", "completed": "completed", "evicted": "were evicted", "failed": "failed or were deleted"}
