"""What the explorer's Kubernetes consists of: as little as can be, so long as what matters can be told apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from slurmcluster_operator.model import names

RED: Final = "red.slurm"
BLUE: Final = "blue.slurm"
"""Two clusters of the same name, in different namespaces."""

OLDEST: Final = 2
"""The age of a step that nobody waits for any more. 0: just now; 1: long enough for admission to hear of it."""

Pairs = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Setting:
    """A small world, and what may happen in it."""

    operators: tuple[str, ...] = (RED, BLUE)
    """The cluster that each operator works for. Twice the same: an old one has not ended when a new one begins."""
    grants: tuple[str, ...] = (f"{RED}_{BLUE}",)
    """The grant of each machine."""
    work: int = 1
    """How many pods others have."""
    enforced: bool = True
    """Whether admission policies refuse."""
    rude: bool = True
    """Whether others, where admission is enforced, try to get anywhere at any time, past every scheduler and taint."""
    slow: bool = True
    """Whether what a scheduler has chosen may be bound as late as ``SETTLE_UNENFORCED`` after; else ``SETTLE``."""
    anywhere: bool = False
    """Whether slurmd pods are also made without a machine, as in pools that an autoscaler serves."""
    lag: bool = False
    """Whether an operator's copy of the Nodes may not show yet what it wrote itself."""
    deeds: tuple[str, ...] = ()
    """What people and failures do, each once, to the first machine."""


class Machine(NamedTuple):
    """A Node object."""

    name: str
    labels: Pairs
    marks: Pairs = frozenset()
    """Annotations, without the time and the words of the last step."""
    taints: tuple[tuple[str, str, str], ...] = ()
    """Each as key, value, effect."""
    age: int = OLDEST
    """How long ago the last step was."""
    stamp: str = ""
    """What stands there as the time of that step, if somebody has spoilt it."""
    there: bool = True

    def label(self, key: str) -> str:
        """Return a label's value."""
        return next((value for found, value in self.labels if found == key), "")

    @property
    def owner(self) -> str:
        """Whose it is: the label, or, where somebody has taken that off, another mark."""
        tainted = next((value for key, value, _ in self.taints if key == names.OWNER), "")
        return self.label(names.OWNER) or tainted or self.label(names.SERVES)

    @property
    def state(self) -> str:
        """How far the claim is."""
        return next((value for key, value in self.marks if key == names.OWNER_STATE), "")


class Pod(NamedTuple):
    """A pod: a slurmd, or the work of others (``fleet`` empty)."""

    name: str
    fleet: str = ""
    made_for: str = ""
    """The machine that a slurmd was made for; empty if it may go to any of its cluster's."""
    picked: str = ""
    """The machine that the scheduler has chosen: the binding is on its way."""
    picked_age: int = 0
    node: str = ""
    """Where it is bound."""
    ending: bool = False
    """Whether it has been deleted, and its kubelet has not confirmed yet that it is gone. A dead one never does."""

    @property
    def title(self) -> str:
        """What people call it."""
        return f"the slurmd of {self.fleet}" if self.fleet else f"pod {self.name}"


Answer = str | Machine | tuple[Pod, ...]
"""What the API server said: ``done``, the reason of an error, a Node, or a list of pods."""


class Wish(NamedTuple):
    """What an operator has decided to do in a look."""

    verb: str
    """A step of the claim (``Claiming``, ``Owned``, ``Releasing`` or nothing), ``create`` (a pod), or ``look``."""
    node: str = ""


class Look(NamedTuple):
    """An operator in the middle of carrying out what it has decided."""

    wish: Wish
    keys: frozenset[str] = frozenset()
    """What it is about to write into the index: from its copies, as old as its look."""
    answers: tuple[Answer, ...] = ()
    """What the API server has answered it since."""

    def has_read(self, name: str) -> bool:
        """Tell whether it goes by what it has read of a Node."""
        return any(isinstance(answer, Machine) and answer.name == name for answer in self.answers)


class Copy(NamedTuple):
    """What an operator has in memory that Kubernetes does not show it yet."""

    machines: tuple[Machine, ...]
    """The Nodes as it still sees them."""
    claimed: frozenset[str] = frozenset()
    """Those that it has claimed meanwhile."""


class State(NamedTuple):
    """Everything, at one moment."""

    machines: tuple[Machine, ...]
    pods: tuple[Pod, ...]
    """In the order of their names."""
    indexes: tuple[frozenset[str], ...]
    """For each cluster, the machines in the ConfigMap from which admission knows its nodes."""
    known: tuple[frozenset[str], ...]
    """The same as admission has it: a moment old."""
    looks: tuple[Look | None, ...]
    """What each operator is at."""
    copies: tuple[Copy | None, ...]
    """What each operator's copy of the Nodes lacks."""
    deeds: tuple[str, ...] = ()
    """What people and failures may still do."""
    seen: tuple[Pod, ...] | None = None
    """The pods as the operators' copy has them, where a mutation makes them go by that."""
    broken: str = ""
    """The rule that the last step broke, if it did."""

    def machine(self, name: str) -> Machine:
        """Return a machine."""
        return next(one for one in self.machines if one.name == name)

    def put(self, machine: Machine) -> State:
        """Return the state with another version of a machine."""
        return self._replace(machines=tuple(machine if one.name == machine.name else one for one in self.machines))

    def change(self, gone: Pod | None, come: Pod | None = None) -> State:
        """Return the state with one pod changed, gone, or come."""
        pods = [pod for pod in self.pods if pod != gone]
        return self._replace(pods=tuple(sorted([*pods, come] if come else pods)))

    def busy(self, number: int, look: Look | None) -> State:
        """Return the state with an operator at something else."""
        return self._replace(looks=(*self.looks[:number], look, *self.looks[number + 1 :]))

    def remembering(self, number: int, copy: Copy | None) -> State:
        """Return the state with an operator that has another copy."""
        return self._replace(copies=(*self.copies[:number], copy, *self.copies[number + 1 :]))

    def dropping(self, name: str) -> State:
        """Drop what operators are at who have read a Node before its last change: their writes will be refused."""
        return self._replace(looks=tuple(None if look and look.has_read(name) else look for look in self.looks))


def wrong(state: State) -> str:
    """Say what breaks the rule: a node has at most one owner, and never both a slurmd and the work of others."""
    return state.broken or next(filter(None, (_crowded(machine, state.pods) for machine in state.machines)), "")


def wrong_owner(was: Machine, machine: Machine) -> str:
    """Say what is wrong with an operator's step."""
    if machine.owner in {"", was.owner}:
        return ""
    if was.owner:
        return f"{machine.name} goes from {was.owner} straight to {machine.owner}"
    granted = was.label(names.FLEET_LABEL).split("_")
    return "" if machine.owner in granted else f"{machine.name} goes to {machine.owner}, to which it is not granted"


def _crowded(machine: Machine, pods: tuple[Pod, ...]) -> str:
    there = [pod for pod in pods if pod.node == machine.name]
    slurmds = sorted({pod.fleet for pod in there if pod.fleet})
    others = [pod.name for pod in there if not pod.fleet]
    if len(slurmds) > 1:
        return f"{machine.name} has slurmds of {' and '.join(slurmds)}"
    if slurmds and others:
        return f"{machine.name} has a slurmd of {slurmds[0]} and pod {others[0]}"
    if machine.label(names.OWNER) and machine.state in {"Owned", "Releasing"}:
        whose = f"{machine.name} is {machine.state} by {machine.owner}"
        if others:
            return f"{whose} and has pod {others[0]}"
        if slurmds and slurmds[0] != machine.owner:
            return f"{whose} and has a slurmd of {slurmds[0]}"
    return ""
