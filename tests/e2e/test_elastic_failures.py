"""Elastic pools when something is wrong: images, quotas, machines, edits under running jobs, crashes, bad answers."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from slurmcluster_operator.model.names import SLURMCTLD_PORT
from tests.e2e.elastic import Elastic, Record
from tests.e2e.faults import FaultProxy, fault
from tests.e2e.fleet import OWNER, own
from tests.e2e.machines import needs_localkube, port_cut_off, processes, stopped, thread_stopped
from tests.e2e.support import FLEET, Kubectl, SlurmCluster, eventually

Json = dict[str, Any]

OPERATOR = ("-n", "slurmcluster-system")
NO_IMAGE = "registry.invalid/slurmd:none"


@pytest.fixture
def calm(elastic: Elastic) -> Elastic:
    """The elastic cluster with nothing running on it."""
    elastic.clear()
    return elastic


def told(elastic: Elastic, job: str, words: str, within: float = 30) -> None:
    """Wait until a job carries words."""
    eventually(f"job {job} is told: {words}", lambda: words in elastic.job(job)["admin_comment"], within=within)


def test_an_image_that_cannot_be_pulled_leaves_other_pools_alone_and_is_explained(calm: Elastic) -> None:
    before = calm.cluster.events()
    first = calm.sbatch("sleep 600", "-p gpu -C h100 -N 2 --exclusive")
    calm.cluster.wait_job(first, "RUNNING")
    with calm.edited(a100={"image": NO_IMAGE}):
        stuck = calm.sbatch("true", "-p a100 -w a100-0 --mem=100")
        # On the same node: a free one is left to be closed.
        moves = calm.sbatch("hostname", "-p gpu -N 1 --mem=100 --exclude=a100-1")
        told(calm, stuck, NO_IMAGE)
        eventually("it is given to the broken pool", lambda: calm.job(moves)["nodes"] == "a100-0", within=10)
        calm.cluster.admin(f"scancel {first}")
        other = calm.sbatch("hostname", "-p h100")
        calm.cluster.wait_job(other)
        calm.cluster.wait_event("a100-0: could not be started", before, within=60)
        eventually(
            "the pool is closed", lambda: "cannot be started now" in calm.cluster.admin("sinfo -R -h -o %E"), within=20
        )
        assert NO_IMAGE in calm.pool("a100")["reason"]
        assert "tried again at" in calm.pool("a100")["reason"]
        anywhere = calm.sbatch("hostname", "-p gpu -N 1 --gres=gpu:4")
        calm.cluster.wait_job(anywhere)
        assert calm.output(anywhere).startswith("h100-")
        assert calm.job(stuck)["job_state"] == ["PENDING"]
        told(calm, stuck, "pool a100 cannot start nodes")
        calm.cluster.wait_job(moves)
        assert calm.output(moves).startswith("h100-")
        assert calm.job(moves)["restart_cnt"] >= 1
    calm.cluster.wait_job(stuck, within=60)
    eventually("nothing is said any more", lambda: not calm.job(stuck)["admin_comment"], within=15)


def test_a_quota_is_explained_and_when_it_is_lifted_the_job_runs(calm: Elastic) -> None:
    cluster = calm.cluster
    cluster.kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "no-gpus", "namespace": cluster.namespace},
            "spec": {"hard": {"requests.nvidia.com/gpu": "0"}},
        }
    )
    try:
        job = calm.sbatch("true", "-p h100")
        told(calm, job, "exceeded quota: no-gpus")
        eventually("it is in the status", lambda: "exceeded quota" in calm.pool("h100")["reason"], within=20)
        eventually("it is on the node", lambda: "exceeded quota" in cluster.admin("sinfo -R -h -o %E"), within=30)
    finally:
        cluster.ctl("delete", "resourcequota", "no-gpus")
    cluster.wait_job(job, within=90)


def test_a_machine_with_less_than_its_description_is_explained_and_a_right_description_heals(calm: Elastic) -> None:
    machine = calm.cluster.spec["pools"][0]["machine"]
    with calm.edited(h100={"machine": {**machine, "memory": "4000Gi"}}):
        eventually(
            "slurmctld knows",
            lambda: "RealMemory=4096000" in calm.cluster.admin("scontrol show node h100-0"),
            within=20,
        )
        job = calm.sbatch("true", "-p h100")
        eventually("it is on the node", lambda: "Low RealMemory" in calm.cluster.admin("sinfo -R -h -o %E"), within=30)
        eventually("it is in the status", lambda: "Low RealMemory" in calm.pool("h100")["reason"], within=20)
        assert calm.job(job)["restart_cnt"] >= 1
    calm.cluster.wait_job(job, within=120)


def test_a_slurmd_that_crashes_is_given_up_with_its_words_and_the_job_goes_on_later(calm: Elastic) -> None:
    # An image that has no slurmd.
    wrong = calm.cluster.pod("controller")["spec"]["containers"][0]["image"]
    with calm.edited(a100={"image": wrong}):
        job = calm.sbatch("true", "-p a100 -w a100-1")
        told(calm, job, "pod elastic-a100-1, container slurmd ended", within=60)
        given_up = "scontrol show node a100-1 | grep 'Reason=slurmcluster: could not be started' || true"
        eventually("it is given up", lambda: calm.cluster.admin(given_up), within=90)
        assert calm.job(job)["restart_cnt"] == 1
        eventually("its pod is gone", lambda: calm.pods() == set(), within=20)
    calm.cluster.wait_job(job, within=60)


def test_a_node_that_never_registers_is_explained_tried_again_and_heals(calm: Elastic, kubectl: Kubectl) -> None:
    needs_localkube(kubectl, "keeping slurmd from slurmctld needs localkube")
    before = calm.cluster.events()
    with calm.edited(a100={"startTimeout": "30s"}):
        with port_cut_off(SLURMCTLD_PORT, calm.cluster.workers):
            job = calm.sbatch("srun hostname", "-p a100 -N 2 --exclusive")
            eventually("its pods are there", lambda: calm.pods() == {"a100-0", "a100-1"}, within=20)
            words = "no slurmd registered within 30s"
            calm.cluster.wait_event(f"a100-0: could not be started: {words}", before, within=90)
            told(calm, job, f"a100-1: {words} (")
            reasons = set(calm.cluster.admin("sinfo -R -h -o %E").splitlines())
            assert reasons == {f"slurmcluster: could not be started: {words}"}
            reason = calm.pool("a100")["reason"]
            assert f"a100-0: {words} (" in reason
            assert "tried again at" in reason
            assert words in calm.why(job)
            assert calm.job(job)["job_state"] == ["PENDING"]
            eventually("their pods are gone", lambda: calm.pods() == set(), within=30)
        calm.cluster.wait_job(job, within=120)
        assert set(calm.output(job).split()) == {"a100-0", "a100-1"}
        eventually("nothing is said any more", lambda: not calm.pool("a100")["reason"], within=30)


def test_a_slurmd_that_begins_before_slurmctld_notes_the_power_up_takes_the_job(
    calm: Elastic, kubectl: Kubectl
) -> None:
    needs_localkube(kubectl, "stopping a thread of slurmctld needs localkube")
    controller = calm.cluster.json("get", "pod", f"{calm.cluster.name}-controller-0")["metadata"]["uid"]
    (slurmctld,) = processes(controller, "slurmctld")
    with calm.recorded() as record:
        with ExitStack() as slurmd:
            with thread_stopped(slurmctld, "powersave"):
                job = calm.sbatch("true", "-p h100 -w h100-0")
                eventually("its pod is there", lambda: record.nodes, within=30, every=0.01)
                # It must not be heard before that thread goes on.
                with stopped(slurmctld):
                    eventually("its slurmd begins", lambda: _begun(record), within=30, every=0.1)
                    # slurmctld goes by whole seconds.
                    time.sleep(1.1)
                    slurmd.enter_context(stopped(_begun(record)[0]))
            eventually("slurmctld waits", lambda: "POWERING_UP" in calm.states()["h100-0"], within=10, every=0.1)
        # Without another slurmd it would wait for 20 s, until the pod is replaced.
        calm.cluster.wait_job(job, within=15)
    assert record.nodes == {"h100-0"}
    assert len(record.uids["h100-0"]) == 1, "\n".join(record.lines)


def _begun(record: Record) -> list[int]:
    return [process for uids in record.uids.values() for uid in uids for process in processes(uid, "slurmd")]


def test_max_lowered_under_running_jobs_kills_none(calm: Elastic) -> None:
    job = calm.sbatch("sleep 25", "-p a100 -N 2")
    calm.cluster.wait_job(job, "RUNNING")
    with calm.recorded() as record, calm.edited(a100={"nodes": {"min": 0, "max": 1}}):
        eventually("the second is drained", lambda: "DRAIN" in calm.states()["a100-1"], within=15)
        assert calm.pods() == {"a100-0", "a100-1"}
        calm.cluster.wait_job(job)
        assert calm.job(job)["restart_cnt"] == 0
        eventually("the second goes", lambda: "a100-1" not in calm.pods() | set(calm.states()), within=30)
    # slurmd's pod would wait for its job, too; it is not even asked to go.
    assert dict(record.deletions)["a100-1"] >= calm.use(job).end, record.lines


def test_a_pool_and_its_partition_removed_under_a_running_job(calm: Elastic) -> None:
    cluster = calm.cluster
    job = calm.sbatch("sleep 20", "-p a100")
    cluster.wait_job(job, "RUNNING")
    waiting = calm.sbatch("true", "-p a100 --begin=now+1hour")
    whole = dict(cluster.spec)
    cluster.spec["slurmConf"] = {**whole["slurmConf"], "MinJobAge": "2"}
    cluster.spec["pools"] = whole["pools"][:1]
    cluster.spec["partitions"] = [{"name": "gpu", "pools": ["h100"], "default": True}, whole["partitions"][1]]
    cluster.apply()
    try:
        cluster.wait_condition(
            "SpecValid", "True", reason="Retiring", words="partition a100 is no longer in", within=20
        )
        said = cluster.ssh(calm.alice, "sbatch -p a100 --wrap true", check=False)
        assert "inactive" in said.lower() or "down" in said.lower(), said
        cluster.wait_job(calm.sbatch("true", "-p h100"))
        cluster.wait_job(job)
        assert calm.job(job)["restart_cnt"] == 0
        eventually("its pods go", lambda: not any(one.startswith("a100") for one in calm.pods()), within=30)
        assert calm.job(waiting)["job_state"] == ["PENDING"]
        assert calm.cluster.conditions()["Ready"]["status"] == "True"
        assert "PartitionName=a100" in cluster.admin("scontrol show partition")
        cluster.admin(f"scancel {waiting}")
        # slurmctld looks once a minute which jobs it may forget.
        cluster.wait_condition("SpecValid", "True", reason="Valid", within=90)
        eventually(
            "partition and pool are gone",
            lambda: "a100" not in cluster.admin("scontrol show partition; scontrol show nodes"),
            within=15,
        )
    finally:
        cluster.spec.clear()
        cluster.spec.update(whole)
        cluster.apply()
    cluster.wait_condition("SpecValid", "True", reason="Valid", within=20)


PROVISIONING: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "provisioningrequests.autoscaling.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
    },
    "spec": {
        "group": "autoscaling.x-k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "ProvisioningRequest", "plural": "provisioningrequests", "singular": "provisioningrequest"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""The Cluster Autoscaler's API without an autoscaler behind it: the test's label is the machine that it would add."""


def fits_a_new_machine(spec: Json, cluster: SlurmCluster) -> None:
    """Check that an autoscaler finds in a pod all that it must promise of a machine, and nothing that names one."""
    (pool,) = (one for one in cluster.spec["pools"] if one["name"] == "a100")
    assert spec["nodeSelector"].items() >= pool["nodeSelector"].items()
    (slurmd,) = (one for one in spec["containers"] if one["name"] == "slurmd")
    assert slurmd["resources"]["limits"]["nvidia.com/gpu"] == "8"
    mine = {"key": OWNER, "operator": "Equal", "value": own(cluster), "effect": "NoSchedule"}
    assert mine in spec["tolerations"]
    assert "nodeName" not in spec
    assert "matchFields" not in json.dumps(spec["affinity"])


def test_pods_without_machines_wait_for_an_autoscaler_which_is_asked_for_all_of_a_jobs_at_once(calm: Elastic) -> None:
    cluster, kubectl = calm.cluster, calm.cluster.kubectl
    kubectl.apply(PROVISIONING)
    machines = cluster.workers[2:]
    with calm.edited(a100={"capacity": "Autoscaled"}):
        try:
            kubectl("label", "node", *machines, f"{FLEET}-")
            eventually("no machine is left", lambda: calm.pool("a100")["feasible"] == 0, within=10)
            # The operator looks every half minute which APIs there are.
            time.sleep(32)
            job = calm.sbatch("srun hostname", "-p a100 -N 2")
            told(calm, job, "nodes are available")
            (request,) = cluster.json("get", "provisioningrequests")["items"]
            (pods,) = request["spec"]["podSets"]
            assert pods["count"] == 2
            template = cluster.json("get", "podtemplate", pods["podTemplateRef"]["name"])["template"]
            waiting = cluster.json("get", "pods", "-l", "slurmcluster.dev/pool=a100")["items"]
            assert len(waiting) == 2
            for form in (template, *waiting):
                fits_a_new_machine(form["spec"], cluster)
            consumes = "autoscaling.x-k8s.io/consume-provisioning-request"
            assert {pod["metadata"]["annotations"][consumes] for pod in waiting} == {request["metadata"]["name"]}
            assert {pod["status"]["phase"] for pod in waiting} == {"Pending"}
            time.sleep(15)  # longer than a pod may wait for a machine where no autoscaler is
            assert {"RUNNING", "CONFIGURING"} <= set(calm.job(job)["job_state"])
        finally:
            kubectl("label", "node", *machines, f"{FLEET}={cluster.namespace}.{cluster.name}", "--overwrite")
        cluster.wait_job(job, within=30)
        assert calm.job(job)["restart_cnt"] == 0
        eventually("the request is gone", lambda: not cluster.json("get", "provisioningrequests")["items"], within=60)
    kubectl("delete", "crd", PROVISIONING["metadata"]["name"])


def kill_operator(kubectl: Kubectl) -> None:
    """End the operator as a crash would, without a word to it."""
    selector = "app.kubernetes.io/instance=slurmcluster-operator"
    kubectl(*OPERATOR, "delete", "pod", "-l", selector, "--grace-period=0", "--force")


@pytest.mark.parametrize("seed", [1, 2])
def test_the_operator_killed_again_and_again_loses_no_job_and_leaves_nothing(calm: Elastic, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - for a test that can be run again
    cluster = calm.cluster
    with calm.recorded() as record:
        jobs = []
        for _ in range(4):
            partition, nodes = chance.choice(["h100", "a100"]), chance.choice([1, 2])
            jobs.append(calm.sbatch(f"sleep {chance.randint(1, 6)}", f"-p {partition} -N {nodes} --exclusive"))
            time.sleep(chance.uniform(0, 2))
            kill_operator(cluster.kubectl)
        for job in jobs:
            cluster.wait_job(job, within=90)
            time.sleep(chance.uniform(0, 2))
            kill_operator(cluster.kubectl)
        for _ in range(4):
            time.sleep(chance.uniform(0, 4))
            kill_operator(cluster.kubectl)
            if not calm.pods():
                break
        calm.wait_quiet(90)
    assert [calm.job(job)["restart_cnt"] for job in jobs] == [0] * len(jobs)
    uses = [calm.use(job) for job in jobs]
    assert record.nodes == set().union(*(use.nodes for use in uses))
    for node, uids in record.uids.items():
        assert len(uids) <= sum(node in use.nodes for use in uses), record.lines
    for node, asked in record.deletions:
        assert not [use for use in uses if node in use.nodes and use.start <= asked < use.end], (node, asked, uses)


@pytest.fixture
def shaken(calm: Elastic) -> Iterator[Elastic]:
    """The elastic cluster, about to lose its slurmctld, and a job on a100-0 that must not notice."""
    busy = calm.sbatch("sleep 600", "-p a100 -w a100-0")
    calm.cluster.wait_job(busy, "RUNNING")
    try:
        with calm.recorded() as record:
            yield calm
            assert calm.job(busy)["job_state"] == ["RUNNING"]
            assert calm.job(busy)["restart_cnt"] == 0
            assert "a100-0" not in record.deleted
            assert record.nodes == {"a100-0", "h100-0", "h100-1"}
    finally:
        calm.clear()
        # A new pod: the kubelet would let a container that has crashed several times wait ever longer.
        calm.cluster.ctl("delete", "pod", "elastic-controller-0")
        eventually("slurmctld is back", lambda: "UP" in calm.cluster.admin("scontrol ping"), within=60)


def kill_slurmctld(elastic: Elastic, first: str = "true") -> None:
    """End slurmctld as a crash would, right after a command in its container, and wait for the next one."""
    elastic.cluster.kill("controller", "slurmctld", first)
    eventually("slurmctld is back", lambda: "UP" in elastic.cluster.admin("scontrol ping"), within=60)


def test_slurmctld_killed_in_the_middle_of_a_start_loses_nothing(shaken: Elastic) -> None:
    # One at a time: a start long enough to have a middle.
    with shaken.edited(h100={"nodes": {"min": 0, "max": 2, "maxStarting": 1}}), shaken.recorded() as record:
        job = shaken.sbatch("srun hostname", "-p h100 -N 2 --hold")
        # slurmctld saves its state within five seconds; before that a job is not safe from it.
        time.sleep(6)
        state = f"sleep 0.3; squeue -h -j {job} -o %T"
        assert shaken.cluster.admin(f"scontrol release {job}; {state}").strip() in {"PENDING", "CONFIGURING"}
        kill_slurmctld(shaken)
        # That it was released may be forgotten with its last seconds.
        shaken.cluster.admin(f"scontrol release {job} || true")
        # A pod of the forgotten start is discarded, and another one made.
        shaken.cluster.wait_job(job, within=120)
    assert set(shaken.output(job).split()) == {"h100-0", "h100-1"}
    assert all(len(uids) <= 2 for uids in record.uids.values()), record.lines
    ran = shaken.use(job)
    assert not [node for node, asked in record.deletions if ran.start <= asked < ran.end], (record.lines, ran)


def forgotten(elastic: Elastic, options: str) -> str:
    """Return a job whose start slurmctld has forgotten, because it was killed before it had saved that."""
    job = elastic.sbatch("srun sleep 3; srun hostname", f"-p h100 -N 2 --hold {options}")
    time.sleep(6)  # until that is saved
    state = elastic.cluster.admin("scontrol show config | sed -n 's/^StateSaveLocation *= //p'").strip()
    # What it writes before it replaces the state of before: a directory cannot be written.
    unsaved = f"cd {state}; rm -f job_state.new node_state.new; mkdir job_state.new node_state.new"
    elastic.cluster.admin(unsaved)
    try:
        elastic.cluster.admin(f"scontrol release {job}")
        elastic.cluster.wait_job(job, "RUNNING")
    finally:
        kill_slurmctld(elastic, f"cd {state}; rmdir job_state.new node_state.new; cd /")
    assert elastic.job(job)["job_state"] == ["PENDING"]
    elastic.cluster.admin(f"scontrol release {job}")
    return job


def test_a_start_that_a_killed_slurmctld_has_forgotten_is_made_again(shaken: Elastic) -> None:
    # The job's first run ends, but slurmctld waits for nodes that it believes to be off, and in their slurmds a step is
    # left that nobody ends: not until they have been told to go, their job has been sent elsewhere, and they register.
    job = forgotten(shaken, "")
    shaken.cluster.wait_job(job, within=300)
    assert set(shaken.output(job).split()) == {"h100-0", "h100-1"}


def test_a_job_that_slurmctld_forgot_is_not_held_and_does_not_cost_its_nodes(shaken: Elastic) -> None:
    other = shaken.sbatch("sleep 600", "-p h100 -N 2 --gres=gpu:1")
    shaken.cluster.wait_job(other, "RUNNING")
    # It may be launched again while its steps are still there, which slurmd refuses.
    job = forgotten(shaken, "--gres=gpu:1")
    shaken.cluster.wait_job(job, within=120)
    assert set(shaken.output(job).split()) == {"h100-0", "h100-1"}
    welcome = lambda: not any("DRAIN" in flags for flags in shaken.states().values())  # noqa: E731
    eventually("jobs are welcome again", welcome, within=30)
    assert shaken.job(other)["job_state"] == ["RUNNING"]
    assert shaken.job(other)["restart_cnt"] == 0


def test_slurmctld_killed_while_it_powers_nodes_down_loses_nothing(shaken: Elastic) -> None:
    shaken.cluster.wait_job(shaken.sbatch("true", "-p h100 -N 2"))
    eventually("they go", lambda: "POWERING_DOWN" in shaken.states()["h100-0"], within=30, every=0.1)
    with shaken.recorded() as record:
        kill_slurmctld(shaken)
        job = shaken.sbatch("srun hostname", "-p h100 -N 2")
        shaken.cluster.wait_job(job, within=120)
    assert set(shaken.output(job).split()) == {"h100-0", "h100-1"}
    assert all(len(uids) <= 2 for uids in record.uids.values()), record.lines


FAULTS = {
    "unreachable": [fault("refuse")],
    "too slow": [fault("delay", seconds=6)],
    "slow": [fault("delay", seconds=1.5)],
    "500": [fault("status", code=500)],
    "401": [fault("unauthorized")],
    "200 with errors": [fault("errors")],
    "no nodes": [fault("empty", path="/nodes/")],
    "half of the nodes": [fault("half", path="/nodes/")],
    "half of the jobs": [fault("half", path="/jobs/")],
    "cut short": [fault("truncated")],
    "an earlier answer": [fault("stale", path="/nodes/")],
    # Three requests each, in this order.
    "no answer, a reset, half an answer, a page, all twice": [
        *(fault(kind, count=3) for kind in ("hang", "reset", "cut", "html")),
        fault("double"),
    ],
}

NO_ANSWERS = {
    "unreachable": "",
    "500": "",
    "401": "",
    "200 with errors": "Protocol authentication error",
    "no nodes": "empty",
}
"""Faults after which nothing is known of Slurm, and what the operator says of them."""


@pytest.fixture(scope="module")
def proxy(elastic: Elastic) -> Iterator[FaultProxy]:
    """The operator behind a proxy that gives wrong answers on demand."""
    with FaultProxy.started(elastic.cluster.kubectl) as running:
        yield running


@pytest.fixture(scope="module")
def busy(elastic: Elastic) -> Iterator[str]:
    """A job that runs through all of it."""
    elastic.clear()
    job = elastic.sbatch("sleep 900", "-p h100 -w h100-0")
    elastic.cluster.wait_job(job, "RUNNING")
    yield job
    elastic.cancel()


@pytest.mark.parametrize("name", FAULTS)
def test_wrong_answers_of_slurmrestd_delete_no_pod_and_make_none_twice(
    elastic: Elastic, proxy: FaultProxy, busy: str, name: str
) -> None:
    eventually("the other pods are gone", lambda: elastic.pods() == {"h100-0"}, within=60)
    with elastic.recorded() as record:
        # Its node is powered down while the fault lasts.
        early = elastic.sbatch("true", "-p h100 -w h100-1")
        elastic.cluster.wait_job(early)
        with proxy.faults(*FAULTS[name]):
            late = elastic.sbatch("sleep 1", "-p a100 -w a100-0")
            time.sleep(7)
            assert "h100-0" in elastic.pods()
            assert record.deleted <= {"h100-1"}
            if name in NO_ANSWERS:
                elastic.cluster.wait_condition("SlurmReachable", "False", words=NO_ANSWERS[name])
            if name != "unreachable":
                eventually("each was met", lambda: all(proxy.hits()), within=30, every=1)
        elastic.cluster.wait_job(late, within=60)
        eventually("idle nodes are gone", lambda: elastic.pods() == {"h100-0"}, within=60)
    assert record.nodes == {"h100-0", "h100-1", "a100-0"}
    assert all(len(uids) == 1 for uids in record.uids.values()), "\n".join(record.lines)
    ended = {"h100-1": elastic.use(early).end, "a100-0": elastic.use(late).end}
    assert all(asked >= ended[node] for node, asked in record.deletions), (record.lines, ended)
    assert elastic.job(busy)["job_state"] == ["RUNNING"]
    assert elastic.job(busy)["restart_cnt"] == 0
