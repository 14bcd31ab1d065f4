from __future__ import annotations

from datetime import timedelta

import pytest

from slurmcluster_operator.decide.refresh import AT_ONCE, NUDGE_UNTIL, nudge, refresh
from slurmcluster_operator.model import names
from slurmcluster_operator.model.actions import AnnotatePod
from tests.builders import NOW, container, healthy, pod, slurmd_pod, starting

SOON = NOW + timedelta(seconds=2)


def test_pods_that_read_the_configuration_are_refreshed_when_it_changes() -> None:
    current = {names.HASH_ANNOTATION: "new"}
    pods = (
        pod(names.LOGIN, "demo-login-0", annotations={names.HASH_ANNOTATION: "old"}),
        pod(names.CONTROLLER, "demo-controller-0"),
        slurmd_pod("h100-0", annotations=current),
        slurmd_pod("h100-1", deleting=True),
        pod(names.DATABASE, "demo-database-0"),
    )
    assert list(refresh(healthy(pods=pods), "new")) == [
        AnnotatePod(name, names.HASH_ANNOTATION, "new") for name in ("demo-controller-0", "demo-login-0")
    ]


def test_one_look_refreshes_no_more_than_it_can_without_neglecting_all_else() -> None:
    pods = [slurmd_pod(f"h100-{number}") for number in range(AT_ONCE + 50)]
    first = list(refresh(healthy(pods=(*pods, pod(names.CONTROLLER, "demo-controller-0"))), "new"))
    assert len(first) == AT_ONCE
    assert first[0].name == "demo-controller-0"


def test_a_pod_that_is_placed_but_does_not_begin_is_nudged_once_a_second() -> None:
    stalled = slurmd_pod("h100-0", **{**starting(), "node_name": "w0"})
    (action,) = nudge(healthy(pods=(stalled,)), SOON)
    nudged = slurmd_pod("h100-0", **{**starting(), "node_name": "w0"}, annotations={action.annotation: action.value})
    assert list(nudge(healthy(pods=(nudged,)), SOON)) == []
    assert list(nudge(healthy(pods=(nudged,)), SOON + timedelta(seconds=1)))


@pytest.mark.parametrize(
    "changes",
    [
        {"node_name": ""},
        {"deleting": True},
        {"containers": (container("slurmd", ready=False),)},
        {"containers": (container("slurmd", ready=False, running=False, waiting="ImagePullBackOff"),)},
        {"created": NOW - NUDGE_UNTIL},
        {"created": SOON},
    ],
)
def test_no_other_pod_is_nudged(changes: dict[str, object]) -> None:
    fields = {**starting(), "node_name": "w0", **changes}
    assert list(nudge(healthy(pods=(slurmd_pod("h100-0", **fields),)), SOON)) == []
