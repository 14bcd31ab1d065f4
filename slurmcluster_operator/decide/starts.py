"""Starts that fail: when to give one up, and when to try again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, cast

from slurmcluster_operator.api.values import seconds
from slurmcluster_operator.decide.pods import pod_problem, stays
from slurmcluster_operator.decide.seats import FAILED, Seat, Seats, unsettled
from slurmcluster_operator.manifests import slurmd
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import GiveUp, PowerDown, Resume
from slurmcluster_operator.model.holds import Hold, Memory, Problem
from slurmcluster_operator.model.observed import Observed

RESUME_TIMEOUT: Final = "ResumeTimeout reached"
"""Slurm's own reason for a node that did not come up in time."""

LOST: Final = "Not responding"
"""Slurm's own reason for a node whose slurmd no longer answers."""

_PATIENCE: Final[Mapping[Problem, timedelta]] = {
    "Refused": timedelta(seconds=10),
    "ConfigMissing": timedelta(seconds=20),
    "ImageNotPullable": timedelta(seconds=25),
    "Unschedulable": timedelta(seconds=12),
    "NoMachine": timedelta(seconds=12),
    "Crashing": timedelta(seconds=60),
}
"""How long a start may show a problem: a registry or scheduler may have a bad moment. Others: the startTimeout."""

_AFTER_DEADLINE: Final = timedelta(seconds=5)
"""How much longer than a reclaim a start is waited for: the node that does not become empty goes back first, with the
reason. It was claimed a moment after its seat began to wait, and would only be no longer needed otherwise."""

_MAKES_WAY: Final = timedelta(seconds=30)
"""How long the pod that was there before may take to go once its node is powered up again. It stays while its kubelet
is away, or while a step is left in it that slurmctld has forgotten: it takes that step for one of the job it waits to
start there, and ends it only when that job goes elsewhere."""

_POOL_WIDE: Final = frozenset({"Refused", "ConfigMissing", "ImageNotPullable"})
"""Problems that every seat of the pool would meet."""

_FIRST_PAUSE: Final = timedelta(seconds=30)
_LONGEST_PAUSE: Final = timedelta(minutes=10)
_FORGET_AFTER: Final = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class Failure:
    """One start that is given up."""

    seat: Seat
    problem: Problem
    words: str


def start_problem(seat: Seat, memory: Memory) -> tuple[Problem, str] | None:
    """Say what keeps a seat that is to come up from it; None while it only takes its time."""
    if seat.pod is None:
        refused, homeless = memory.refused.get(seat.name), memory.homeless.get(seat.name)
        if refused:
            return "Refused", refused[0]
        return ("NoMachine", homeless[0]) if homeless else None
    if seat.slurm is not None and seat.slurm.has("INVALID_REG"):
        return "Invalid", f"its slurmd reports other resources than machine says: {seat.slurm.reason}"
    if seat.pod.ready or seat.pod.deleting:
        return None
    word, sentence = pod_problem(seat.pod)
    return None if word == "Starting" else (cast("Problem", word), sentence)


def failures(seats: Seats, memory: Memory, now: datetime) -> Iterator[Failure]:
    """Yield the starts whose time is up, and those that slurmctld itself has given up or refused."""
    for seat in (one for one in unsettled(seats) if one.slurm is not None):
        if seat.slurm and seat.slurm.has("DOWN") and seat.slurm.reason.startswith(RESUME_TIMEOUT):
            # Where our own reason takes the place of Slurm's, each sight of Slurm's is another failure.
            if not seat.permanent or seat.name not in memory.holds:
                yield Failure(seat, "NotRegistered", f"no slurmd registered within {seat.pool.start_timeout}")
        elif (seat.asked_for or seat.refused) and (found := start_problem(seat, memory)):
            problem, words = found
            failed = seat.pod is not None and seat.pod.phase == "Failed"
            if failed or seat.refused or now - _since(seat, memory, now) > _patience(seat, problem):
                yield Failure(seat, problem, words)
        elif seat.asked_for and (words := stays(seat.pod, now, _MAKES_WAY)):
            yield Failure(seat, "Terminating", words)


def give_ups(failed: Iterable[Failure], observed: Observed) -> Iterator[GiveUp]:
    """Yield what sends the jobs of failed starts to other nodes, and says on the node why.

    An interactive job would end with its node: it waits until slurmctld's own time is up. A node that slurmctld itself
    has given up is DOWN and powered down, and stays so: only its reason changes. One of the minimum keeps Slurm's
    reason: ours would have its pod replaced, and its slurmd may still come.
    """
    for failure in failed:
        timed_out = failure.problem == "NotRegistered" and not failure.seat.permanent
        started = failure.seat.asked_for or failure.seat.refused or timed_out
        if started and not observed.fragile(failure.seat.name):
            yield GiveUp((failure.seat.name,), f"{FAILED}: {failure.words}")


def recoveries(
    seats: Seats, holds: Mapping[str, Hold], machines: Mapping[str, Sequence[str]], now: datetime
) -> Iterator[PowerDown | Resume]:
    """Yield what brings back nodes that were set DOWN because they could not be started.

    They are powered down first: RESUME on one that is being powered up would have it powered up for nobody. Where
    ``machines`` (for each pool, those on which a seat would find its place) has none, slurmctld would only give it a
    job that has to be taken away again.
    """
    failed = [seat for seat in unsettled(seats) if _failed(seat)]
    unfinished = tuple(
        seat.name for seat in failed if seat.slurm and not seat.slurm.has("POWERED_DOWN", "POWERING_DOWN")
    )
    if unfinished:
        yield PowerDown(unfinished, "they could not be started")
    ready = [seat for seat in failed if seat.pod is None and seat.slurm and seat.slurm.has("POWERED_DOWN")]
    placeable = [seat for seat in ready if seat.pool.capacity == "Autoscaled" or machines[seat.pool.name]]
    if chosen := tuple(seat.name for seat in placeable if held(seat, holds, now) is None):
        yield Resume(chosen)


def _failed(seat: Seat) -> bool:
    node = seat.slurm
    if node is None or not node.has("DOWN") or node.has("POWER_DOWN"):
        return False
    # A pod that is gone without a word; one of the minimum comes back by itself.
    lost = seat.pod is None and not seat.permanent and node.reason.startswith(LOST)
    return lost or node.reason.startswith((names.DRAIN_PREFIX, RESUME_TIMEOUT))


def update_holds(
    cluster: Cluster, seats: Seats, failed: tuple[Failure, ...], holds: Mapping[str, Hold], now: datetime
) -> dict[str, Hold]:
    """Return the holds after this look: those that are over dropped, new failures added."""
    templates = {pool.name: slurmd.template_hash(cluster, pool) for pool in cluster.pools} if holds or failed else {}
    kept = {name: hold for name, hold in holds.items() if not _over(name, hold, seats, templates, now)}
    for failure in failed:
        pool = failure.seat.pool.name
        wide = failure.problem in _POOL_WIDE
        name = pool if wide else failure.seat.name
        before = kept.get(name)
        if before is not None and now < before.until:
            continue  # the failures of one attempt count once
        count = before.failures + 1 if before else 1
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (count - 1))
        kept[name] = Hold(failure.problem, failure.words, count, now + pause, templates[pool], wide)
    return kept


def held(seat: Seat, holds: Mapping[str, Hold], now: datetime) -> Hold | None:
    """Return what keeps a seat from being tried now."""
    found = (holds.get(seat.pool.name), holds.get(seat.name))
    return next((hold for hold in found if hold is not None and now < hold.until), None)


def remember(memory: Memory, refused: Mapping[str, str], now: datetime) -> Memory:
    """Return the memory with the pods that could not be created in this look; one that could be is forgotten."""
    return replace(memory, refused={node: (words, _first(memory, node, now)) for node, words in refused.items()})


def update_homeless(
    waiting: Mapping[str, str], before: Mapping[str, tuple[str, datetime]], now: datetime
) -> dict[str, tuple[str, datetime]]:
    """Return the seats that wait for a machine, each with the reason and since when."""
    return {seat: (words, before[seat][1] if seat in before else now) for seat, words in waiting.items()}


def _first(memory: Memory, node: str, now: datetime) -> datetime:
    before = memory.refused.get(node)
    return before[1] if before else now


def _since(seat: Seat, memory: Memory, now: datetime) -> datetime:
    if seat.pod is not None:
        return seat.pod.created
    found = memory.refused.get(seat.name) or memory.homeless.get(seat.name)
    return found[1] if found else now


def _patience(seat: Seat, problem: Problem) -> timedelta:
    whole = timedelta(seconds=seconds(seat.pool.start_timeout))
    if problem == "Unschedulable" and seat.pool.capacity == "Autoscaled":
        return whole
    if problem == "NoMachine" and seat.pool.reclaim.policy == "Evict":
        return min(whole, timedelta(seconds=seconds(seat.pool.reclaim.deadline)) + _AFTER_DEADLINE)
    return min(whole, _PATIENCE.get(problem, whole))


def _over(name: str, hold: Hold, seats: Seats, templates: Mapping[str, str], now: datetime) -> bool:
    """Whether a hold is to be forgotten: another template, a start that worked, or so long ago that it says nothing."""
    if now > hold.until + _FORGET_AFTER:
        return True
    pool = name if hold.pool_wide else name.rpartition("-")[0]
    if templates.get(pool) != hold.template:
        return True
    places = seats[pool] if hold.pool_wide else [seat for seat in seats[pool] if seat.name == name]
    return any(seat.up and seat.pod is not None and seat.pod.created >= hold.until for seat in places)
