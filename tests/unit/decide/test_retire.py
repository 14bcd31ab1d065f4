from __future__ import annotations

from dataclasses import replace

from slurmcluster_operator.decide.nodes import SHRINKING
from slurmcluster_operator.decide.plan import make_plan, resolve
from slurmcluster_operator.decide.retire import retiring
from slurmcluster_operator.manifests.cluster import Cluster, Queues
from slurmcluster_operator.manifests.config import slurm_files
from slurmcluster_operator.model.actions import CreatePod, DeletePod, Drain
from slurmcluster_operator.model.holds import Memory
from slurmcluster_operator.model.observed import Observed
from slurmcluster_operator.model.slurm import Job
from tests.builders import NOW, cluster, healthy, pool_json, slurm, slurmd_pod, unknown

OFF = "IDLE+CLOUD+POWERED_DOWN"
A100 = pool_json(1, 2) | {"name": "a100"}
BOTH = cluster(
    pools=[pool_json(0, 2), A100],
    partitions=[{"name": "gpu", "pools": ["h100", "a100"], "default": True}, {"name": "a100", "pools": ["a100"]}],
)
ONE = cluster(pools=[pool_json(0, 2)], partitions=[{"name": "gpu", "pools": ["h100"], "default": True}])
POD = slurmd_pod("a100-0", BOTH)
RUNNING = Job(7, frozenset({"RUNNING"}), nodes="a100-0", partitions=("a100",))


def seen(*jobs: Job, state: str = "MIXED+CLOUD", hosts: frozenset[str] | None = None) -> Observed:
    answer = replace(
        slurm(**{"h100-0": OFF, "h100-1": OFF, "a100-0": state}),
        jobs=jobs,
        job_partitions=frozenset(name for job in jobs for name in job.partitions),
        job_hosts=frozenset(job.nodes for job in jobs) if hosts is None else hosts,
    )
    return healthy(slurmds=(POD,), slurm=answer)


def look(observed: Observed, before: Queues = BOTH.queues) -> Cluster:
    return resolve(ONE, observed, Memory(), before)


def conf(whole: Cluster) -> str:
    return slurm_files(whole, "Cgroup")["slurm.conf"]


def test_a_removed_pool_and_partition_stay_in_slurm_conf_closed_while_a_job_has_them() -> None:
    whole = look(seen(RUNNING))
    assert "NodeName=a100-0 State=CLOUD" in conf(whole)
    assert "PartitionName=a100 Nodes=a100-0 " in conf(whole)
    assert conf(whole).count("State=INACTIVE") == 1
    assert "PartitionName=gpu Nodes=h100-[0-1] " in conf(whole)
    words = "; ".join(retiring(whole, seen(RUNNING)))
    assert "pool a100 is no longer in spec.pools" in words
    assert "partition a100 is no longer in spec.partitions" in words


def test_its_nodes_are_drained_by_idleness_and_none_is_made() -> None:
    whole = look(seen(RUNNING))
    actions = make_plan(whole, seen(RUNNING), Memory(), NOW).actions
    assert Drain(("a100-0",), SHRINKING) in actions
    assert not [one for one in actions if isinstance(one, CreatePod | DeletePod)]
    idle = seen(state=f"IDLE+CLOUD+DRAIN~{SHRINKING}")
    actions = make_plan(look(idle), idle, Memory(), NOW).actions
    assert [one.name for one in actions if isinstance(one, DeletePod)] == ["demo-a100-0"]


def test_they_go_when_slurmctld_has_forgotten_the_last_job() -> None:
    gone = healthy(slurmds=(), slurm=replace(slurm(**{"h100-0": OFF, "h100-1": OFF}), jobs=()))
    assert look(gone).retired == Queues()
    assert "a100" not in conf(look(gone))


def test_a_record_of_a_job_that_is_over_keeps_its_partition() -> None:
    over = replace(slurm(**{"h100-0": OFF}), jobs=(), job_partitions=frozenset({"a100"}))
    whole = look(healthy(slurmds=(), slurm=over))
    assert [partition.name for partition in whole.retired.partitions] == ["a100"]
    assert "PartitionName=a100 Default=NO " in conf(whole)


def test_while_slurmctld_says_nothing_nothing_goes() -> None:
    assert [one.name for one in look(healthy(slurmds=(POD,), slurm=unknown())).retired.pools] == ["a100"]
    mute = healthy(slurmds=(POD,), slurm=slurm(**{"h100-0": OFF, "a100-0": "MIXED+CLOUD"}))
    assert [one.name for one in look(mute).retired.partitions] == ["a100"]


def test_what_is_kept_survives_a_restart_of_the_operator() -> None:
    first = look(seen(RUNNING))
    read = Queues.model_validate_json(first.queues.model_dump_json(by_alias=True, exclude_defaults=True))
    assert look(seen(RUNNING), read).retired == first.retired


def test_a_pool_that_comes_back_is_as_the_spec_says() -> None:
    assert resolve(BOTH, seen(RUNNING), Memory(), look(seen(RUNNING)).queues).retired == Queues()
