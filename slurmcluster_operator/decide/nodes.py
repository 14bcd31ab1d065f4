"""Which slurmd pods to make, keep or take away, and what to tell slurmctld about their nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from slurmcluster_operator.api.pools import Pool
from slurmcluster_operator.decide.seats import Seat, Seats, complete, unsettled
from slurmcluster_operator.decide.sightings import sight
from slurmcluster_operator.manifests import slurmd
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import Action, CreatePod, DeletePod, Drain, PowerDown, PowerUp, Undrain
from slurmcluster_operator.model.holds import Memory, Sighting
from slurmcluster_operator.model.kube import Pod
from slurmcluster_operator.model.observed import Observed
from slurmcluster_operator.model.slurm import SlurmNode

REGISTRATION: Final = timedelta(seconds=20)
"""How long a slurmd that runs may take to register before its node's being powered down means anything.

A node of the pool's minimum begins as powered down and becomes usable when its slurmd registers."""

YOUNG: Final = timedelta(seconds=60)
"""How long a slurmctld that has just started proves nothing about nodes: it may have lost what it knew of jobs."""

DRIFT: Final = timedelta(minutes=1)
"""How far a kubelet's clock may be behind that of an operator which has just begun, and knows its stamps alone."""

REPLACEMENT: Final = timedelta(seconds=10)
"""How old a pod is at least that is replaced because it has ended: its kubelet may refuse the next one as well."""

DELETIONS: Final = 100
"""Running pods that one look may take away. The next look, half a second later, goes on with fresh answers."""

_SLURMS_OWN: Final = ("Low ", "gres/")
"""Begin the reasons with which slurmctld drains a node that reports less than slurm.conf says."""

_FORGOTTEN: Final = "Duplicate jobid"
"""slurmctld's reason for draining a node that already had steps of the job which it was to launch. slurmctld had been
killed, and did not know that the job had been started; the node is completing until those steps have ended."""

LEAVING: Final = f"{names.DRAIN_PREFIX} its pod is being removed"
MISMATCH: Final = f"{names.DRAIN_PREFIX} its slurmd reports other resources than machine says"
SHRINKING: Final = f"{names.DRAIN_PREFIX} beyond the size of its pool"


def drains(seats: Seats, closed: Mapping[str, str]) -> Iterator[Action]:
    """Yield what keeps jobs off nodes, or lets them on again. A person's drain is never lifted or changed."""
    drain: dict[str, list[str]] = {}
    lift: list[str] = []
    for places in seats.values():
        whole = complete(places)
        for seat in places:
            if seat.settled or seat.slurm is None or seat.slurm.has("DOWN"):
                continue  # nothing starts there anyhow, and why it is down must stay readable
            reason = _leaving(seat, seat.slurm) or closed.get(seat.name, "")
            if reason and (not seat.slurm.has("DRAIN") or _stale(seat, reason)):
                drain.setdefault(reason, []).append(seat.name)
            elif whole and not reason and _ours_to_lift(seat):
                lift.append(seat.name)
    for reason, nodes in drain.items():
        yield Drain(tuple(nodes), reason)
    if lift:
        yield Undrain(tuple(lift))


def headroom(seats: Seats, closed: Mapping[str, str]) -> Iterator[Action]:
    """Yield what brings up free nodes where fewer are ready, or on their way, than the pool's ``warm``."""
    for places in seats.values():
        pool = places[0].pool
        if not pool.nodes.warm or not complete(places):
            continue
        free = sum(_free(seat) for seat in places)
        ready = (seat.name for seat in places if seat.name not in closed and startable(seat))
        chosen = tuple(islice(ready, max(0, pool.nodes.warm - free)))
        if chosen:
            yield PowerUp(chosen, f"{pool.name} keeps {pool.nodes.warm} free nodes ready")


def startable(seat: Seat) -> bool:
    """Tell whether slurmctld would power a seat up for a job."""
    return (
        not seat.taken
        and not seat.beyond
        and seat.slurm is not None
        and seat.slurm.has("POWERED_DOWN")
        and not seat.slurm.has("DRAIN", "DOWN", "FAIL", "POWER_UP", "POWERING_DOWN", "MAINTENANCE", "RESERVED")
    )


def creations(
    cluster: Cluster, seats: Seats, content: str, requests: Mapping[str, str], machines: Mapping[str, str]
) -> Iterator[CreatePod]:
    """Yield the missing pods, the minimum first, within the start budgets.

    ``content`` is the configuration's hash; ``requests`` names the ProvisioningRequest of nodes that have one;
    ``machines`` the Kubernetes nodes that seats have been given. A pod without one is made only where an autoscaler
    may add a machine for it.
    """
    room = cluster.spec.max_starting - sum(seat.starting for seat in unsettled(seats))
    for places in seats.values():
        allowed = room if (limit := places[0].pool.nodes.max_starting) is None else min(room, limit - _starting(places))
        anywhere = places[0].pool.capacity == "Autoscaled"
        missing = (seat for seat in places if seat.due and (anywhere or seat.name in machines))
        for seat in islice(missing, max(0, allowed)):
            room -= 1
            machine, request = machines.get(seat.name, ""), requests.get(seat.name)
            yield CreatePod(seat.name, slurmd.pod(cluster, seat.pool, seat.name, content, machine, request))


def deletions(cluster: Cluster, observed: Observed, seats: Seats, memory: Memory, now: datetime) -> Iterator[DeletePod]:
    """Yield the pods that may go: ended or never begun, or proven by a fresh answer to have no job."""
    templates = _Templates(cluster)
    proofs = not _young(memory.slurmctld, now)
    allowed = DELETIONS
    for seat in unsettled(seats):
        pod = seat.pod
        if pod is None or pod.deleting:
            continue
        if why := _dead(seat, pod, templates, now):
            yield DeletePod(pod.name, pod.uid, why)
        elif proofs and allowed and (why := _idle(seat, pod, templates, observed, now)):
            allowed -= 1
            yield DeletePod(pod.name, pod.uid, why)


def vanished(seats: Seats) -> Iterator[Action]:
    """Yield what powers down nodes that slurmctld believes to be up while their pod is gone and no job is there."""
    gone = tuple(
        seat.name
        for seat in unsettled(seats)
        if not seat.taken
        and seat.slurm is not None
        and not seat.slurm.off
        and not seat.slurm.has("DOWN", "POWER_DOWN")
        and not seat.slurm.drained_by_others
    )
    if gone:
        yield PowerDown(gone, "no pod is there any more")


def unanswered(seats: Seats) -> Iterator[PowerDown]:
    """Yield what repairs nodes that Slurm 24.11 leaves unusable once their drain is lifted: off, and yet missed."""
    stuck = tuple(
        seat.name
        for seat in unsettled(seats)
        if seat.pod is None
        and seat.slurm is not None
        and seat.slurm.state >= {"IDLE", "NOT_RESPONDING", "POWERED_DOWN"}
        and not seat.slurm.has("DRAIN", "DOWN", "POWER_UP", "POWERING_UP", "POWER_DOWN", "POWERING_DOWN", "MAINTENANCE")
    )
    if stuck:
        yield PowerDown(stuck, "slurmctld waits for a slurmd there although it is powered down")


def replace_broken(observed: Observed) -> Iterator[DeletePod]:
    """Replace pods of StatefulSets that never worked and are out of date.

    A StatefulSet does not go on from a pod that never became ready, not even to the template that would mend it.
    """
    for pod in observed.pods:
        workload = observed.workloads.get(pod.component)
        if workload is None or pod.deleting or pod.ready or not workload.revision or not pod.revision:
            continue
        if pod.revision != workload.revision and not pod.ever_started:
            yield DeletePod(pod.name, pod.uid, "it never started, and its template has changed since")


class _Templates:
    """The pools' template hashes, each made when first asked for: most looks need none."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, str] = {}

    def outdated(self, pool: Pool, pod: Pod) -> bool:
        """Tell whether a pod made now would come out differently."""
        if pool.name not in self._known:
            self._known[pool.name] = slurmd.template_hash(self._cluster, pool)
        return pod.annotations.get(names.TEMPLATE_ANNOTATION) != self._known[pool.name]


def _leaving(seat: Seat, node: SlurmNode) -> str:
    """Say why no further job should start there; empty if jobs are welcome.

    A node that is being started is left alone while its pod is there: a drain would send its job back at once.
    """
    if node.starting and seat.pod is not None:
        return ""
    if seat.beyond:
        return SHRINKING
    if seat.leaves and seat.pod is not None:
        return seat.leaves
    if node.has("INVALID_REG"):
        # slurmctld leaves its own drain behind when the cause is gone. Ours can be lifted then.
        return node.reason if node.drained_by_us else f"{MISMATCH}: {node.reason}"
    return LEAVING if seat.pod is not None and seat.pod.deleting and not node.off else ""


def _stale(seat: Seat, reason: str) -> bool:
    """Whether a drain that is not a person's carries another reason than the one that holds now."""
    node = seat.slurm
    if node is None or node.reason == reason:
        return False
    return node.drained_by_us or (node.has("INVALID_REG") and node.reason.startswith(_SLURMS_OWN))


def _ours_to_lift(seat: Seat) -> bool:
    """Lift only drains that we set, or that tell of no fault of the node, once it is sure to serve.

    A fresh pod has to serve it, or none is there and none was.
    """
    node = seat.slurm
    if node is None or not node.has("DRAIN"):
        return False
    if not (node.drained_by_us or (node.reason == _FORGOTTEN and not node.has("COMPLETING"))):
        return False
    return node.off if seat.pod is None else seat.pod.ready


def _free(seat: Seat) -> bool:
    """Whether a job could have this seat now, or as soon as it is up."""
    node = seat.slurm
    # slurmctld knows before the kubelet has said that the pod is ready.
    return node is not None and not node.has("DRAIN") and (seat.comes_free or (node.usable and not node.busy))


def _starting(places: Iterable[Seat]) -> int:
    return sum(seat.starting for seat in places)


def _dead(seat: Seat, pod: Pod, templates: _Templates, now: datetime) -> str:
    """Say why a pod can go that runs nothing, whatever slurmctld says."""
    if pod.phase in {"Failed", "Succeeded"}:
        return f"it has ended ({pod.phase})" if now - pod.created > REPLACEMENT else ""
    node = seat.slurm
    begun = pod.ready or pod.ever_started
    unwanted = node is not None and not node.registered and not seat.wanted
    useless = (node is None or not _may_have_begun(node)) and templates.outdated(seat.pool, pod)
    if not begun and (unwanted or useless):
        return "it never started, and it is no longer wanted as it is"
    return ""


def _may_have_begun(node: SlurmNode) -> bool:
    """Whether a slurmd may serve there that its kubelet does not tell of yet: one has registered, and may get a job.

    Who has registered may also be the slurmd before it.
    """
    return node.registered and (node.busy or not node.has("DRAIN", "NOT_RESPONDING"))


def _idle(seat: Seat, pod: Pod, templates: _Templates, observed: Observed, now: datetime) -> str:
    """Say why a running pod can go: a fresh answer names its node, and no job is there."""
    node = seat.slurm
    if node is None or (node.busy and not seat.asked_for):
        return ""
    if seat.asked_for:
        if (
            not pod.ready
            and pod.ever_started
            and observed.runs_nothing(seat.name)
            and templates.outdated(seat.pool, pod)
        ):
            return "its slurmd does not come up, and its template has changed since"
        return _left_over(seat, pod, observed, now)
    proofs = (
        (node.off and _settled(seat, pod, now), "slurmctld has powered its node down"),
        (seat.beyond and node.has("DRAIN"), "its node is drained, idle and beyond the size of its pool"),
        (seat.leaves and node.has("DRAIN"), f"its node is drained and idle, and must go ({seat.leaves})"),
        (seat.given_up, "its node did not come up"),
    )
    return next((why for holds, why in proofs if holds), "")


def _left_over(seat: Seat, pod: Pod, observed: Observed, now: datetime) -> str:
    """Replace a slurmd that ran before its node was powered up: slurmctld waits for one that starts."""
    settled = pod.ready and pod.ready_since is not None and now - pod.ready_since > REGISTRATION
    if settled and observed.runs_nothing(seat.name):
        return "its slurmd was running before its node was powered up, and slurmctld waits for a new one"
    return ""


def _settled(seat: Seat, pod: Pod, now: datetime) -> bool:
    """Whether "powered down" is slurmctld's decision, not the state in which the node begins."""
    if not seat.permanent:
        return True
    return pod.ready and pod.ready_since is not None and now - pod.ready_since > REGISTRATION


def sight_slurmctld(observed: Observed, before: Sighting | None, now: datetime) -> Sighting | None:
    """Return since when the slurmctld that runs has been seen, or, if that is long ago, since when it has run."""
    for pod in observed.of(names.CONTROLLER):
        for one in pod.containers:
            if one.name == "slurmctld" and one.started is not None:
                seen = sight((pod.uid, one.started), before, now)
                return replace(seen, first=min(seen.first, one.started + DRIFT))
    return None


def _young(slurmctld: Sighting | None, now: datetime) -> bool:
    """Whether slurmctld started so lately that what it says of nodes proves nothing."""
    return slurmctld is None or now - slurmctld.first <= YOUNG
