"""Random lives of a pool: jobs come and go, machines too, answers fail, the operator crashes. What must hold, holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from slurmcluster_operator.decide.plan import make_plan, resolve
from slurmcluster_operator.manifests.cluster import NO_QUEUES, Cluster
from slurmcluster_operator.model.actions import (
    Action,
    AnnotatePod,
    CreatePod,
    DeletePod,
    Drain,
    Evict,
    GiveUp,
    MarkSeat,
    Move,
    Own,
    PowerDown,
    PowerUp,
    Resume,
    Undrain,
)
from slurmcluster_operator.model.holds import Memory
from slurmcluster_operator.model.slurm import Slurm, Unknown
from tests.builders import NOW, cluster, pool_json
from tests.property.world import PRIORITY, World, ordinal

TROUBLED = 150
"""Seconds in which anything may happen."""
CALM = 150
"""Seconds after the last job in which everything must have come to rest: longer than any hold."""
START = 40
"""Seconds that a job's nodes may take to be free, powered down, and up again."""
ROUNDS = 4
"""Looks after which nothing is left to do in the same second: a node resumed, powered up, its pod made, a job told."""
LIVES = settings(deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
"""A smaller seed is no simpler life: none is looked for, which would take minutes."""


@pytest.fixture(autouse=True, scope="module")
def _no_files() -> Iterator[None]:
    """Leave slurm.conf unwritten, which would take most of the time: no decision about nodes goes by what is in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slurmcluster_operator.decide.plan.content_hash", lambda _: "unwritten")
        yield


def half(answer: Slurm, chance: Random) -> Slurm:
    """Return an answer from which nodes are missing."""
    kept = {name: node for name, node in answer.nodes.items() if chance.random() < 0.5}
    return replace(answer, nodes=kept or answer.nodes)


def targets(actions: Iterable[Action]) -> set[tuple[str, ...]]:
    """Return what a plan does to what.

    An annotation that makes a kubelet look again changes nothing, and who is kept by a budget is asked to leave again.
    """
    found: set[tuple[str, ...]] = set()
    for action in actions:
        match action:
            case AnnotatePod() | Evict():
                continue
            case CreatePod(node=name) | DeletePod(name=name):
                on: tuple[str, ...] = (name,)
            case Move(node=name, to=state):
                on = (f"{name} {state}",)
            case MarkSeat(node=name, seat=seat):
                on = (f"{name} {seat}",)
            case Drain(nodes=several) | Undrain(nodes=several) | PowerUp(nodes=several) | PowerDown(nodes=several):
                on = several
            case GiveUp(nodes=several) | Resume(nodes=several):
                on = several
            case _:
                on = (str(action),)
        found |= {(type(action).__name__, name) for name in on}
    return found


class Life:
    """One pool, one operator, and what happens to them."""

    def __init__(self, chance: Random, sharing: str) -> None:
        self.chance = chance
        self.sharing: dict[str, object] = {"sharing": sharing}
        if sharing == "Elastic":
            rule = {"policy": chance.choice(["WhenEmpty", "Evict"]), "belowPriority": chance.choice([PRIORITY, 100])}
            self.sharing |= {"returnAfter": chance.choice(["2s", "10s", "40s"]), "reclaim": rule | {"deadline": "20s"}}
        self.own_budget, self.budget = chance.choice([None, None, 1, 3]), chance.choice([500, 500, 2])
        self.capacity = chance.choice(["Fixed", "Fixed", "Autoscaled"])
        self.cluster = self._drawn(chance.randint(1, 6))
        self.world = World(self.cluster, chance.randint(0, self.cluster.spec.pools[0].nodes.max))
        self.memory = Memory()
        self.queues = resolve(self.cluster, self.world.observe(), self.memory, NO_QUEUES).queues
        """What the ConfigMap with slurm.conf says that is in it."""
        self.away = 0
        """Seconds for which nobody looks."""

    def _drawn(self, most: int) -> Cluster:
        """Return the cluster with a pool of so many nodes, and of them some that are always up."""
        warm = self.chance.choice([0, 0, 1])
        sizes = {"min": self.chance.randint(0, min(2, most)), "max": most, "warm": warm}
        own = {} if self.own_budget is None else {"maxStarting": self.own_budget}
        pool = pool_json(0, most, nodes=sizes | own, capacity=self.capacity, **self.sharing)
        return cluster(pools=[pool], maxStarting=self.budget)

    def trouble(self) -> None:
        """Let a second pass in which something may go wrong."""
        world, chance = self.world, self.chance
        if chance.random() < 0.08:
            world.submit(chance.randint(1, self.cluster.spec.pools[0].nodes.max), chance.randint(1, 30))
        if chance.random() < 0.02:
            waits = max((job.size for job in world.jobs if not job.done), default=1)
            self.cluster = self._drawn(chance.randint(waits, 6))
        if chance.random() < 0.05:
            self.memory = Memory()  # the operator has crashed
            self.away = chance.choice([0, 3, 12, 40])
        if chance.random() < 0.1:
            world.join_or_leave(chance)
        if self.sharing["sharing"] == "Elastic" and chance.random() < 0.1:
            world.come(chance)
        world.step()
        self.away -= 1
        if self.away > 0:
            return
        fate = chance.random()
        if fate < 0.15:
            self.look(Unknown("no answer", NOW))
        elif fate < 0.25:
            self.look(half(world.answer(), chance))
        elif fate < 0.9:
            self.look()

    def look(self, answer: Slurm | Unknown | None = None) -> int:
        """Let the operator look once and act; return to how many things it did something.

        After a good answer it looks again in the same second: nothing is done twice, and soon nothing is left to do.
        """
        done = more = self._look_once(answer)
        for _ in range(ROUNDS if more and answer is None else 0):
            more = self._look_once()
            assert not more & done, f"it does the same again: {more & done}"
            done |= more
            if not more:
                break
        assert not more or answer is not None, f"it does not come to an end: {more}"
        return len(done)

    def _look_once(self, answer: Slurm | Unknown | None = None) -> set[tuple[str, ...]]:
        world = self.world
        observed = world.observe(answer)
        now = NOW + timedelta(seconds=world.now)
        whole = resolve(self.cluster, observed, self.memory, self.queues)
        plan = make_plan(whole, observed, self.memory, now)
        self.memory = plan.memory
        self.queues = whole.queues
        world.reconfigure(whole)
        most, size = world.pool.nodes.max, len(world.nodes)
        for action in plan.actions:
            if isinstance(action, CreatePod):
                assert ordinal(action.node) < most, "beyond max"
            if isinstance(answer, Unknown):
                assert isinstance(action, CreatePod | AnnotatePod | Own), "unknown did something"
            if isinstance(answer, Slurm) and len(answer.nodes) < size:
                assert not isinstance(action, PowerUp | Undrain), "half a list was taken for the whole"
            if isinstance(answer, Slurm) and isinstance(action, DeletePod):
                assert action.name.removeprefix("demo-") in answer.nodes, "no answer was taken for a proof"
        vacant, made = sum(1 for _ in world.vacant()), len(world.created)
        room = min(self.budget, self.own_budget or self.budget) - world.starting()
        spare = room - world.asked_again()
        held = world.given_up()
        world.carry_out(plan.actions)
        made = len(world.created) - made
        assert made <= max(0, room), "more pods are starting than the budgets allow"
        if spare > made and (vacant > made or self.capacity == "Autoscaled"):
            assert world.missing() <= held, "a pod of the minimum was not made"
        return targets(plan.actions)


@settings(LIVES, max_examples=18)
@given(st.integers(0, 2**32))
@example(143)  # a node comes up as headroom while others are held: what the jobs' comments say
@example(999999999)  # the pool has been made larger while the operator was away
def test_whatever_happens_no_job_is_lost_and_everything_comes_to_rest(seed: int) -> None:
    _live("Exclusive", seed)


@settings(LIVES, max_examples=10)
@given(st.integers(0, 2**32))
@example(2014)  # the operator comes back when the deadline of an eviction is over
def test_nor_where_kubernetes_uses_the_same_machines_and_those_go_back_to_it(seed: int) -> None:
    life = _live("Elastic", seed)
    owned = [node.name for node in life.world.machines.values() if node.owner]
    assert len(owned) == len(life.world.pods), owned


def _live(sharing: str, seed: int) -> Life:
    chance = Random(seed)  # noqa: S311 - so that a life can be lived again
    life = Life(chance, sharing)
    for _ in range(TROUBLED):
        life.trouble()
    life.world.fill(life.cluster.spec.pools[0].nodes.max)
    for _ in range(CALM + sum(job.seconds + START for job in life.world.jobs)):
        life.world.step()
        life.look()
    assert not [job for job in life.world.jobs if job.lost], "a job lost its pod"
    assert not [job for job in life.world.jobs if not job.done], "a job never ran"
    wanted = max(life.world.pool.nodes.min, life.world.pool.nodes.warm)
    assert len(life.world.pods) == wanted, sorted(life.world.pods)
    made = len(life.world.created)
    for _ in range(3 * TROUBLED):
        life.world.step()
        assert life.look() == 0, "it does not come to rest"
    assert len(life.world.created) == made
    return life


@pytest.mark.parametrize("sharing", ["Exclusive", "Elastic"])
@settings(LIVES, max_examples=12)
@given(seed=st.integers(0, 2**32))
@example(seed=8198)  # headroom is given the machine that it had, before the job that waits for one
def test_without_trouble_a_node_is_started_only_for_a_job_the_minimum_or_headroom(sharing: str, seed: int) -> None:
    chance = Random(seed)  # noqa: S311 - so that a life can be lived again
    life = Life(chance, sharing)
    world = life.world
    grants: dict[str, int] = {}
    for _ in range(TROUBLED):
        if chance.random() < 0.08:
            world.submit(chance.randint(1, world.pool.nodes.max), chance.randint(1, 30))
        world.fill(world.pool.nodes.max)
        before = {name: set(node.flags) for name, node in world.nodes.items()}
        world.step()
        for name, node in world.nodes.items():
            if "ALLOCATED" in node.flags and "ALLOCATED" not in before[name]:
                grants[name] = grants.get(name, 0) + 1
        life.look()
    extra = world.pool.nodes.min + sum(job.size for job in world.jobs) * world.pool.nodes.warm + world.pool.nodes.warm
    assert len(world.created) <= sum(grants.values()) + extra
