"""Nothing that the models accept can bring a key of its own into slurm.conf."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from slurmcluster_operator.api import values
from slurmcluster_operator.api.schema import Pattern
from slurmcluster_operator.api.slurm_conf import OWNED, settable
from slurmcluster_operator.api.spec import RESERVED_POOL_NAMES, SlurmClusterSpec
from slurmcluster_operator.manifests.cluster import Cluster
from slurmcluster_operator.manifests.config import controller_isolation, slurm_files
from slurmcluster_operator.model.names import Names

NASTY = " \t\n\r\x0b\x0c\x1c\x85\u00a0\u2028\u2029#\"'`\\\x00"
"""White space of all kinds, line breaks, quotes, comments, continuations."""

WRITTEN = {
    *("ClusterName", "SlurmctldHost", "SlurmctldPort", "SlurmdPort", "SlurmUser", "StateSaveLocation"),
    *("SlurmdSpoolDir", "SlurmctldPidFile", "SlurmdPidFile", "PlugStackConfig", "AuthType", "CredType", "AuthInfo"),
    *("AuthAltTypes", "AuthAltParameters", "AccountingStorageType", "ProctrackType", "TaskPlugin"),
    *("JobAcctGatherType", "GresTypes", "EnforcePartLimits", "ReturnToService", "SlurmctldParameters"),
    *("ResumeProgram", "SuspendProgram", "SuspendTime", "ResumeTimeout", "SuspendTimeout", "ResumeRate"),
    *("SuspendRate", "MaxNodeCount"),
}
"""Keys that are there in every slurm.conf."""

DEFAULTS = {
    "SelectType",
    "SelectTypeParameters",
    "PrologFlags",
    "SchedulerParameters",
    "MessageTimeout",
    "SlurmdTimeout",
    "TreeWidth",
}
"""Keys with a value of ours unless the spec has one."""

NODE = {"NodeName", "State", "CPUs", "ThreadsPerCore", "RealMemory", "Gres", "Feature"}
PARTITION = {
    *(
        "PartitionName",
        "Nodes",
        "Default",
        "MaxTime",
        "DefaultTime",
        "DefMemPerCPU",
        "AllowGroups",
        "OverSubscribe",
        "PriorityTier",
        "State",
    ),
}

TIMEOUTS = {"PartitionName", "Nodes", "Hidden", "State", "SuspendTime", "ResumeTimeout", "SuspendTimeout"}

anything = st.text(st.one_of(st.sampled_from(NASTY + "aZ09=,/_-"), st.characters()), max_size=12)


def regex_of(kind: Any) -> str:
    return next(part.regex for part in kind.__metadata__ if isinstance(part, Pattern))


@functools.cache
def matching(kind: Any) -> st.SearchStrategy[str]:
    """Return texts that a typed string accepts."""
    return st.from_regex(re.compile(regex_of(kind), re.ASCII), fullmatch=True).filter(lambda text: len(text) < 60)


def accepted(kind: Any, text: str) -> bool:
    try:
        TypeAdapter(kind).validate_python(text)
    except ValidationError:
        return False
    return True


@given(anything)
def test_a_value_is_one_word(text: str) -> None:
    if accepted(values.ConfValue, text):
        event("accepted")
        assert text
        assert not re.search(r"\s", text)
        assert not set(text) & set(NASTY)
        assert text.isascii()


@given(anything, st.sampled_from([" ", "\n", "\t", "\r", "#", '"', "'", "\\", "\u2028", "\x00"]), anything)
def test_no_typed_string_takes_what_ends_a_word(before: str, nasty: str, after: str) -> None:
    words = (
        *(values.ConfValue, values.PoolName, values.ClusterName, values.PartitionName, values.UserName),
        *(values.GroupName, values.Token, values.MemorySize, values.StorageSize, values.Duration, values.StartTimeout),
        *(values.TimeLimit, values.MaxUnavailable, values.DnsName, values.ShellPath, values.DevicePrefix),
        *(values.ResourceName, values.Registry, values.LabelValue),
    )
    assert not [kind for kind in words if accepted(kind, f"{before}{nasty}{after}")]


@st.composite
def specs(draw: Callable[[st.SearchStrategy[Any]], Any]) -> dict[str, Any]:
    """Make any spec that the models accept, as far as slurm.conf is concerned."""
    version = draw(st.sampled_from(["26.05", "24.11"]))
    names = draw(
        st.lists(
            matching(values.PoolName).filter(lambda name: name not in RESERVED_POOL_NAMES),
            min_size=1,
            max_size=4,
            unique=True,
        )
    )
    partitions = draw(
        st.lists(
            matching(values.PartitionName).filter(lambda name: name.upper() != "DEFAULT"),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    default = draw(st.sampled_from([*partitions, None]))
    conf = st.dictionaries(st.sampled_from(sorted(settable(version))), matching(values.ConfValue), max_size=6)
    return {
        "slurmVersion": version,
        "accounting": {"enabled": draw(st.booleans())},
        "pools": [draw(pools(name)) for name in names],
        "partitions": [draw(partitions_over(name, names)) | {"default": name == default} for name in partitions],
        "slurmConf": draw(conf),
        **draw(st.fixed_dictionaries({}, optional={"clusterName": matching(values.ClusterName)})),
    }


@st.composite
def pools(draw: Callable[[st.SearchStrategy[Any]], Any], name: str) -> dict[str, Any]:
    most = draw(st.integers(1, 16000))
    gpus = {"type": matching(values.Token), "count": st.integers(1, 64), "devicePrefix": matching(values.DevicePrefix)}
    machine = {
        "cpus": st.integers(1, 512).map(lambda cores: cores * 8),
        "threadsPerCore": st.sampled_from([1, 2, 4, 8]),
        "memory": matching(values.MemorySize),
        "features": st.lists(matching(values.Token), max_size=4, unique=True),
    }
    return {
        "name": name,
        "nodes": {"min": draw(st.integers(0, most)), "max": most},
        "machine": draw(st.fixed_dictionaries(machine, optional={"gpus": st.fixed_dictionaries(gpus)})),
        "isolation": draw(st.sampled_from(["Cgroup", "Pod"])),
        "idleTimeout": draw(matching(values.Duration)),
        "startTimeout": draw(matching(values.StartTimeout)),
    }


@st.composite
def partitions_over(draw: Callable[[st.SearchStrategy[Any]], Any], name: str, names: list[str]) -> dict[str, Any]:
    limit = draw(matching(values.TimeLimit))
    fields = {
        "pools": st.lists(st.sampled_from(names), min_size=1, unique=True),
        "maxTime": st.just(limit),
        "allowGroups": st.lists(matching(values.GroupName), max_size=3, unique=True),
        "priorityTier": st.integers(0, 65533),
        "state": st.sampled_from(["UP", "DOWN", "DRAIN", "INACTIVE"]),
    }
    found: dict[str, Any] = draw(st.fixed_dictionaries(fields, optional={"defaultTime": st.just(limit)}))
    return {"name": name, **found}


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(specs())
def test_slurm_conf_has_the_expected_keys_and_no_other(spec: dict[str, Any]) -> None:
    model = SlurmClusterSpec.model_validate(spec)
    cluster = Cluster(Names("team", "demo"), "uid", model)

    keys, nodes, partitions = read(slurm_files(cluster, controller_isolation(cluster))["slurm.conf"])

    expected = WRITTEN | DEFAULTS | set(spec["slurmConf"])
    expected |= {"AccountingStorageHost", "AccountingStoragePort"} if model.accounting.enabled else set()
    expected |= {"MetricsType"} if model.slurm_version != "24.11" else set()
    gpus = any(pool.machine.gpus for pool in model.pools)
    expected |= {"AccountingStorageTRES"} if gpus and model.accounting.enabled else set()
    expected |= {"DebugFlags"} if len({pool.isolation for pool in model.pools}) > 1 else set()
    expected |= {"SuspendExcNodes"} if any(pool.nodes.min or pool.nodes.warm for pool in model.pools) else set()
    expected |= {"PrologSlurmctld"} if any(pool.nodes.min < pool.nodes.max for pool in model.pools) else set()
    assert sorted(keys) == sorted(expected), "a key is missing, is there twice, or came from nowhere"
    assert len(nodes) == len(spec["pools"])
    timeouts = [line for line in partitions if "Hidden" in line]
    partitions = [line for line in partitions if "Hidden" not in line]
    assert all(set(line) == TIMEOUTS for line in timeouts)
    assert len({(pool.idle_timeout, pool.start_timeout) for pool in model.pools}) > 1 or not timeouts
    assert len(partitions) == len(spec["partitions"])
    assert all(set(line) <= NODE for line in nodes)
    assert all(set(line) <= PARTITION for line in partitions)


def test_keys_that_we_write_are_refused_or_can_be_overruled() -> None:
    also = {"AccountingStorageHost", "AccountingStoragePort", "MetricsType", "SuspendExcNodes"}
    assert OWNED.keys() >= WRITTEN | also | {"NodeName", "PartitionName"}
    assert not OWNED.keys() & DEFAULTS


def read(text: str) -> tuple[list[str], list[list[str]], list[list[str]]]:
    """Read slurm.conf as Slurm does: words with = in them, one key a line but for nodes and partitions."""
    keys: list[str] = []
    records: dict[str, list[list[str]]] = {"NodeName": [], "PartitionName": []}
    for line in re.split(r"[\n\r]", text):
        if not line or line.startswith("#"):
            continue
        words = [word.partition("=") for word in line.split()]
        assert all(equals for _, equals, _ in words), line
        assert "#" not in line
        found = [key for key, _, _ in words]
        if found[0] in records:
            assert len(found) == len(set(found)), line
            records[found[0]].append(found)
        else:
            assert len(found) == 1, line
            keys += found
    return keys, records["NodeName"], records["PartitionName"]
