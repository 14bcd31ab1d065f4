from __future__ import annotations

import pytest

from slurmcluster_operator.manifests.config import node_range, slurm_files, slurmdbd_conf
from tests.builders import cluster, pool_json


def lines(text: str) -> dict[str, str]:
    """Read single-key lines as Slurm does."""
    found = (
        line.split("=", 1)
        for line in text.splitlines()
        if "=" in line and not line.startswith(("#", "NodeName", "Partition"))
    )
    return dict(found)


def test_nodes_are_cloud_nodes_with_their_gpus() -> None:
    files = slurm_files(cluster(), "Cgroup")
    assert (
        "NodeName=h100-[0-1] State=CLOUD CPUs=4 ThreadsPerCore=1 RealMemory=8192 Gres=gpu:h100:8 Feature=h100"
        in files["slurm.conf"].splitlines()
    )
    assert "NodeName=h100-[0-1] Name=gpu Type=h100 File=/dev/nvidia[0-7]" in files["gres.conf"].splitlines()


def test_partitions_span_pools_and_only_one_is_the_default() -> None:
    whole = cluster(
        pools=[pool_json(1, 1), {**pool_json(0, 3), "name": "a100"}],
        partitions=[
            {"name": "all", "pools": ["h100", "a100"], "default": True, "maxTime": "2d", "allowGroups": ["vision"]},
            {"name": "quick", "pools": ["a100"], "maxTime": "90m", "defaultTime": "10m", "priorityTier": 5},
        ],
    )
    found = [
        line for line in slurm_files(whole, "Cgroup")["slurm.conf"].splitlines() if line.startswith("PartitionName")
    ]
    assert found == [
        (
            "PartitionName=all Nodes=h100-0,a100-[0-2] Default=YES MaxTime=2-00:00:00 DefMemPerCPU=2048"
            " AllowGroups=vision PriorityTier=1 OverSubscribe=NO State=UP"
        ),
        (
            "PartitionName=quick Nodes=a100-[0-2] Default=NO MaxTime=0-01:30:00 DefaultTime=0-00:10:00"
            " DefMemPerCPU=2048 PriorityTier=5 OverSubscribe=NO State=UP"
        ),
    ]


def test_the_minimum_is_never_suspended() -> None:
    whole = cluster(
        pools=[pool_json(2, 4), {**pool_json(0, 3), "name": "a100"}], partitions=[{"name": "x", "pools": ["h100"]}]
    )
    found = lines(slurm_files(whole, "Cgroup")["slurm.conf"])
    assert found["SuspendExcNodes"] == "h100-[0-1]"
    assert found["MaxNodeCount"] == "7"


def test_isolation_decides_on_cgroups() -> None:
    fenced, bare = (slurm_files(cluster(), isolation) for isolation in ("Cgroup", "Pod"))
    assert lines(fenced["slurm.conf"])["ProctrackType"] == "proctrack/cgroup"
    assert "ConstrainDevices=yes" in fenced["cgroup.conf"]
    assert lines(bare["slurm.conf"])["ProctrackType"] == "proctrack/linuxproc"
    assert "CgroupPlugin=disabled" in bare["cgroup.conf"]
    different = set(fenced["slurm.conf"].splitlines()) ^ set(bare["slurm.conf"].splitlines())
    assert {line.split("=")[0] for line in different} == {"ProctrackType", "TaskPlugin", "JobAcctGatherType"}


def test_a_users_value_wins_over_a_default_and_stands_once() -> None:
    text = slurm_files(cluster(slurmConf={"MessageTimeout": "60", "KillWait": "60"}), "Cgroup")["slurm.conf"]
    assert text.count("MessageTimeout=") == 1
    assert lines(text)["MessageTimeout"] == "60"
    assert lines(text)["KillWait"] == "60"


@pytest.mark.parametrize(
    ("own", "options"),
    [
        ("", "batch_sched_delay=0,bf_interval=10,requeue_delay=2,nohold_on_prolog_fail"),
        ("defer", "defer,batch_sched_delay=0,bf_interval=10,requeue_delay=2,nohold_on_prolog_fail"),
        ("BF_Interval=30,defer", "BF_Interval=30,defer,batch_sched_delay=0,requeue_delay=2,nohold_on_prolog_fail"),
        ("nohold_on_prolog_fail", "nohold_on_prolog_fail,batch_sched_delay=0,bf_interval=10,requeue_delay=2"),
    ],
)
def test_an_option_of_the_scheduler_overrules_its_like_and_no_other(own: str, options: str) -> None:
    text = slurm_files(cluster(slurmConf={"SchedulerParameters": own} if own else {}), "Cgroup")["slurm.conf"]
    assert text.count("SchedulerParameters=") == 1
    assert lines(text)["SchedulerParameters"] == options


@pytest.mark.parametrize(("version", "metrics", "addresses"), [("26.05", True, False), ("24.11", False, True)])
def test_each_version_gets_what_it_knows(version: str, *, metrics: bool, addresses: bool) -> None:
    text = slurm_files(cluster(slurmVersion=version), "Cgroup")["slurm.conf"]
    assert ("MetricsType=" in text) is metrics
    assert ("cloud_reg_addrs" in text) is addresses
    # It would wipe a person's drain from a node that is powered down.
    assert "idle_on_node_suspend" not in text


def test_without_gpus_there_is_no_gres_conf() -> None:
    pool = {"name": "cpu", "nodes": {"min": 1, "max": 1}, "machine": {"cpus": 4, "memory": "8Gi"}}
    whole = cluster(pools=[pool], partitions=[{"name": "cpu", "pools": ["cpu"]}])
    assert "gres.conf" not in slurm_files(whole, "Cgroup")


def test_accounting_off_leaves_no_trace() -> None:
    found = lines(slurm_files(cluster(accounting={"enabled": False}), "Cgroup")["slurm.conf"])
    assert found["AccountingStorageType"] == "accounting_storage/none"
    assert "AccountingStorageHost" not in found


def test_an_external_database_is_used_and_its_password_not_written_down() -> None:
    database = {"external": {"host": "db.example.com", "port": 3307, "name": "acct", "credentialsSecret": "db"}}
    text = slurmdbd_conf(cluster(accounting={"database": database}))
    found = lines(text)
    assert (found["StorageHost"], found["StoragePort"], found["StorageLoc"]) == ("db.example.com", "3307", "acct")
    assert "StoragePass" not in text


def test_a_job_that_names_no_memory_gets_its_cpus_share() -> None:
    small = {"name": "small", "nodes": {"min": 0, "max": 1}, "machine": {"cpus": 8, "memory": "8Gi"}}
    both = cluster(pools=[pool_json(1, 1), small], partitions=[{"name": "all", "pools": ["h100", "small"]}])
    assert "DefMemPerCPU=1024" in slurm_files(both, "Cgroup")["slurm.conf"]
    own = slurm_files(cluster(slurmConf={"DefMemPerGPU": "4096"}), "Cgroup")["slurm.conf"]
    assert "DefMemPerGPU=4096" in own
    assert "DefMemPerCPU" not in own


def test_mixed_isolations_keep_a_users_debug_flags() -> None:
    pools = [pool_json(1, 1), {**pool_json(1, 1, isolation="Pod"), "name": "iso"}]
    for own, expected in (({}, "NO_CONF_HASH"), ({"DebugFlags": "Power"}, "Power,NO_CONF_HASH")):
        assert lines(slurm_files(cluster(pools=pools, slurmConf=own), "Pod")["slurm.conf"])["DebugFlags"] == expected


def test_gpus_are_accounted_by_type() -> None:
    off = slurm_files(cluster(accounting={"enabled": False}), "Cgroup")["slurm.conf"]
    assert "AccountingStorageTRES" not in off
    assert lines(slurm_files(cluster(), "Cgroup")["slurm.conf"])["AccountingStorageTRES"] == "gres/gpu,gres/gpu:h100"


def test_node_ranges() -> None:
    assert node_range("h100", 0, 1) == "h100-0"
    assert node_range("h100", 0, 16) == "h100-[0-15]"
