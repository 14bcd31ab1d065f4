from __future__ import annotations

from datetime import timedelta

from slurmcluster_operator.decide.capacity import HELD, NO_MACHINE, closed_seats
from slurmcluster_operator.decide.seats import find_seats
from slurmcluster_operator.model.actions import Drain, Undrain
from slurmcluster_operator.model.holds import Hold
from slurmcluster_operator.model.slurm import Slurm
from tests.builders import (
    NOW,
    cluster,
    fleet,
    healthy,
    kube_node,
    planned,
    pool_json,
    slurm,
    slurmd_pod,
    starting,
    unknown,
)

OFF = "IDLE+CLOUD+POWERED_DOWN"
CLOSED = f"IDLE+CLOUD+DRAIN+POWERED_DOWN~{NO_MACHINE}"
MACHINES = (kube_node("w0"), kube_node("w1"))


def states(count: int, state: str = OFF, **others: str) -> Slurm:
    return slurm(
        **{f"h100-{number}": state for number in range(count)} | {k.replace("_", "-"): v for k, v in others.items()}
    )


def test_slurm_is_offered_as_many_nodes_as_there_are_machines() -> None:
    whole = cluster(pools=[pool_json(0, 5)])
    observed = healthy(slurmds=(), slurm=states(5), fleet=fleet(*MACHINES))
    assert planned(whole, observed) == (Drain(("h100-2", "h100-3", "h100-4"), NO_MACHINE),)


def test_with_an_autoscaler_all_are_offered() -> None:
    whole = cluster(pools=[pool_json(0, 5, capacity="Autoscaled")])
    assert planned(whole, healthy(slurmds=(), slurm=states(5), fleet=fleet(*MACHINES))) == ()
    observed = healthy(slurmds=(), slurm=states(5, CLOSED), fleet=fleet(*MACHINES))
    assert planned(whole, observed) == (Undrain(tuple(f"h100-{number}" for number in range(5))),)


def test_a_machine_that_joins_opens_a_seat_at_once() -> None:
    whole = cluster(pools=[pool_json(0, 5)])
    answer = states(5, CLOSED, h100_0=OFF, h100_1=OFF)
    observed = healthy(slurmds=(), slurm=answer, fleet=fleet(*MACHINES, kube_node("w2")))
    assert planned(whole, observed) == (Undrain(("h100-2",)),)


def test_the_choice_of_open_seats_does_not_wander() -> None:
    whole = cluster(pools=[pool_json(0, 3)])
    answer = slurm(**{"h100-0": CLOSED, "h100-1": OFF, "h100-2": OFF})
    assert planned(whole, healthy(slurmds=(), slurm=answer, fleet=fleet(*MACHINES))) == ()


def test_a_node_that_is_up_is_never_closed() -> None:
    whole = cluster(pools=[pool_json(0, 3)])
    answer = slurm(**{"h100-0": OFF, "h100-1": OFF, "h100-2": "IDLE+CLOUD"})
    observed = healthy(slurmds=(slurmd_pod("h100-2", whole, node_name="w0"),), slurm=answer, fleet=fleet(*MACHINES))
    assert planned(whole, observed) == (Drain(("h100-1",), NO_MACHINE),)


def test_a_start_that_waits_for_a_machine_takes_its_room() -> None:
    whole = cluster(pools=[pool_json(0, 3)])
    answer = slurm(**{"h100-0": "MIXED+CLOUD+POWERING_UP+NOT_RESPONDING", "h100-1": OFF, "h100-2": OFF})
    observed = healthy(slurmds=(slurmd_pod("h100-0", whole, **starting()),), slurm=answer, fleet=fleet(*MACHINES))
    assert planned(whole, observed) == (Drain(("h100-2",), NO_MACHINE),)


def test_a_persons_drain_takes_no_room_and_stays() -> None:
    whole = cluster(pools=[pool_json(0, 4)])
    answer = states(4, CLOSED, h100_0="IDLE+CLOUD+DRAIN+POWERED_DOWN~bad fan", h100_1=OFF)
    observed = healthy(slurmds=(), slurm=answer, fleet=fleet(*MACHINES))
    assert planned(whole, observed) == (Undrain(("h100-2",)),)


def test_nodes_that_are_cordoned_not_ready_not_granted_or_too_small_do_not_count() -> None:
    whole = cluster(pools=[pool_json(0, 2)])
    machines = (
        kube_node("w0", schedulable=False),
        kube_node("w1", ready=False),
        kube_node("w2", labels={}),
        kube_node("w3", allocatable={"nvidia.com/gpu": "7"}),
    )
    observed = healthy(slurmds=(), slurm=states(2), fleet=fleet(*machines))
    assert planned(whole, observed) == (Drain(("h100-0", "h100-1"), NO_MACHINE),)


def test_half_of_a_list_opens_and_closes_nothing() -> None:
    whole = cluster(pools=[pool_json(0, 5)])
    half = slurm(**{"h100-3": CLOSED, "h100-4": CLOSED})
    assert planned(whole, healthy(slurmds=(), slurm=half)) == ()
    assert planned(whole, healthy(slurmds=(), slurm=states(3), fleet=fleet())) == ()
    assert planned(whole, healthy(slurmds=(), slurm=unknown(), fleet=fleet())) == ()


def test_a_pool_that_is_held_is_closed_with_the_cause_until_it_is_tried_again() -> None:
    whole = cluster(pools=[pool_json(0, 2)])
    observed = healthy(slurmds=(), slurm=states(2))
    hold = {"h100": Hold("ImageNotPullable", "no such image", 1, NOW + timedelta(seconds=30), "t", pool_wide=True)}
    seats, machines = find_seats(whole, observed, {}), {"h100": ("w0", "w1")}
    reason = f"{HELD}: no such image"
    assert closed_seats(whole, seats, machines, hold, NOW) == {"h100-0": reason, "h100-1": reason}
    assert closed_seats(whole, seats, machines, hold, NOW + timedelta(seconds=30)) == {}
