"""Pools that grow from zero and shrink back, as the queue decides."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

import pytest

from tests.e2e.elastic import IDLE_SECONDS, Elastic
from tests.e2e.support import FLEET, eventually, quoted

TASKS = 50


@pytest.fixture
def calm(elastic: Elastic) -> Elastic:
    """The elastic cluster with nothing running on it."""
    elastic.clear()
    return elastic


def test_from_zero_nodes_a_job_on_two_nodes_gets_two_pods(calm: Elastic) -> None:
    with calm.recorded() as record:
        job = calm.sbatch("srun hostname", "-p h100 -N 2 --gres=gpu:h100:8")
        calm.cluster.wait_job(job)
    assert set(calm.output(job).split()) == {"h100-0", "h100-1"}
    assert record.nodes == {"h100-0", "h100-1"}


def test_a_heterogeneous_job_gets_both_its_groups_together_and_runs_across_them(calm: Elastic) -> None:
    with calm.recorded() as record:
        groups = "-p h100 -N 1 --gres=gpu:h100:8 : -p a100 -N 2 --gres=gpu:a100:4"
        job = calm.sbatch("srun --het-group=0,1 hostname", groups)
        calm.cluster.wait_job(job)
    assert set(calm.output(job).split()) == {"h100-0", "a100-0", "a100-1"}
    assert record.nodes == {"h100-0", "a100-0", "a100-1"}


def test_an_array_of_tasks_with_one_gpu_each_packs_eight_to_a_node(calm: Elastic) -> None:
    work = "echo $(hostname) $(date +%s.%N); sleep 2; date +%s.%N"
    job = calm.sbatch(work, f"--array=0-{TASKS - 1} -p h100 --gres=gpu:1 --mem=100 --output=array-%a.out")
    with calm.recorded() as record:
        eventually("the array is done", lambda: not calm.cluster.admin(f"squeue -h -j {job}"), within=90, every=1)
    assert record.nodes == {"h100-0", "h100-1"}
    printed = calm.cluster.ssh(calm.alice, f"cat $(seq -f 'array-%g.out' 0 {TASKS - 1})")
    spans = [(node, float(start), float(end)) for node, start, end in re.findall(r"(h100-\d) (\S+)\n(\S+)", printed)]
    assert len(spans) == TASKS
    at_once = [sum(n == node and a <= start < b for n, a, b in spans) for node, start, _ in spans]
    assert max(at_once) == 8


@pytest.mark.parametrize(
    ("options", "nodes"),
    [
        ("--constraint=a100", {"a100-0"}),
        ("--gres=gpu:a100:4", {"a100-0"}),
        ("-p h100 --exclusive -N 1", {"h100-0"}),
        ("-p a100 -w a100-1", {"a100-1"}),
    ],
)
def test_exactly_the_nodes_start_that_slurm_would_use(calm: Elastic, options: str, nodes: set[str]) -> None:
    with calm.recorded() as record:
        calm.cluster.wait_job(calm.sbatch("true", options))
    assert record.nodes == nodes


def test_small_jobs_that_want_nodes_for_themselves_get_one_each(calm: Elastic) -> None:
    with calm.recorded() as record:
        # A machine has two cores: without --exclusive both would run on one.
        jobs = [calm.sbatch("sleep 5", "-p a100 -n 1 --mem=100 --exclusive") for _ in range(2)]
        for job in jobs:
            calm.cluster.wait_job(job)
    assert [len(calm.use(job).nodes) for job in jobs] == [1, 1]
    assert set().union(*(calm.use(job).nodes for job in jobs)) == {"a100-0", "a100-1"} == record.nodes


def test_no_node_starts_for_jobs_before_they_can_run_and_then_exactly_theirs(calm: Elastic) -> None:
    admin = calm.cluster.admin
    with calm.recorded() as record:
        held = calm.sbatch("true", "--hold -p a100 -w a100-0")
        after = calm.sbatch("true", f"--dependency=afterok:{held} -p a100 -w a100-1")
        later = calm.sbatch("true", "--begin=now+1hour -p h100 -w h100-0")
        over = calm.sbatch("true", "--account=small -p h100 -w h100-1 --gres=gpu:h100:2")
        waiting = {held: "JobHeldUser", after: "Dependency", later: "BeginTime", over: "AssocGrpGRES"}
        # Twice as long as slurmctld's backfill scheduler waits between two rounds.
        time.sleep(20)
        shown = {job: calm.job(job)["state_reason"] for job in waiting}
        assert {job: reason.split("/")[0] for job, reason in shown.items()} == waiting
        assert calm.cluster.status()["queue"]["pending"] == len(waiting)
        assert calm.cluster.status()["queue"]["pendingNodes"] == 0
        assert record.nodes == calm.pods() == set()

        admin(f"scontrol release {held}")
        for job in (held, after):
            calm.cluster.wait_job(job)
        assert record.nodes == {"a100-0", "a100-1"}
        admin(f"scontrol update jobid={later} starttime=now")
        calm.cluster.wait_job(later)
        assert record.nodes == {"a100-0", "a100-1", "h100-0"}
        admin("sacctmgr -i modify account small set GrpTRES=gres/gpu=2")
        try:
            calm.cluster.wait_job(over)
        finally:
            admin("sacctmgr -i modify account small set GrpTRES=gres/gpu=1")
    assert record.nodes == {"a100-0", "a100-1", "h100-0", "h100-1"}
    assert [calm.use(job).nodes for job in waiting] == [{"a100-0"}, {"a100-1"}, {"h100-0"}, {"h100-1"}]


def test_why_says_what_a_job_waits_for(calm: Elastic) -> None:
    held = calm.sbatch("true", "--hold")
    after = calm.sbatch("true", f"--dependency=afterok:{held}")
    assert f"scontrol release {held}" in calm.cluster.ssh(calm.alice, f"why {held}")
    assert f"until job {held} has ended" in calm.why(after)
    both = calm.cluster.ssh(calm.alice, "why")
    assert f"Job {held} is pending" in both
    assert f"Job {after} is pending" in both
    assert "there is no job 999999" in calm.cluster.ssh(calm.alice, "why 999999", check=False)


def test_a_job_larger_than_its_partition_is_refused_in_words(calm: Elastic) -> None:
    said = calm.cluster.ssh(calm.alice, "sbatch -p h100 -N 3 --wrap true", check=False)
    assert "Node count specification invalid" in said or "configuration is not available" in said
    said = calm.cluster.ssh(calm.alice, "sbatch -p h100 --gres=gpu:h100:9 --wrap true", check=False)
    assert "configuration is not available" in said


def test_a_job_that_waits_for_a_machine_says_so_and_starts_when_one_joins(calm: Elastic) -> None:
    kubectl, machine = calm.cluster.kubectl, calm.cluster.workers[1]
    kubectl("label", "node", machine, f"{FLEET}-")
    try:
        eventually("one machine is left", lambda: calm.pool("h100")["feasible"] == 1, within=10)
        job = calm.sbatch("srun hostname", "-p h100 -N 2")
        words = "pool h100: there are Kubernetes nodes for 1 of its 2 nodes now"
        eventually("the job is told", lambda: words in calm.job(job)["admin_comment"], within=20)
        eventually("slurmctld has looked at it", lambda: calm.job(job)["state_reason"] != "None", within=15)
        assert calm.job(job)["job_state"] == ["PENDING"]
        assert calm.pool("h100")["reason"] == words
        for said in (calm.cluster.ssh(calm.alice, f"why {job}"), calm.why(job)):
            assert said.startswith(f"Job {job} is pending: ")
            assert "Kubernetes nodes for 1 of its 2 nodes" in said
            assert "no Kubernetes node for it" in said
        assert "no Kubernetes node for it" in calm.cluster.admin("sinfo -R -h -o %E")
        assert calm.pods() == set()
    finally:
        kubectl("label", "node", machine, f"{FLEET}={calm.cluster.namespace}.{calm.cluster.name}", "--overwrite")
    calm.cluster.wait_job(job, within=30)
    eventually("the comment is taken back", lambda: not calm.job(job)["admin_comment"], within=15)


def test_idle_nodes_go_and_busy_ones_stay(calm: Elastic) -> None:
    with calm.recorded() as record:
        busy = calm.sbatch("sleep 600", "-p h100")
        calm.cluster.wait_job(calm.sbatch("true", "-p a100"))
        eventually("the idle node goes", lambda: calm.pods() == {"h100-0"}, within=40)
        time.sleep(10)
    # slurmd's pod would wait for its job, too; it is not even asked to go.
    assert record.deleted == {"a100-0"}
    assert calm.pods() == {"h100-0"}
    assert calm.job(busy)["job_state"] == ["RUNNING"]


def test_each_pool_has_its_own_idle_time(elastic: Elastic) -> None:
    nodes = json.loads(elastic.cluster.admin("scontrol show nodes --json"))["nodes"]
    times = {node["name"]: node["suspend_time"]["number"] for node in nodes}
    assert times == {
        "h100-0": IDLE_SECONDS,
        "h100-1": IDLE_SECONDS,
        "a100-0": IDLE_SECONDS + 1,
        "a100-1": IDLE_SECONDS + 1,
    }
    assert "slurmcluster-" not in elastic.cluster.ssh(elastic.alice, "sinfo -h -o %P")


@pytest.mark.parametrize("moment", ["powered down", "its pod is asked to go"])
def test_a_job_that_arrives_while_nodes_are_on_their_way_down_waits_for_one_start_at_most(
    calm: Elastic, moment: str
) -> None:
    with calm.recorded() as record:
        arrived: Callable[[], bool] = {
            "powered down": lambda: True,
            "its pod is asked to go": lambda: "a100-0" in record.deleted,
        }[moment]
        calm.cluster.wait_job(calm.sbatch("true", "-p a100 -N 2"))
        eventually(
            f"on its way down: {moment}",
            lambda: "POWERING_DOWN" in calm.states()["a100-0"] and arrived(),
            within=40,
            every=0.1,
        )
        job = calm.sbatch("srun hostname", "-p a100 -N 2")
        calm.cluster.wait_job(job, within=40)
    assert set(calm.output(job).split()) == {"a100-0", "a100-1"}
    assert calm.job(job)["restart_cnt"] == 0
    assert {node: len(uids) for node, uids in record.uids.items()} == {"a100-0": 2, "a100-1": 2}, record.lines


def test_a_person_powers_nodes_up_and_down(calm: Elastic) -> None:
    calm.cluster.admin("scontrol update nodename=a100-1 state=power_up")
    eventually("it is up", lambda: calm.states()["a100-1"] == {"IDLE", "CLOUD"}, within=20)
    assert calm.pods() == {"a100-1"}
    calm.cluster.admin("scontrol update nodename=a100-1 state=power_down")
    eventually("its pod is gone", lambda: calm.pods() == set(), within=15)
    job = calm.sbatch("sleep 15", "-p a100 -w a100-0")
    calm.cluster.wait_job(job, "RUNNING")
    calm.cluster.admin("scontrol update nodename=a100-0 state=power_down_asap reason=maintenance")
    after = calm.sbatch("hostname", "-p a100")
    calm.cluster.wait_job(after)
    assert calm.output(after).strip() == "a100-1"
    assert calm.job(job)["job_state"] == ["RUNNING"]
    # Without "asap" a node takes further jobs until it is idle; it may not go before.
    patient = calm.sbatch("sleep 8", "-p a100 -w a100-1")
    calm.cluster.wait_job(patient, "RUNNING")
    with calm.recorded() as record:
        calm.cluster.admin("scontrol update nodename=a100-1 state=power_down")
        for one in (job, patient):
            calm.cluster.wait_job(one)
        eventually("both pods are gone", lambda: calm.pods() == set(), within=15)
    ended = {"a100-0": calm.use(job).end, "a100-1": calm.use(patient).end}
    assert [calm.job(one)["restart_cnt"] for one in (job, patient)] == [0, 0]
    asked = dict(record.deletions)
    assert asked.keys() == ended.keys()
    assert all(asked[node] >= ended[node] for node in ended), (record.lines, ended)


def test_a_persons_drain_outlives_that_its_node_is_stopped(calm: Elastic) -> None:
    calm.cluster.wait_job(calm.sbatch("true", "-p a100 -w a100-0"))
    calm.cluster.admin("scontrol update nodename=a100-0 state=drain reason=" + quoted("bad fan, Ann"))
    try:
        eventually("its pod is gone", lambda: calm.pods() == set(), within=40)
        eventually("it is off", lambda: "POWERED_DOWN" in calm.states()["a100-0"], within=15)
        job = calm.sbatch("hostname", "-p a100")
        calm.cluster.wait_job(job)
        assert calm.output(job).strip() == "a100-1"
        assert "bad fan, Ann" in calm.cluster.admin("sinfo -R -h -o %E")
    finally:
        calm.cluster.admin("scontrol update nodename=a100-0 state=undrain")


def test_headroom_is_kept_and_filled_up_again(calm: Elastic) -> None:
    a100 = calm.cluster.spec["pools"][1]
    with calm.edited(a100={"nodes": {**a100["nodes"], "warm": 1}}):
        eventually("one free node", lambda: calm.pods() == {"a100-0"}, within=30)
        time.sleep(3 * IDLE_SECONDS)
        assert calm.pods() == {"a100-0"}
        job = calm.sbatch("sleep 20", "-p a100")
        calm.cluster.wait_job(job, "RUNNING")
        eventually("another free node", lambda: calm.pods() == {"a100-0", "a100-1"}, within=20)
    calm.cancel()
    eventually("no free node", lambda: calm.pods() == set(), within=40)
