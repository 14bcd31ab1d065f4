"""Random worlds: whatever is seen, what must never happen does not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from slurmcluster_operator.decide.nodes import SHRINKING
from slurmcluster_operator.decide.seats import FAILED
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import CreatePod, DeletePod, Drain, Undrain
from slurmcluster_operator.model.observed import Observed
from slurmcluster_operator.model.slurm import Slurm, SlurmNode, Unknown
from tests.builders import NOW, cluster, healthy, planned, pool_json, slurmd_pod, starting, unknown

FLAGS = st.sets(
    st.sampled_from(
        ["IDLE", "MIXED", "ALLOCATED", "COMPLETING", "DOWN", "DRAIN", "POWERED_DOWN", "POWERING_UP", "NOT_RESPONDING"]
    ),
    min_size=1,
    max_size=4,
)
REASONS = st.sampled_from(
    ["", "bad fan", SHRINKING, f"{FAILED}: no image", f"{names.DRAIN_PREFIX} its pod is being removed"]
)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Any, Observed]:
    least, most = sorted((draw(st.integers(0, 4)), draw(st.integers(1, 4))))
    whole = cluster(pools=[pool_json(least, max(most, 1))])
    pods = []
    for ordinal in draw(st.sets(st.integers(0, 6))):
        changes: dict[str, Any] = {
            "deleting": draw(st.booleans()),
            "ready": draw(st.booleans()),
            "ready_since": NOW,
            "phase": draw(st.sampled_from(["Running", "Running", "Failed"])),
        }
        never = draw(st.booleans())
        pods.append(slurmd_pod(f"h100-{ordinal}", whole, **(changes | (starting() if never else {}))))
    known = draw(st.sets(st.integers(0, 6)))
    nodes = {f"h100-{one}": SlurmNode(f"h100-{one}", frozenset(draw(FLAGS)), draw(REASONS)) for one in known}
    answer: Slurm | Unknown = unknown() if draw(st.booleans()) else Slurm(nodes=nodes)
    observed = healthy(slurmds=tuple(pods), slurm=answer)
    return whole, observed


def waits(node: SlurmNode | None) -> bool:
    """Tell whether slurmctld waits for a slurmd there, so that nothing can run."""
    return node is not None and node.starting


def given_up(node: SlurmNode) -> bool:
    return node.has("DOWN") and node.reason.startswith(FAILED)


@settings(deadline=None, max_examples=300)
@given(worlds(), st.integers(0, 100))
def test_nothing_forbidden_is_ever_planned(world: tuple[Any, Observed], seconds: int) -> None:
    whole, observed = world
    pool = whole.spec.pools[0]
    pods = {pod.name: pod for pod in observed.pods}
    plan = planned(whole, observed, NOW + timedelta(seconds=seconds))
    known = observed.slurm.nodes if isinstance(observed.slurm, Slurm) else {}
    created = [action.node for action in plan if isinstance(action, CreatePod)]
    assert len(created) == len(set(created))
    for action in plan:
        match action:
            case CreatePod(node=node):
                assert int(node.removeprefix("h100-")) < pool.nodes.max, "beyond max"
                assert f"demo-{node}" not in pods, "the same capacity twice"
            case DeletePod(name=name):
                pod = pods[name]
                assert not pod.deleting
                seen = known.get(pod.slurm_node)
                ended = pod.phase in {"Failed", "Succeeded"}
                assert ended or isinstance(observed.slurm, Slurm), "unknown deletes nothing"
                dead = ended or not pod.ever_started
                assert dead or (seen is not None and not seen.busy) or waits(seen), "deleted without proof of idleness"
                assert dead or seen is None or seen.off or seen.has("DRAIN") or waits(seen) or given_up(seen)
            case Undrain(nodes=nodes):
                assert all(known[node].reason.startswith(names.DRAIN_PREFIX) for node in nodes), (
                    "lifted a person's drain"
                )
            case Drain(nodes=nodes):
                assert not any(known[node].drained_by_others for node in nodes), "overwrote a reason"
            case _:
                pass


@settings(deadline=None, max_examples=300)
@given(worlds())
def test_what_was_created_is_not_created_again(world: tuple[Any, Observed]) -> None:
    whole, observed = world
    plan = planned(whole, observed)
    gone = {action.name for action in plan if isinstance(action, DeletePod)}
    made = tuple(slurmd_pod(action.node, whole, **starting()) for action in plan if isinstance(action, CreatePod))
    after = healthy(pods=(*(pod for pod in observed.pods if pod.name not in gone), *made), slurm=observed.slurm)
    again = planned(whole, after)
    repeated = {action.node for action in again if isinstance(action, CreatePod)} & {pod.slurm_node for pod in made}
    assert not repeated
