"""Ways to get the protocol wrong: for each step that could be forgotten, the operator that forgets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from slurmcluster_operator.decide import ownership
from slurmcluster_operator.manifests.cluster import Json
from slurmcluster_operator.model import names
from slurmcluster_operator.model.fleet import KubeNode
from slurmcluster_operator.model.holds import Sighting
from tests.builders import NOW
from tests.property.explorer_operator import Protocol, Request
from tests.property.explorer_state import Pod, State, Wish

Pods = tuple[Pod, ...]
Keys = frozenset[str]


def together(*protocols: Protocol) -> Protocol:
    """Return what forgets several things, each in another place."""
    right = Protocol()
    changes = {
        name: value
        for protocol in protocols
        for name, value in vars(protocol).items()
        if value is not getattr(right, name)
    }
    return replace(right, **changes)


# What is written onto a Node


def _writing(change: Callable[[Wish, Json], None]) -> Protocol:
    def sent(wish: Wish, request: Request) -> Request:
        if request.verb != "merge":
            return request
        patch = json.loads(request.body)
        change(wish, patch)
        return request._replace(body=json.dumps(patch))

    return Protocol(sent=sent)


def unguarded() -> Protocol:
    """Write a Node whether or not it has changed since it was read."""
    return _writing(lambda wish, patch: patch["metadata"].pop("resourceVersion"))


def untainted() -> Protocol:
    """Write the owner without its taint, and believe that it is there."""
    blind = _judging(lambda to, fleet, node: replace(node, tainted=node.owner))
    return together(_writing(lambda wish, patch: patch["spec"].update(taints=None)), blind)


def serving(*states: str) -> Protocol:
    """Let slurmd pods be bound while the claim is in one of these states, and not only when the node is owned."""

    def change(wish: Wish, patch: Json) -> None:
        labels = patch["metadata"]["labels"]
        labels[names.SERVES] = labels[names.OWNER] if wish.verb in states else None

    return _writing(change)


# What has the last word


def _judging(
    change: Callable[[str, str, KubeNode], KubeNode] = lambda to, fleet, node: node,
    since: Callable[[str, KubeNode, datetime], datetime] = lambda to, node, first: first,
    **pods: Any,
) -> Protocol:
    """Judge by another node, seen for longer or shorter, and other pods on it, than there are."""

    def obstacle(to: Any, fleet: str, node: KubeNode, here: Any, seen: Any, now: datetime, *, enforced: bool) -> str:
        judged, there = change(to, fleet, node), here and replace(here, **pods)
        known = seen and Sighting(judged.step, since(to, node, seen.first))
        return ownership.obstacle(to, fleet, judged, there, known, now, enforced=enforced)

    return Protocol(obstacle=obstacle)


def hasty(*steps: str) -> Protocol:
    """Take these steps without waiting for what is still on its way."""

    def since(to: str, node: KubeNode, first: datetime) -> datetime:
        return first - timedelta(hours=1) if to in steps else first

    return _judging(since=since)


def believing() -> Protocol:
    """Believe the time of the last step that stands on a node, whoever wrote that, and wait where it is none."""
    return _judging(since=lambda to, node, first: node.since or NOW)


def greedy() -> Protocol:
    """Claim what was not granted."""
    return _judging(lambda to, fleet, node: replace(node, labels={names.FLEET_LABEL: fleet}))


def robbing() -> Protocol:
    """Claim what another cluster has."""
    return _judging(lambda to, fleet, node: replace(node, owner="", tainted="") if to == "Claiming" else node)


def straight() -> Protocol:
    """Give an owned node back without having let go of it first."""
    return _judging(lambda to, fleet, node: replace(node, state="Releasing") if not to and node.state else node)


def alone() -> Protocol:
    """Take no notice of other clusters' slurmds."""
    return _judging(others=())


# What lists of pods tell


def _listing(change: Callable[[Wish, str, Pods], Pods]) -> Protocol:
    """Let the list of a machine's pods, or (of no machine) of those that are not bound, tell something else."""

    def told(wish: Wish, request: Request, pods: Pods) -> Pods:
        return change(wish, json.loads(request.body)["fieldSelector"].partition("=")[2], pods)

    return Protocol(told=told)


def sightless() -> Protocol:
    """Own a node without looking who is there."""
    return _listing(lambda wish, machine, pods: () if wish.verb == "Owned" else pods)


def stale() -> Protocol:
    """Look at a copy of the pods, as old as it may be."""
    return Protocol(from_copy=True)


def impatient() -> Protocol:
    """Take a pod that is Terminating for gone."""
    return _listing(lambda wish, machine, pods: tuple(pod for pod in pods if not pod.ending))


def blind_to_bound() -> Protocol:
    """Give a node back without looking for slurmd pods on it."""
    return _listing(lambda wish, machine, pods: () if machine and not wish.verb else pods)


def blind_to_coming() -> Protocol:
    """Give a node back without looking for slurmd pods that were made for it and are not bound yet."""
    return _listing(lambda wish, machine, pods: pods if machine or wish.verb else ())


# What admission knows


def index_after_taint() -> Protocol:
    """Let admission know of a claim only once it has been made."""
    return Protocol(indexed=lambda wish, state, keys: keys - {wish.node} if wish.verb == "Claiming" else keys)


def index_dropped_early() -> Protocol:
    """Let admission forget a node before it has been given back."""
    return Protocol(indexed=lambda wish, state, keys: keys if wish.verb else keys - {wish.node})


def index_by_owner() -> Protocol:
    """Let admission know nodes by their owner alone, whatever runs there."""

    def indexed(wish: Wish, state: State, keys: Keys) -> Keys:
        owned = {machine.name for machine in state.machines if machine.label(names.OWNER)}
        return keys & (owned | {wish.node if wish.verb == "Claiming" else ""})

    return Protocol(indexed=indexed)


def index_empty() -> Protocol:
    """Let admission know nothing."""
    return Protocol(indexed=lambda wish, state, keys: frozenset())


def index_hoarding() -> Protocol:
    """Let admission never forget a node."""
    return Protocol(indexed=lambda wish, state, keys: keys.union(*state.indexes))


def index_optional() -> Protocol:
    """Go on when the index could not be written."""
    return Protocol(heard=lambda error: "done")


def forgetful() -> Protocol:
    """Forget what was claimed a moment ago, while the copy of the Node does not show it."""
    return Protocol(remembers=False)


# What the scheduler is told


def unbiased() -> Protocol:
    """Make slurmd pods that may go to any machine, whoever has it."""
    return Protocol(pod_spec=lambda spec: {**spec, "affinity": {}})
