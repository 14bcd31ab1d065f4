"""What happens around the operators: schedulers, admission, kubelets, other people's work, people, and time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final

from slurmcluster_operator.manifests.cluster import Json
from slurmcluster_operator.model import names
from tests.builders import NOW
from tests.property.explorer import Words
from tests.property.explorer_objects import fits, patched, pod_json, slurmd_json
from tests.property.explorer_state import BLUE, OLDEST, Machine, Pod, Setting, State

Step = tuple[Words, State]

_EDITS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "unlabel": ("takes the owner's label off {0}", {"metadata": {"labels": {names.OWNER: None}}}),
    "untaint": ("takes the owner's taint off {0}", {"spec": {"taints": None}}),
    "free": (
        "takes the owner's labels and taint off {0}",
        {"metadata": {"labels": {names.OWNER: None, names.SERVES: None}}, "spec": {"taints": None}},
    ),
    "revoke": ("takes the grant off {0}", {"metadata": {"labels": {names.FLEET_LABEL: None}}}),
    "regrant": (f"grants {{0}} to {BLUE} alone", {"metadata": {"labels": {names.FLEET_LABEL: BLUE}}}),
}
"""What an administrator may do to a Node: what to call it, and the patch."""
_STAMPS: Final = {"backdate": (NOW - timedelta(hours=1)).isoformat(), "garble": "yesterday"}
"""What an administrator, or an operator whose clock is wrong, may write onto a Node as the time of the last step."""


class Around:
    """Everything but the operators. ``pod_spec`` may tell schedulers something else of a slurmd pod than it is."""

    def __init__(self, setting: Setting, pod_spec: Callable[[Json], Json]) -> None:
        self._setting = setting
        self._pod_spec = pod_spec
        self._fleets = tuple(dict.fromkeys(setting.operators))
        self._fits: dict[tuple[str, str, Machine], bool] = {}

    def __call__(self, state: State) -> Iterator[Step]:
        """Yield every step."""
        for pod in state.pods:
            yield from self._end(state, pod) if pod.node else self._place(state, pod)
        yield from self._come(state)
        yield from self._do(state)
        if not state.machines[0].there:
            yield from self._without(state, state.machines[0].name)
        yield from self._hear(state)
        yield from self._pass(state)

    def _end(self, state: State, pod: Pod) -> Iterator[Step]:
        if pod.ending:
            yield ("{0} on {1} is confirmed gone", pod.title, pod.node), state.change(pod)
        else:
            yield ("{0} on {1} is told to end", pod.title, pod.node), state.change(pod, pod._replace(ending=True))

    def _place(self, state: State, pod: Pod) -> Iterator[Step]:
        yield ("{0} is deleted", pod.title), state.change(pod)
        if pod.picked:
            yield self._bind(state, pod)
            return
        for machine in state.machines:
            if machine.there and self._suits(pod, machine):
                picked = pod._replace(picked=machine.name)
                yield ("The scheduler chooses {1} for {0}", pod.title, machine.name), state.change(pod, picked)

    def _bind(self, state: State, pod: Pod) -> Step:
        free = pod._replace(picked="", picked_age=0)
        if not state.machine(pod.picked).there or not self._admits(state, pod, pod.picked):
            return ("{0} is refused on {1}", pod.title, pod.picked), state.change(pod, free)
        return ("{0} is bound to {1}", pod.title, pod.picked), state.change(pod, free._replace(node=pod.picked))

    def _suits(self, pod: Pod, machine: Machine) -> bool:
        key = (pod.fleet, pod.made_for, machine)
        if key not in self._fits:
            made = self._pod_spec(slurmd_json(pod.fleet, pod.made_for)["spec"]) if pod.fleet else pod_json(pod)["spec"]
            self._fits[key] = fits(made, machine)
        return self._fits[key]

    def _admits(self, state: State, pod: Pod, name: str) -> bool:
        """Tell whether admission lets a pod onto a machine: onto a cluster's only that cluster's slurmds."""
        indexes = zip(self._fleets, state.known, strict=True)
        return not self._setting.enforced or all(name not in known or fleet == pod.fleet for fleet, known in indexes)

    def _come(self, state: State) -> Iterator[Step]:
        """Let others come: by the scheduler, or past it."""
        there = {pod.name for pod in state.pods}
        free = [name for name in (f"web-{number}" for number in range(1, self._setting.work + 1)) if name not in there]
        if not free:
            return
        pod = Pod(free[0])
        if not (self._setting.enforced and self._setting.rude):
            yield ("{0} is made", pod.title), state.change(None, pod)
            return
        for machine in state.machines:
            if machine.there and self._admits(state, pod, machine.name):
                words = ("{0} comes to {1}, past every scheduler", pod.title, machine.name)
                yield words, state.change(None, pod._replace(node=machine.name))

    def _do(self, state: State) -> Iterator[Step]:
        """Let people do what they do. Operators that have read the Node before are refused when they write it."""
        machine = state.machines[0]
        if not machine.there:
            return
        for deed in state.deeds:
            left = state._replace(deeds=tuple(one for one in state.deeds if one != deed))
            if deed == "delete":
                bare = Machine(machine.name, frozenset(), there=False)
                yield ("An administrator deletes the Node {0}", machine.name), left.put(bare).dropping(machine.name)
            elif deed in _STAMPS and machine.state and not machine.stamp:
                after = machine._replace(stamp=_STAMPS[deed])
                words = "The time of the last step on {0} is {1}"
                yield (words, machine.name, after.stamp), left.put(after).dropping(machine.name)
            elif deed in _EDITS:
                words, patch = _EDITS[deed]
                after = patched(machine, json.dumps(patch))._replace(age=machine.age)
                if after != machine:
                    yield ("An administrator " + words, machine.name), left.put(after).dropping(machine.name)

    def _without(self, state: State, name: str) -> Iterator[Step]:
        """Go on without the Node object. Pods count as gone then, unless their kubelet registers before they do."""
        back = Machine(name, frozenset({(names.FLEET_LABEL, self._setting.grants[0])}))
        yield ("The kubelet of {0} registers again", name), state.put(back)
        for pod in state.pods:
            if pod.node == name:
                yield ("{0} on {1} is removed: there is no such Node", pod.title, name), state.change(pod)

    def _hear(self, state: State) -> Iterator[Step]:
        if state.known != state.indexes:
            yield ("Admission hears of the indexes",), state._replace(known=state.indexes)
        for number, copy in enumerate(state.copies):
            if copy:
                fleet = self._setting.operators[number]
                yield ("The operator of {0} sees what it has written", fleet), state.remembering(number, None)
        if state.seen not in {None, state.pods}:
            yield ("The operators' copies of the pods catch up",), state._replace(seen=state.pods)

    def _pass(self, state: State) -> Iterator[Step]:
        """Let as much time pass as admission takes to hear of an index at most. What was chosen is bound in time."""
        latest = 1 if self._setting.slow else 0
        if any(pod.picked and pod.picked_age == latest for pod in state.pods):
            return
        if all(machine.age == OLDEST for machine in state.machines):
            return
        machines = tuple(machine._replace(age=min(OLDEST, machine.age + 1)) for machine in state.machines)
        pods = tuple(pod._replace(picked_age=1) if pod.picked else pod for pod in state.pods)
        yield ("Seconds pass",), state._replace(machines=machines, pods=pods, known=state.indexes)
