"""Everything that may happen next in a state: what operators do, and what happens around them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from slurmcluster_operator.model import names
from tests.property.explorer import Finding, Walk, Words, explore, trapped
from tests.property.explorer_around import Around, Step
from tests.property.explorer_objects import SEAT, cluster_of, patched, selected
from tests.property.explorer_operator import STEPS, Operator, Protocol, Request
from tests.property.explorer_state import Answer, Copy, Look, Machine, Pod, Setting, State, Wish, wrong, wrong_owner

_RIGHT: Final = Protocol()

_WISHES: Final[dict[str, str]] = {
    "Claiming": "claim {1}",
    "Owned": "make {1} its own",
    "Releasing": "let go of {1}",
    "": "give {1} back",
    "create": "make its slurmd for {1}",
    "look": "write its index",
}


@cache
def _operator(protocol: Protocol, enforced: bool) -> Operator:  # noqa: FBT001 - what is remembered of one serves all settings
    return Operator(protocol, enforced=enforced)


def walk(setting: Setting, protocol: Protocol = _RIGHT, deepest: int | None = None) -> Walk[State]:
    """Walk through a setting from where nobody has anything."""
    steps = Steps(setting, protocol)
    return explore(steps.start(), steps, wrong, deepest)


def never_again(setting: Setting, protocol: Protocol = _RIGHT) -> Finding | None:
    """Find a state from which a cluster to which it is granted, or the work of others, can never get the first machine.

    A cluster that has lost its grant asks for nothing.
    """

    def has(fleet: str) -> Callable[[State], bool]:
        def content(state: State) -> bool:
            granted = not fleet or fleet in state.machine("n1").label(names.FLEET_LABEL).split("_")
            return not granted or any(pod.node == "n1" and pod.fleet == fleet and not pod.ending for pod in state.pods)

        return content

    steps = Steps(setting, protocol)
    whose = {"n1 has pods of others": "", **{f"n1 has a slurmd of {fleet}": fleet for fleet in setting.operators}}
    return trapped(steps.start(), steps, {title: has(fleet) for title, fleet in whose.items()})


class Steps:
    """What may happen next."""

    def __init__(self, setting: Setting, protocol: Protocol) -> None:
        self._setting = setting
        self._protocol = protocol
        self._operator = _operator(protocol, setting.enforced)
        self._around = Around(setting, protocol.pod_spec)
        self._fleets = tuple(dict.fromkeys(setting.operators))
        self._names = tuple(
            f"{'The' if setting.operators.count(fleet) == 1 else 'An'} operator of {fleet}"
            for fleet in setting.operators
        )
        self._ranks: dict[tuple[Look | None, Copy | None], int] = {}

    def start(self) -> State:
        """Return the state in which nobody has anything."""
        setting = self._setting
        machines = tuple(
            Machine(f"n{number}", frozenset({(names.FLEET_LABEL, grant)}))
            for number, grant in enumerate(setting.grants, 1)
        )
        nothing: tuple[frozenset[str], ...] = (frozenset(),) * len(self._fleets)
        idle = (None,) * len(setting.operators)
        seen = () if self._protocol.from_copy else None
        return State(machines, (), nothing, nothing, idle, idle, setting.deeds, seen)

    def __call__(self, state: State) -> Iterator[Step]:
        """Yield every step."""
        if len(self._fleets) == len(self._setting.operators):
            yield from self._all(state)
        else:
            yield from ((words, self._ordered(after)) for words, after in self._all(state))

    def _ordered(self, state: State) -> State:
        """Make no difference between two operators of one cluster."""
        pairs = zip(state.looks, state.copies, strict=True)
        looks, copies = zip(
            *sorted(pairs, key=lambda pair: self._ranks.setdefault(pair, len(self._ranks))), strict=True
        )
        return state._replace(looks=looks, copies=copies)

    def _all(self, state: State) -> Iterator[Step]:
        for number, fleet in enumerate(self._setting.operators):
            look = state.looks[number]
            if look is None:
                yield from self._decide(state, number, fleet)
            else:
                yield self._go_on(state, number, look)
                crashed = state.busy(number, None).remembering(number, None)
                yield ("{0} crashes", self._names[number]), crashed
        yield from self._around(state)

    def _decide(self, state: State, number: int, fleet: str) -> Iterator[Step]:
        for wish in self._wishes(state, fleet):
            before = state.indexes[self._fleets.index(fleet)]
            keys = self._keys(state, number, wish)
            if wish.verb == "look" and keys == before:
                continue
            words: Words = ("{0} decides to " + _WISHES[wish.verb], self._names[number], wish.node or "any machine")
            after = state.busy(number, Look(wish, keys))
            if self._setting.operators.count(fleet) == 1:
                # Nobody else writes this index: that it is written a moment later makes no difference.
                _, after = self._go_on(after, number, Look(wish, keys))
                if keys != before:
                    words = (words[0] + ". Its index says {2}", *words[1:], _listed(keys))
            yield words, after
            if "outage" in state.deeds:
                failed = Look(wish, answers=(self._protocol.heard("failed"),))
                left = state._replace(deeds=tuple(deed for deed in state.deeds if deed != "outage"))
                yield (words[0] + ". The index cannot be written", *words[1:]), self._at(left, number, failed)

    def _wishes(self, state: State, fleet: str) -> Iterator[Wish]:
        if self._setting.enforced:
            yield Wish("look")
        for machine in state.machines:
            done = machine.state if machine.label(names.OWNER) else None
            for to in STEPS if machine.there else ():
                if to != done and self._operator.allowed(fleet, to, machine):
                    yield Wish(to, machine.name)
        if not any(pod.fleet == fleet for pod in state.pods):
            # Its copy may be old: so it may make a pod for a machine whatever has become of that.
            yield from (Wish("create", machine.name) for machine in state.machines)
            if self._setting.anywhere:
                yield Wish("create")

    def _keys(self, state: State, number: int, wish: Wish) -> frozenset[str]:
        """Return what the operator writes into its index, going by its copies."""
        copy = state.copies[number] or Copy(state.machines)
        claimed = copy.claimed if self._protocol.remembers else frozenset[str]()
        keys = self._operator.index(self._setting.operators[number], wish, copy.machines, state.pods, claimed)
        return self._protocol.indexed(wish, state, keys)

    def _go_on(self, state: State, number: int, look: Look) -> Step:
        """Carry out the next call of an operator, and with the reading of a Node the call after it.

        What is read of a Node is good for a write only while the Node stays as it is: so it may as well be read later.
        """
        fleet = self._setting.operators[number]
        request = self._operator.request(fleet, look.wish, look.answers)
        assert request is not None
        words, state, answer = self._call(state, number, look, request)
        look = Look(look.wish, answers=(*look.answers, answer))
        after = self._at(state, number, look)
        if request.verb == "get" and self._operator.guarded and after.looks[number]:
            return self._go_on(state, number, look)
        return words, after

    def _at(self, state: State, number: int, look: Look) -> State:
        """Let an operator be where it has got, or be idle if that is the end."""
        fleet = self._setting.operators[number]
        done = self._operator.request(fleet, look.wish, look.answers) is None
        return state.busy(number, None if done else look)

    def _call(self, state: State, number: int, look: Look, request: Request) -> tuple[Words, State, Answer]:
        fleet, who = self._setting.operators[number], self._names[number]
        match request.verb:
            case "apply":
                place = self._fleets.index(fleet)
                indexes = (*state.indexes[:place], look.keys, *state.indexes[place + 1 :])
                words = ("{0} writes its index: {1}", who, _listed(look.keys))
                return words, state._replace(indexes=indexes) if self._setting.enforced else state, "done"
            case "get":
                machine = state.machine(look.wish.node)
                words = ("{0} reads {1}", who, machine.name)
                return words, state, machine if machine.there else "missing"
            case "list":
                return self._list(state, who, look, request)
            case "merge":
                return self._write(state, number, look, request)
            case "create":
                return self._create(state, number, look)
        raise AssertionError(request)

    def _list(self, state: State, who: str, look: Look, request: Request) -> tuple[Words, State, Answer]:
        query = json.loads(request.body)
        pods = selected(state.pods if state.seen is None else state.seen, request.what, query)
        # The API server shows no binding that is on its way.
        plain = tuple(pod._replace(picked="", picked_age=0) for pod in pods)
        told = self._protocol.told(look.wish, request, plain)
        where = query["fieldSelector"].partition("=")[2] or "no machine"
        titles = ", ".join(pod.title for pod in told) or "none"
        return ("{0} lists pods on {1}: {2}", who, where, titles), state, told

    def _write(self, state: State, number: int, look: Look, request: Request) -> tuple[Words, State, Answer]:
        who, machine = self._names[number], state.machine(look.wish.node)
        if not machine.there:
            return ("{0} finds {1} gone", who, machine.name), state, "missing"
        after = patched(machine, request.body)
        words = ("{0} writes {1}: {2}", who, machine.name, after.state or "free")
        written = state.put(after)._replace(broken=wrong_owner(machine, after))
        if self._operator.guarded:
            written = written.dropping(machine.name)
        if self._setting.lag:
            machines, claimed = state.copies[number] or Copy(state.machines)
            if look.wish.verb in {"Claiming", ""}:
                claimed = claimed | {machine.name} if look.wish.verb else claimed - {machine.name}
            written = written.remembering(number, Copy(machines, claimed))
        return words, written, "done"

    def _create(self, state: State, number: int, look: Look) -> tuple[Words, State, Answer]:
        fleet, who = self._setting.operators[number], self._names[number]
        pod = Pod(cluster_of(fleet).names.pod(SEAT), fleet, look.wish.node)
        if any((one.fleet, one.name) == (pod.fleet, pod.name) for one in state.pods):
            return ("{0} finds that its pod exists", who), state, "conflict"
        words = ("{0} makes a slurmd pod for {1}", who, pod.made_for or "any machine")
        return words, state.change(None, pod), "done"


def _listed(keys: frozenset[str]) -> str:
    return ", ".join(sorted(keys)) or "nothing"
