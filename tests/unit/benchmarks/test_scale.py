from __future__ import annotations

from collections import Counter

from benchmarks import scale, simulation
from slurmcluster_operator.decide.plan import make_plan, resolve
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.model.actions import CreatePod
from slurmcluster_operator.model.holds import Memory
from slurmcluster_operator.model.observed import Observed
from tests.builders import NOW


async def _seen(asked: int) -> tuple[Cluster, Observed]:
    every = simulation.places(400, asked)
    cluster = simulation.cluster(400)
    seen = await scale.observer(cluster, every).observe(cluster, scale.slurmrestd(every), NOW)
    return resolve(cluster, seen, Memory()), seen


def test_each_pool_holds_the_whole_mixture() -> None:
    for pool in range(simulation.POOLS):
        found = Counter(place.condition for place in simulation.places(400) if place.pool == f"h{pool}")
        assert found == simulation.MIXTURE


async def test_the_operator_finds_nothing_to_do_in_the_steady_cluster() -> None:
    cluster, seen = await _seen(0)
    assert len(seen.pods) == 360
    assert make_plan(cluster, seen, Memory(), NOW).actions == ()


async def test_it_starts_exactly_what_is_asked_for() -> None:
    cluster, seen = await _seen(20)
    actions = make_plan(cluster, seen, Memory(), NOW).actions
    assert [type(action) for action in actions] == [CreatePod] * 20


def test_the_whole_look_comes_first_and_is_the_sum_of_its_parts() -> None:
    timings = [scale.Timing("a", (10.0, 20.0)), scale.Timing("b", (100.0, 200.0))]
    rows = scale.rows("a look", timings)
    assert rows[0] == ("a look", "150 ms", "165.0 ms  (110.0 to 220.0, 2 runs)", "NO")
    assert [row[0] for row in rows[1:]] == ["  a", "  b"]


def test_every_part_is_timed() -> None:
    timings = scale.measure(nodes=400, asked=4, rounds=1)
    assert [timing.part for timing in timings][-2:] == ["plan", "status"]
    assert all(timing.median > 0 for timing in timings)
