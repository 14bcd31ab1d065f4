"""The soak's history, played back in the order in which the API server wrote it: who was where when. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hack.soak.sightings import NodeSeen, PodSeen, Sighting, SlurmSeen

Use = Literal["Slurm", "Kubernetes"]


@dataclass(frozen=True)
class DoubleClaim:
    """Two claimants on one node, at a moment."""

    node: str
    words: str
    at: float
    version: int


@dataclass
class Board:
    """Who is where at one moment."""

    nodes: dict[str, NodeSeen] = field(default_factory=dict)
    pods: dict[str, dict[str, PodSeen]] = field(default_factory=dict)
    """By node and uid: those that are bound and not over."""
    machines: dict[str, str] = field(default_factory=dict)
    """For each Slurm node, the Kubernetes node of its latest slurmd."""

    def see(self, seen: Sighting) -> str:
        """Note a sighting; return the node that it is about."""
        match seen:
            case NodeSeen():
                self.nodes[seen.name] = seen
                return seen.name
            case PodSeen() if seen.node:
                there = self.pods.setdefault(seen.node, {})
                if seen.over:
                    there.pop(seen.uid, None)
                else:
                    there[seen.uid] = seen
                    if seen.kind == "slurmd":
                        self.machines[seen.seat] = seen.node
                return seen.node
            case _:
                return ""

    def on(self, node: str, kind: str) -> list[PodSeen]:
        """Return the pods of a kind on a node, by name."""
        pods = self.pods.get(node, {}).values()
        return sorted((pod for pod in pods if pod.kind == kind), key=lambda pod: pod.title)


def play(sightings: Iterable[Sighting]) -> Iterator[tuple[Sighting, str, Board]]:
    """Yield each sighting in the order of the versions, the node that it is about, and the board then."""
    board = Board()
    # A pod that is removed without a last word carries the version of its removal: no two changes have the same.
    for seen in sorted(sightings, key=lambda one: (one.version, isinstance(one, SlurmSeen), one.at)):
        yield seen, board.see(seen), board


def double_claims(sightings: Iterable[Sighting], start: int) -> list[DoubleClaim]:
    """Return every double claim, each once, at its first moment. Before version ``start`` the board is not complete."""
    found: dict[tuple[str, str], DoubleClaim] = {}
    before: frozenset[tuple[str, str, str]] = frozenset()
    for seen, node, board in play(sightings):
        if isinstance(seen, SlurmSeen):
            beside = frozenset(_beside_jobs(seen, board))
            wrong = [(where, f"{words} in two looks") for where, _, words in beside & before]
            before = beside
        else:
            wrong = [(node, words) for words in _wrong_on(node, board)] if node else []
        for key in wrong:
            if seen.version >= start:
                found.setdefault(key, DoubleClaim(*key, seen.at, seen.version))
    return list(found.values())


def _wrong_on(node: str, board: Board) -> Iterator[str]:
    slurmds, others = board.on(node, "slurmd"), board.on(node, "other")
    seen = board.nodes.get(node, NodeSeen(0, 0.0, node))
    if len(slurmds) > 1:
        yield f"slurmd {' and '.join(pod.title for pod in slurmds)} are there"
    for slurmd in slurmds:
        if slurmd.owner != seen.owner:
            yield f"slurmd {slurmd.title} is there, and {seen.owner or 'nobody'} has the node"
        yield from (
            f"slurmd {slurmd.title} and pod {pod.title}, which has GPUs, are there" for pod in others if pod.gpus
        )
    if seen.state in {"Owned", "Releasing"}:
        yield from (f"pod {pod.title} is there, and {seen.owner} owns the node" for pod in others)


def _beside_jobs(seen: SlurmSeen, board: Board) -> Iterator[tuple[str, str, str]]:
    """Yield (node, uid, words) for pods with GPUs where Slurm runs a job, whether or not a slurmd pod is there."""
    for job, seat in seen.running:
        node = board.machines.get(seat, "")
        for pod in board.on(node, "other"):
            if pod.gpus:
                yield node, pod.uid, f"job {job} runs on {seat} beside pod {pod.title}"


def uses(sightings: Iterable[Sighting]) -> dict[str, list[Use]]:
    """Return for each node whom it served, one after the other: a slurmd that was ready, a pod with GPUs that ran."""
    found: dict[str, list[Use]] = {}
    for seen, node, _ in play(sightings):
        if isinstance(seen, PodSeen) and (_serves(seen) or _ran(seen)):
            use: Use = "Slurm" if _serves(seen) else "Kubernetes"
            listed = found.setdefault(node, [])
            if listed[-1:] != [use]:
                listed.append(use)
    return found


def _serves(pod: PodSeen) -> bool:
    return pod.kind == "slurmd" and pod.ready and not pod.gone


def _ran(pod: PodSeen) -> bool:
    """Tell whether a pod of others took a node's GPUs, and ran."""
    return pod.kind == "other" and pod.gpus and pod.phase in {"Running", "Succeeded"} and not pod.gone


def round_trips(used: Sequence[Use]) -> int:
    """Count how often a node came back to Slurm after it had served Kubernetes in between."""
    return max(0, used.count("Slurm") - 1)


@dataclass
class Tenure:
    """One time for which a node was Slurm's. Times are seconds since 1970; None for what has not come."""

    node: str
    claimed: float
    seats: list[str] = field(default_factory=list)
    """The Slurm nodes that served on it."""
    served: float | None = None
    """When its slurmd was ready."""
    freed: float | None = None
    reclaimed: bool = False
    """Whether it had served Kubernetes right before."""


def tenures(sightings: Iterable[Sighting], cluster: str) -> list[Tenure]:
    """Return every time for which a node was the cluster's, in order."""
    found: list[Tenure] = []
    current: dict[str, Tenure] = {}
    lent: set[str] = set()
    for seen, node, _ in play(sightings):
        tenure = current.get(node)
        if isinstance(seen, NodeSeen):
            if seen.owner == cluster and tenure is None:
                current[node] = Tenure(node, seen.at, reclaimed=node in lent)
                found.append(current[node])
                lent.discard(node)
            elif seen.owner != cluster and tenure is not None:
                tenure.freed = seen.at
                del current[node]
        elif isinstance(seen, PodSeen) and _ran(seen):
            lent.add(node)
        elif isinstance(seen, PodSeen) and _serves(seen) and tenure is not None:
            tenure.served = tenure.served or seen.at
            if seen.seat not in tenure.seats:
                tenure.seats.append(seen.seat)
    return found


def pod_figures(sightings: Iterable[Sighting]) -> dict[str, int]:
    """Count what became of the pods with GPUs of others: ran, completed, evicted, failed or deleted otherwise."""
    last: dict[str, PodSeen] = {}
    ran: set[str] = set()
    for seen, _, _ in play(sightings):
        if isinstance(seen, PodSeen) and seen.kind == "other" and seen.gpus:
            last[seen.uid] = seen
            if _ran(seen):
                ran.add(seen.uid)
    pods = list(last.values())
    return {
        "ran": len(ran),
        "completed": sum(pod.phase == "Succeeded" for pod in pods),
        "evicted": sum(pod.evicted for pod in pods),
        "failed": sum(not pod.evicted and pod.phase != "Succeeded" and (pod.over or pod.deleting) for pod in pods),
    }
