"""Random lives of a pool: jobs come and go, machines too, answers fail, the operator crashes. What must hold, holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from slurmcluster_operator.decide.plan import make_plan, resolve
from slurmcluster_operator.model.actions import AnnotatePod, CommentJob, CreatePod, Own, PowerUp, Undrain
from slurmcluster_operator.model.holds import Memory
from slurmcluster_operator.model.slurm import Slurm, Unknown
from tests.builders import NOW, cluster, pool_json
from tests.property.world import World

TROUBLED = 150
"""Seconds in which anything may happen."""
CALM = 150
"""Seconds after the last job in which everything must have come to rest: longer than any hold."""
START = 40
"""Seconds that a job's nodes may take to be free, powered down, and up again."""


def half(answer: Slurm, chance: Random) -> Slurm:
    """Return an answer from which nodes are missing."""
    kept = {name: node for name, node in answer.nodes.items() if chance.random() < 0.5}
    return replace(answer, nodes=kept or answer.nodes)


class Life:
    """One pool, one operator, and what happens to them."""

    def __init__(self, chance: Random) -> None:
        least = chance.randint(0, 2)
        most = chance.randint(max(1, least), 6)
        sizes = {"min": least, "max": most, "warm": chance.choice([0, 0, min(1, most)])}
        self.chance = chance
        self.cluster = cluster(pools=[pool_json(least, most) | {"nodes": sizes}])
        self.world = World(self.cluster, chance.randint(0, most))
        self.memory = Memory()
        self.away = 0
        """Seconds for which nobody looks."""

    def trouble(self) -> None:
        """Let a second pass in which something may go wrong."""
        world, chance = self.world, self.chance
        if chance.random() < 0.08:
            world.submit(chance.randint(1, world.pool.nodes.max), chance.randint(1, 30))
        if chance.random() < 0.05:
            self.memory = Memory()  # the operator has crashed
            self.away = chance.choice([0, 3, 12, 40])
        if chance.random() < 0.1:
            world.join_or_leave(chance)
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
        """Let the operator look once and act; return how many actions it took."""
        observed = self.world.observe(answer)
        now = NOW + timedelta(seconds=self.world.now)
        whole = resolve(self.cluster, observed, self.memory)
        plan = make_plan(whole, observed, self.memory, now)
        self.memory = plan.memory
        most = self.world.pool.nodes.max
        for action in plan.actions:
            if isinstance(action, CreatePod):
                assert int(action.node.rpartition("-")[2]) < most, "beyond max"
            if isinstance(answer, Unknown):
                assert isinstance(action, CreatePod | AnnotatePod | Own), "unknown did something"
            if isinstance(answer, Slurm) and len(answer.nodes) < most:
                assert not isinstance(action, PowerUp | Undrain), "half a list was taken for the whole"
        self.world.carry_out(plan.actions)
        return sum(not isinstance(action, AnnotatePod | CommentJob) for action in plan.actions)


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 2**32))
def test_whatever_happens_no_job_is_lost_and_everything_comes_to_rest(seed: int) -> None:
    chance = Random(seed)  # noqa: S311 - so that a life can be lived again
    life = Life(chance)
    for _ in range(TROUBLED):
        life.trouble()
    life.world.fill()
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


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 2**32))
def test_without_trouble_a_node_is_started_only_for_a_job_the_minimum_or_headroom(seed: int) -> None:
    chance = Random(seed)  # noqa: S311 - so that a life can be lived again
    life = Life(chance)
    world = life.world
    grants: dict[str, int] = {}
    for second in range(TROUBLED):
        if chance.random() < 0.08:
            world.submit(chance.randint(1, world.pool.nodes.max), chance.randint(1, 30))
        world.fill()
        before = {name: set(node.flags) for name, node in world.nodes.items()}
        world.step()
        for name, node in world.nodes.items():
            if "ALLOCATED" in node.flags and "ALLOCATED" not in before[name]:
                grants[name] = grants.get(name, 0) + 1
        life.look()
        del second
    extra = world.pool.nodes.min + sum(job.size for job in world.jobs) * world.pool.nodes.warm + world.pool.nodes.warm
    assert len(world.created) <= sum(grants.values()) + extra
