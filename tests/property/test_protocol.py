"""The protocol of claims and releases, explored: every order in which things may happen, and what a missing step does.

The operator is the real one (``runtime.execute``), one call to the API server at a time. What is around it does what it
could do at its worst: operators crash between any two calls, bindings land late, kubelets never confirm that a pod is
gone, people take marks off. And an operator may wish for any step at any time: what it wishes for is decided in
``decide.fleet``, but that nobody is where somebody else is does not depend on that.

Most settings are small enough to see every state there is. EXPLORE_ALL=1 sees the large ones too, in minutes.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import pytest

from tests.builders import pool_json
from tests.property import explorer_mutations as wrong
from tests.property.explorer_fair import TICK, share
from tests.property.explorer_operator import Protocol
from tests.property.explorer_state import BLUE, RED, Setting
from tests.property.explorer_steps import never_again, walk

ALONE = Setting(operators=(RED,), grants=(RED,))
ALONE_OPEN = replace(ALONE, enforced=False)
ANYWHERE = replace(ALONE, anywhere=True)
BOTH = Setting()
BOTH_OPEN = replace(BOTH, enforced=False)
POLITE = replace(ALONE, rude=False, slow=False)
"""Others go by taints, and what a scheduler has chosen is bound within a second."""
TWICE = replace(POLITE, operators=(RED, RED))
"""Two operators of one cluster: an old one, that was thought dead, goes on."""


def tell(seen: object) -> None:
    """Say how much was seen, and what: for -s and -rP."""
    print(seen)  # noqa: T201


def deed(setting: Setting, *names: str) -> Setting:
    """Let people and failures do something."""
    return replace(setting, deeds=names)


HOLDS = {
    "one cluster": ALONE,
    "one cluster, without admission": ALONE_OPEN,
    "two clusters": BOTH,
    "two clusters, without admission": BOTH_OPEN,
    "pods that are made without a machine": ANYWHERE,
    "pods that are made without a machine, without admission": replace(ANYWHERE, enforced=False),
    "an operator whose copy of the Nodes lags": replace(ALONE, lag=True),
    "an index that cannot be written once": deed(ALONE, "outage"),
    "the owner's taint is taken off": deed(ALONE, "untaint"),
    "the owner's label is taken off": deed(ALONE, "unlabel"),
    "the owner's label is taken off, without admission": deed(ALONE_OPEN, "unlabel"),
    "all of the owner's marks are taken off": deed(ALONE, "free"),
    "the grant is taken off": deed(ALONE, "revoke"),
    "the grant is taken off, without admission": deed(ALONE_OPEN, "revoke"),
    "the grant goes to the other cluster": deed(BOTH, "regrant"),
    "the grant and the owner's label are taken off": deed(ALONE, "revoke", "unlabel"),
    "the grant and the owner's taint are taken off": deed(ALONE, "revoke", "untaint"),
    "all but the label for its slurmds is taken off": deed(ALONE, "revoke", "unlabel", "untaint"),
    "the grant and all of the owner's marks are taken off": deed(ALONE, "revoke", "free"),
    "the Node is deleted, and may register again": deed(ALONE, "delete"),
    "the time of a step is an hour too old": deed(ALONE, "backdate"),
    "the time of a step is no time": deed(ALONE, "garble"),
}


class Large(NamedTuple):
    """A setting with very many states."""

    setting: Setting
    steps: int
    """How far from the start it is seen by default."""
    all_steps: int | None = None
    """How far with EXPLORE_ALL; None if that comes to an end."""


LARGE = {
    "two clusters, pods that are made without a machine": Large(replace(BOTH, anywhere=True), 12),
    "two clusters, whose copies of the Nodes lag": Large(replace(BOTH, lag=True), 12),
    "two clusters, two pods of others": Large(replace(BOTH, work=2), 12),
    "two clusters on two machines": Large(replace(BOTH, grants=(f"{RED}_{BLUE}", f"{RED}_{BLUE}")), 6, 11),
    "two machines": Large(replace(ALONE, grants=(RED, RED)), 14),
    "two machines, pods that are made without a machine": Large(replace(ANYWHERE, grants=(RED, RED)), 13),
    "two operators": Large(TWICE, 14),
    "two operators, without admission": Large(replace(TWICE, enforced=False, slow=True), 17),
    "two operators, pods that are made without a machine": Large(replace(TWICE, anywhere=True), 12),
    "all of the owner's marks are taken off, with two clusters": Large(deed(BOTH, "free"), 11),
    "the Node is deleted, with two clusters": Large(deed(BOTH, "delete"), 11),
    "an administrator who tries everything": Large(deed(ALONE, "free", "untaint", "revoke", "delete"), 17),
}

ALL = bool(os.environ.get("EXPLORE_ALL"))


@pytest.mark.parametrize("setting", HOLDS.values(), ids=HOLDS)
def test_no_node_is_ever_shared(setting: Setting) -> None:
    seen = walk(setting)
    tell(seen)
    assert seen.complete, str(seen)


@pytest.mark.parametrize("large", LARGE.values(), ids=LARGE)
def test_no_node_is_ever_shared_in_a_large_setting(large: Large) -> None:
    seen = walk(large.setting, deepest=large.all_steps if ALL else large.steps)
    tell(seen)
    assert seen.finding is None, str(seen)


COMES_BACK = {
    "one cluster": ALONE,
    "two clusters": BOTH,
    "two clusters, without admission": BOTH_OPEN,
    "pods that are made without a machine": ANYWHERE,
    "an operator whose copy of the Nodes lags": replace(ALONE, lag=True),
    "an index that cannot be written once": deed(ALONE, "outage"),
    "the owner's taint is taken off": deed(ALONE, "untaint"),
    "the owner's label is taken off": deed(ALONE, "unlabel"),
    "all of the owner's marks are taken off": deed(ALONE, "free"),
    "the grant is taken off": deed(ALONE, "revoke"),
    "the grant and the owner's label are taken off": deed(ALONE, "revoke", "unlabel"),
    "the grant and the owner's taint are taken off": deed(ALONE, "revoke", "untaint"),
    "all but the label for its slurmds is taken off": deed(ALONE, "revoke", "unlabel", "untaint"),
    "the grant and all of the owner's marks are taken off": deed(ALONE, "revoke", "free"),
    "the grant goes to the other cluster": deed(BOTH, "regrant"),
    "the Node is deleted, and may register again": deed(ALONE, "delete"),
    "the time of a step is no time": deed(ALONE, "garble"),
}


@pytest.mark.parametrize("setting", COMES_BACK.values(), ids=COMES_BACK)
def test_whatever_has_happened_everybody_can_get_the_node_again(setting: Setting) -> None:
    assert never_again(setting) is None


def test_a_node_that_nobody_can_get_any_more_is_found_out() -> None:
    lost = never_again(BOTH, wrong.index_hoarding())
    assert lost
    tell(lost)
    assert "never again: n1 has pods of others" in str(lost)


def test_waiting_for_a_time_that_is_none_is_found_out() -> None:
    lost = never_again(deed(ALONE, "garble"), wrong.believing())
    assert lost
    tell(lost)
    assert "never again" in str(lost)


class Mutation(NamedTuple):
    """A protocol that is wrong, and a setting in which that shows."""

    protocol: Protocol
    setting: Setting


CAUGHT = {
    "writes without compare-and-swap, two clusters": Mutation(wrong.unguarded(), BOTH),
    "writes without compare-and-swap, two operators": Mutation(wrong.unguarded(), replace(TWICE, enforced=False)),
    "owns a node without listing its pods": Mutation(wrong.sightless(), ALONE),
    "lists pods from a copy": Mutation(wrong.stale(), ALONE),
    "owns a node as soon as it is tainted": Mutation(wrong.hasty("Owned"), POLITE),
    "believes the time that stands on a node": Mutation(wrong.believing(), deed(POLITE, "backdate")),
    "claims nodes that were not granted": Mutation(wrong.greedy(), replace(ALONE, grants=(BLUE,))),
    "claims nodes of another cluster": Mutation(wrong.robbing(), BOTH),
    "takes no notice of other clusters' slurmds": Mutation(wrong.alone(), replace(deed(BOTH, "free"), work=0)),
    "claims without a taint": Mutation(wrong.untainted(), ALONE_OPEN),
    "makes slurmd pods for any machine, whoever has it": Mutation(wrong.unbiased(), ALONE),
    "lets slurmd pods come from the claim on": Mutation(wrong.serving("Claiming", "Owned"), ALONE),
    "lets slurmd pods come until the end": Mutation(wrong.serving("Owned", "Releasing"), ANYWHERE),
    "gives back without letting go first": Mutation(wrong.straight(), ANYWHERE),
    "gives back as soon as it has let go": Mutation(wrong.hasty(""), ANYWHERE),
    "gives back without looking for slurmds": Mutation(wrong.blind_to_bound(), ALONE_OPEN),
    "takes Terminating for gone": Mutation(wrong.impatient(), ALONE),
    "has no index": Mutation(wrong.index_empty(), ALONE),
    "writes the index after the taint": Mutation(wrong.index_after_taint(), ALONE),
    "drops a node from the index before it is given back": Mutation(wrong.index_dropped_early(), ALONE),
    "drops a node from the index though a slurmd is there": Mutation(wrong.index_by_owner(), deed(ALONE, "delete")),
    "goes on when the index cannot be written": Mutation(wrong.index_optional(), deed(ALONE, "outage")),
    "forgets what it claimed a moment ago": Mutation(wrong.forgetful(), replace(ALONE, lag=True)),
}


@pytest.mark.parametrize("mutation", CAUGHT.values(), ids=CAUGHT)
def test_a_protocol_that_lacks_a_step_is_found_out(mutation: Mutation) -> None:
    seen = walk(mutation.setting, mutation.protocol)
    tell(seen)
    assert seen.finding, str(seen)


class Backed(NamedTuple):
    """A step that something else makes up for, where that something stands."""

    protocol: Protocol
    backing: Protocol
    """What lacks the other step."""
    setting: Setting


BACKED = {
    "no taint: admission refuses": Backed(wrong.untainted(), wrong.index_empty(), ALONE),
    "no index: others that go by taints are kept off by these": Backed(
        wrong.index_empty(), wrong.hasty("Owned"), POLITE
    ),
    "no look for slurmds on a node that goes back: it stays in the index": Backed(
        wrong.blind_to_bound(), wrong.index_by_owner(), ALONE
    ),
    "no look for slurmds that may come: none can be bound any more": Backed(
        wrong.blind_to_coming(), wrong.serving("Owned", "Releasing"), ALONE_OPEN
    ),
    "no letting go: slurmds made for the node are looked for": Backed(
        wrong.straight(), wrong.blind_to_coming(), ALONE_OPEN
    ),
}


@pytest.mark.parametrize("backed", BACKED.values(), ids=BACKED)
def test_what_one_step_lacks_another_makes_up_for(backed: Backed) -> None:
    seen = walk(backed.setting, backed.protocol)
    assert seen.complete, str(seen)
    seen = walk(backed.setting, wrong.together(backed.protocol, backed.backing))
    tell(seen)
    assert seen.finding, str(seen)


LIMITS = {
    "without admission, an administrator takes the taint off": deed(ALONE_OPEN, "untaint"),
    "without admission, a Node is deleted under its slurmd": deed(ALONE_OPEN, "delete"),
    "two operators, and others that go past every scheduler": replace(TWICE, rude=True),
    "two operators, and bindings that take longer than a claim settles": replace(TWICE, slow=True),
    "all of the owner's marks are taken off while a slurmd that was made for no machine is being bound": deed(
        ANYWHERE, "free"
    ),
}


@pytest.mark.parametrize("setting", LIMITS.values(), ids=LIMITS)
def test_what_the_protocol_cannot_do(setting: Setting) -> None:
    """If one of these holds some day, say so in docs/architecture.md."""
    seen = walk(setting)
    tell(seen)
    assert seen.finding, str(seen)


FIXED = {"sharing": "Exclusive"}
ELASTIC = {"sharing": "Elastic"}
LONGEST_WAIT = 20
"""Minutes: a turn of 10, a job that has to end, and the way from one cluster to the other."""


@pytest.mark.parametrize("sharing", [FIXED, ELASTIC], ids=["fixed", "elastic"])
@pytest.mark.parametrize("machines", [1, 3])
async def test_clusters_that_both_want_every_machine_share_them(machines: int, sharing: dict[str, str]) -> None:
    least = machines if sharing == FIXED else 0
    history = await share(machines, 30, dict.fromkeys((RED, BLUE), pool_json(least, machines, **sharing)))
    tell([(one, len(list(same)) * TICK) for one, same in groupby(history)])
    for fleet in (RED, BLUE):
        waits = [len(list(same)) * TICK / 60 for has, same in groupby(fleet in one for one in history) if not has]
        assert max(waits) <= LONGEST_WAIT, f"{fleet} waits for {max(waits):.0f} minutes"
    used = sum(bool(fleet) for one in history for fleet in one) / (machines * len(history))
    assert used > 0.85, "machines that everybody wants are idle"
    if machines > 1:
        late = set(history[len(history) * 2 // 3 :])
        assert len(late) == 1, f"machines go to and fro: {late}"
        assert abs(history[-1].count(RED) - history[-1].count(BLUE)) <= 1, history[-1]
