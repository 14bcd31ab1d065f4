"""Edits reach the running cluster within seconds, without a restart and without touching jobs."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import user
from tests.e2e.support import Person, SlurmCluster, eventually


@pytest.fixture
def edited(main: SlurmCluster, people: dict[str, Person]) -> Iterator[SlurmCluster]:
    """``main`` with a job running; it must run on, and slurmctld with it. The spec is put back afterwards."""
    main.wait_condition("Ready", "True", within=60)
    before = copy.deepcopy(main.spec)
    job = main.sbatch(people["alice"], "sleep 15; echo survived", "-p gpu")
    main.wait_job(job, "RUNNING")
    controller = _identity(main)
    yield main
    assert _identity(main) == controller, "slurmctld's pod or container was restarted"
    main.wait_job(job)
    assert main.output(people["alice"], job) == "survived\n"
    main.spec = before
    main.apply()
    main.wait_condition("ConfigApplied", "True", within=30)


def _identity(cluster: SlurmCluster) -> tuple[str, list[int]]:
    pod = cluster.pod("controller")
    return pod["metadata"]["uid"], [one["restartCount"] for one in pod["status"]["containerStatuses"]]


def test_a_slurm_conf_value(edited: SlurmCluster) -> None:
    edited.spec["slurmConf"] = {"MinJobAge": "777"}
    edited.apply()
    eventually(
        "MinJobAge is applied", lambda: "777" in edited.admin("scontrol show config | grep -i minjobage"), within=10
    )


def test_a_partition(edited: SlurmCluster, people: dict[str, Person]) -> None:
    edited.spec["partitions"].append({"name": "short", "pools": ["h100", "iso"], "maxTime": "5m"})
    edited.apply()
    eventually(
        "the partition is there",
        lambda: (
            "0:05:00" in edited.ssh(people["alice"], "sinfo -h -p short -o %l")
            or "5:00" in edited.ssh(people["alice"], "sinfo -h -p short -o %l")
        ),
        within=10,
    )
    assert edited.run_job(people["bob"], "hostname", "-p short -w iso-0") == "iso-0\n"


def test_a_user(edited: SlurmCluster, people: dict[str, Person]) -> None:
    edited.spec["users"].append(user(people["carol"]))
    edited.apply()
    eventually("carol can log in", lambda: edited.ssh(people["carol"], "id -un") == "carol\n", within=10)
    eventually(
        "carol's jobs run",
        lambda: edited.run_job(people["carol"], "srun bash -c 'id -un; pwd'", "-p iso") == "carol\n/home/carol\n",
        within=30,
    )


def test_a_value_that_needs_a_restart_says_so(edited: SlurmCluster) -> None:
    edited.spec["controller"] = {**edited.spec.get("controller", {}), "resources": {"requests": {"memory": "64Mi"}}}
    edited.apply()
    seen = edited.wait_condition("ConfigApplied", "False", reason="RestartNeeded", within=15)
    assert "kubectl delete pod main-controller-0" in seen["message"]
    assert edited.conditions()["Ready"]["status"] == "True"


def test_a_value_that_slurm_refuses_changes_nothing(main: SlurmCluster, people: dict[str, Person]) -> None:
    main.wait_condition("Ready", "True", within=60)
    before = copy.deepcopy(main.spec)
    main.spec["slurmConf"] = {"PriorityType": "priority/nosuch"}
    main.apply()
    seen = main.wait_condition("ConfigApplied", "False", reason="ReconfigureFailed", within=40)
    assert "priority/nosuch" in seen["message"] or "priority" in seen["message"], seen
    assert main.run_job(people["alice"], "echo still here") == "still here\n"
    main.spec = before
    main.apply()
    main.wait_condition("ConfigApplied", "True", within=60)
    time.sleep(1)
    assert main.conditions()["Ready"]["status"] == "True"
