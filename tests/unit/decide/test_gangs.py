from __future__ import annotations

from dataclasses import replace

import pytest

from slurmcluster_operator.manifests.slurmd import consuming
from slurmcluster_operator.model.actions import CreatePod, RequestMachines
from slurmcluster_operator.model.observed import Observed
from slurmcluster_operator.model.slurm import Job
from tests.builders import cluster, healthy, planned, pool_json, slurm

OFF = "IDLE+CLOUD+POWERED_DOWN"
RISING = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"
AUTOSCALED = pool_json(0, 4, capacity="Autoscaled")


def world(*, nodes: str = "h100-[0-1]", provisioning: bool = True) -> Observed:
    jobs = (Job(7, frozenset({"RUNNING", "CONFIGURING"}), nodes=nodes, partitions=("gpu",)),)
    states = {f"h100-{number}": RISING if number < 2 else OFF for number in range(4)}
    return healthy(slurmds=(), slurm=replace(slurm(**states), jobs=jobs), provisioning=provisioning)


def test_the_machines_of_a_job_are_asked_for_together_and_its_pods_say_so() -> None:
    actions = planned(cluster(pools=[AUTOSCALED]), world())
    (request,) = (one for one in actions if isinstance(one, RequestMachines))
    assert (request.name, request.first) == ("demo-job-7-h100", "h100-0")
    template, wanted = request.manifests
    assert wanted["spec"]["podSets"] == [{"count": 2, "podTemplateRef": {"name": template["metadata"]["name"]}}]
    (container,) = template["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    pods = [one.manifest for one in actions if isinstance(one, CreatePod)]
    assert len(pods) == 2
    assert all(consuming("demo-job-7-h100").items() <= pod["metadata"]["annotations"].items() for pod in pods)


@pytest.mark.parametrize(
    ("pools", "seen"),
    [
        ([pool_json(0, 4)], world()),
        ([AUTOSCALED], world(provisioning=False)),
        ([AUTOSCALED], world(nodes="h100-0")),
    ],
    ids=["fixed", "not installed", "one node"],
)
def test_otherwise_nothing_is_asked_for(pools: list[dict[str, object]], seen: Observed) -> None:
    actions = planned(cluster(pools=pools), seen)
    assert [one for one in actions if isinstance(one, CreatePod)]
    assert not [one for one in actions if isinstance(one, RequestMachines)]


def test_a_start_budget_delays_pods_but_not_what_is_asked_for() -> None:
    actions = planned(cluster(pools=[AUTOSCALED | {"nodes": {"min": 0, "max": 4, "maxStarting": 1}}]), world())
    assert [one.node for one in actions if isinstance(one, CreatePod)] == ["h100-0"]
    (request,) = (one for one in actions if isinstance(one, RequestMachines))
    assert request.manifests[1]["spec"]["podSets"][0]["count"] == 2
