"""A part that breaks is named by its condition, heals by itself, and no job is lost."""

from __future__ import annotations

import time

import pytest

from tests.e2e.support import Person, SlurmCluster, eventually

SAVED = 6
"""Seconds after which slurmctld has saved that a job runs: it saves its state at most every five (state_save.c).

A slurmctld that is killed before that starts the job anew, or does not know it at all: that is Slurm's own limit."""

PARTS = {
    # part → (process, condition)
    "accounting": ("slurmdbd", "AccountingReady"),
    "database": ("mariadbd", "AccountingReady"),
    "restapi": ("slurmrestd", "RestReady"),
    "controller": ("slurmctld", "ControllerReady"),
    "login": ("sshd", "LoginReady"),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_killed_part_is_named_and_heals(main: SlurmCluster, people: dict[str, Person], part: str) -> None:
    process, condition = PARTS[part]
    main.wait_condition("Ready", "True", within=60)
    job = main.sbatch(people["alice"], "sleep 18; echo survived", "-p gpu")
    main.wait_job(job, "RUNNING")
    time.sleep(SAVED)
    before = main.events()
    main.kill(part, process)
    assert f"main-{part}" in main.wait_event(f"{condition} is False", before)
    main.wait_event("Ready is False", before)
    main.wait_condition("Ready", "True", within=90)
    main.wait_job(job)
    assert main.output(people["alice"], job) == "survived\n"
    assert "Restarts=0" in main.admin(f"scontrol -o show job {job}")


def test_all_jobs_of_a_slurmdbd_outage_are_accounted_afterwards(main: SlurmCluster, people: dict[str, Person]) -> None:
    main.wait_condition("Ready", "True", within=60)
    main.ctl("scale", "statefulset", "main-database", "--replicas=0")
    main.kill("accounting", "slurmdbd")
    try:
        jobs = [main.sbatch(people["bob"], "true", "-J outage") for _ in range(3)]
        for job in jobs:
            main.wait_job(job)
    finally:
        main.ctl("scale", "statefulset", "main-database", "--replicas=1")
    main.wait_condition("Ready", "True", within=90)

    def recorded() -> bool:
        shown = main.ssh(people["bob"], f"sacct -X -n -P -o JobID,State -j {','.join(jobs)}").split()
        assert shown == [f"{job}|COMPLETED" for job in jobs], shown
        return True

    eventually("all jobs are in sacct", recorded, within=60)


def test_a_slurmd_that_dies_comes_back_into_service(main: SlurmCluster, people: dict[str, Person]) -> None:
    main.ctl("delete", "pod", "main-h100-1", "--wait=false")
    eventually(
        "a new pod serves h100-1",
        lambda: "IDLE" in main.admin("scontrol -o show node h100-1 | grep -v DRAIN | grep -v NOT_RESPONDING || true"),
        within=60,
    )
    main.wait_condition("Ready", "True", within=60)
    assert main.run_job(people["alice"], "hostname", "-w h100-1") == "h100-1\n"


def test_a_pod_that_is_deleted_waits_for_its_job(main: SlurmCluster, people: dict[str, Person]) -> None:
    main.wait_condition("Ready", "True", within=60)
    job = main.sbatch(people["alice"], "sleep 8; echo survived", "-w h100-0 --exclusive")
    main.wait_job(job, "RUNNING")
    main.ctl("delete", "pod", "main-h100-0", "--wait=false")
    eventually("the node is drained", lambda: "DRAIN" in main.admin("scontrol -o show node h100-0"), within=10)
    assert "slurmcluster: its pod is being removed" in main.admin("sinfo -R -o '%60E %n'")
    main.wait_job(job)
    assert main.output(people["alice"], job) == "survived\n"
    main.wait_condition("Ready", "True", within=90)
    assert "DRAIN" not in main.admin("scontrol -o show node h100-0")


def test_a_persons_drain_stays(main: SlurmCluster) -> None:
    main.admin("scontrol update nodename=h100-1 state=drain reason='bad fan'")
    main.ctl("delete", "pod", "main-h100-1", "--wait=true")
    eventually(
        "the pod is back", lambda: main.json("get", "pod", "main-h100-1")["status"]["phase"] == "Running", within=60
    )
    main.wait_condition("PoolsReady", "False", words="bad fan", within=30)
    time.sleep(3)
    shown = main.admin("scontrol -o show node h100-1")
    assert "DRAIN" in shown
    assert "bad fan" in shown
    main.admin("scontrol update nodename=h100-1 state=undrain")
    main.wait_condition("Ready", "True", within=30)
