"""Slurm's configuration files, rendered from ``templates/``."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import jinja2

from slurmcluster_operator.api.pools import HIDDEN, Gpus, Partition, Pool
from slurmcluster_operator.api.values import mebibytes, seconds, slurm_time
from slurmcluster_operator.manifests.cluster import Cluster, Json
from slurmcluster_operator.manifests.objects import config_map
from slurmcluster_operator.model import names

_PACKAGE = Path(__file__).resolve().parents[1]
TEMPLATES: Final = next(folder for folder in (_PACKAGE / "templates", _PACKAGE.parent / "templates") if folder.is_dir())
"""``templates/`` inside the installed package, or beside the package in a checkout."""

_ISOLATION: Final[Mapping[str, Mapping[str, str]]] = {
    "Cgroup": {
        "ProctrackType": "proctrack/cgroup",
        "TaskPlugin": "task/cgroup,task/affinity",
        "JobAcctGatherType": "jobacct_gather/cgroup",
    },
    "Pod": {
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/affinity",
        "JobAcctGatherType": "jobacct_gather/linux",
    },
}

_DEFAULTS: Final[Mapping[str, str]] = {
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core_Memory",
    "PrologFlags": "Contain",
    # Some peers' clients hold on for long; slurmctld's default of 10 s is too short for a node that is starting.
    "MessageTimeout": "30",
    "SlurmdTimeout": "300",
    # slurmctld speaks to each slurmd itself: with a tree, one whose pod has just gone is in the way of others.
    "TreeWidth": "65533",
}
"""What ``spec.slurmConf`` may overrule, key by key."""

_SCHEDULER: Final = (
    # A batch job is looked at within a second of its submission, the turn of slurmctld's own loop; by Slurm's
    # default it may wait for three more.
    "batch_sched_delay=0",
    "bf_interval=10",
    # A job that lost its node starts again at once instead of after two minutes.
    "requeue_delay=2",
    # A node that could not launch a job is drained; the job waits for another one instead of for a person: it is not
    # its fault.
    "nohold_on_prolog_fail",
)
"""The ``SchedulerParameters`` that ``spec.slurmConf`` may overrule, option by option: none is lost because another is
set."""

_MEMORY_DEFAULTS: Final = frozenset({"DefMemPerCPU", "DefMemPerGPU", "DefMemPerNode"})
"""Keys of ``spec.slurmConf`` that say how much memory a job gets that names none."""

_OLD_PARAMETERS: Final = {"24.11": ("cloud_reg_addrs",)}
"""SlurmctldParameters that later versions took as their default and dropped."""

_SETTLE_SECONDS: Final = 5
"""How long slurmctld waits before it reuses a node that it powered down."""


def slurm_files(cluster: Cluster, isolation: str) -> dict[str, str]:
    """Render all files of /etc/slurm (but for the keys) for slurmd pods of one isolation."""
    pools = [_pool(cluster, pool) for pool in cluster.pools]
    files = {
        "slurm.conf": _render("slurm.conf.j2", _slurm_conf(cluster, isolation, pools)),
        "cgroup.conf": _render("cgroup.conf.j2", {"fenced": isolation == "Cgroup"}),
        "plugstack.conf": "",
    }
    if any(pool["gpus"] for pool in pools):
        files["gres.conf"] = _render("gres.conf.j2", {"pools": pools})
    if cluster.platform.wake_url:
        files["wake-url"] = f"{cluster.platform.wake_url}/wake/{cluster.names.namespace}/{cluster.names.cluster}"
    return files


def controller_isolation(cluster: Cluster) -> str:
    """Return the isolation that slurmctld's own files are rendered for.

    slurmd of Cgroup pools takes its files from slurmctld; those of Pod pools, where they differ, from a volume.
    """
    return "Cgroup" if any(pool.isolation == "Cgroup" for pool in cluster.pools) else "Pod"


def configs(cluster: Cluster) -> list[Json]:
    """Return the ConfigMaps with Slurm's configuration."""
    main = config_map(
        cluster, cluster.names.config, names.CONTROLLER, slurm_files(cluster, controller_isolation(cluster))
    )
    # For an operator that starts later: what the spec has lost meanwhile is kept while jobs have it.
    known = cluster.queues.model_dump_json(by_alias=True, exclude_defaults=True)
    main["metadata"]["annotations"] = {names.QUEUES_ANNOTATION: known}
    objects = [main]
    if any(pool.isolation == "Pod" for pool in cluster.pools):
        objects.append(config_map(cluster, cluster.names.pod_config, names.SLURMD, slurm_files(cluster, "Pod")))
    if cluster.accounting:
        objects.append(
            config_map(
                cluster, cluster.names.accounting_config, names.ACCOUNTING, {"slurmdbd.conf": slurmdbd_conf(cluster)}
            )
        )
    return objects


def slurmdbd_conf(cluster: Cluster) -> str:
    """Render slurmdbd.conf without user and password: those come from a Secret inside the pod."""
    part = cluster.names.part(names.ACCOUNTING)
    external = cluster.spec.accounting.database.external
    storage = {
        "host": external.host if external else cluster.names.part(names.DATABASE),
        "port": external.port if external else names.DATABASE_PORT,
        "name": database_name(cluster),
    }
    return _render(
        "slurmdbd.conf.j2", {"host": f"{part}-0", "address": part, "port": names.SLURMDBD_PORT, "storage": storage}
    )


def database_name(cluster: Cluster) -> str:
    """Return the name of the database that slurmdbd uses."""
    external = cluster.spec.accounting.database.external
    return external.name if external else "slurm_acct_db"


def node_range(pool: str, first: int, count: int) -> str:
    """Return a Slurm host list: ``h100-[0-15]``, or ``h100-0`` for one."""
    return f"{pool}-{first}" if count == 1 else f"{pool}-[{first}-{first + count - 1}]"


def _slurm_conf(cluster: Cluster, isolation: str, pools: list[Json]) -> Mapping[str, Any]:
    version = cluster.spec.slurm_version
    return {
        "namespace": cluster.names.namespace,
        "name": cluster.names.cluster,
        "cluster_name": cluster.name,
        "controller_host": cluster.names.controller_pod,
        "controller_address": cluster.names.part(names.CONTROLLER),
        "slurmctld_port": names.SLURMCTLD_PORT,
        "slurmd_port": names.SLURMD_PORT,
        "slurmdbd_port": names.SLURMDBD_PORT,
        "accounting_host": cluster.names.part(names.ACCOUNTING) if cluster.accounting else "",
        "isolation": _ISOLATION[isolation],
        "metrics": version != "24.11",
        "slurmctld_parameters": (
            "enable_configless",
            "power_save_interval=1",
            "power_save_min_interval=0",
            *_OLD_PARAMETERS.get(version, ()),
        ),
        "suspend_time": min(seconds(pool.idle_timeout) for pool in cluster.pools),
        "resume_timeout": max(seconds(pool.start_timeout) for pool in cluster.pools),
        "suspend_timeout": _SETTLE_SECONDS,
        "stay_up": [*_always_up(cluster), *_headroom(cluster)],
        "elastic": any(pool.nodes.min < pool.nodes.max for pool in cluster.pools),
        "max_node_count": sum(cluster.size(pool) for pool in cluster.pools),
        "settings": _settings(cluster),
        "pools": pools,
        "partitions": [_partition(cluster, partition) for partition in cluster.partitions],
        "timeouts": _own_timeouts(cluster),
    }


def _always_up(cluster: Cluster) -> list[str]:
    return [node_range(pool.name, 0, pool.nodes.min) for pool in cluster.pools if pool.nodes.min]


def _headroom(cluster: Cluster) -> list[str]:
    """Return the nodes of which a number stays up while idle. slurmctld takes the first ones, so the minimum counts."""
    pools = [pool for pool in cluster.pools if pool.nodes.warm]
    return [f"{node_range(pool.name, 0, pool.nodes.max)}:{pool.nodes.warm}" for pool in pools]


def _settings(cluster: Cluster) -> dict[str, str]:
    own = cluster.spec.slurm_conf
    settings = {**_DEFAULTS, **own, "SchedulerParameters": _scheduler(own.get("SchedulerParameters", ""))}
    types = sorted({pool.machine.gpus.type for pool in cluster.pools if pool.machine.gpus})
    if types and cluster.accounting:
        settings.setdefault("AccountingStorageTRES", ",".join(["gres/gpu", *(f"gres/gpu:{one}" for one in types)]))
    if len({pool.isolation for pool in cluster.pools}) > 1:
        # Nodes of the two isolations read different files on purpose.
        settings["DebugFlags"] = ",".join([*filter(None, [own.get("DebugFlags")]), "NO_CONF_HASH"])
    return dict(sorted(settings.items()))


def _scheduler(own: str) -> str:
    """Return the options of ``SchedulerParameters``: those of the spec, and ours that it does not name."""
    named = [option for option in own.split(",") if option]
    keys = {_key(option) for option in named}
    return ",".join([*named, *(option for option in _SCHEDULER if _key(option) not in keys)])


def _key(option: str) -> str:
    return option.partition("=")[0].lower()


def _pool(cluster: Cluster, pool: Pool) -> Json:
    machine = pool.machine
    return {
        "nodes": node_range(pool.name, 0, cluster.size(pool)),
        "cpus": machine.cpus,
        "threads_per_core": machine.threads_per_core,
        "memory": mebibytes(machine.memory),
        "gpus": _gpus(machine.gpus) if machine.gpus else None,
        # The pool's own name is a feature, so that --constraint=POOL works in a partition over several pools.
        "features": list(dict.fromkeys((pool.name, *machine.features))),
    }


def _gpus(gpus: Gpus) -> Json:
    devices = f"{gpus.device_prefix}0" if gpus.count == 1 else f"{gpus.device_prefix}[0-{gpus.count - 1}]"
    return {"type": gpus.type, "count": gpus.count, "devices": devices}


def _partition(cluster: Cluster, partition: Partition) -> Json:
    pools = [pool for pool in cluster.pools if pool.name in partition.pools]
    return {
        "name": partition.name,
        "nodes": [node_range(pool.name, 0, cluster.size(pool)) for pool in pools],
        "memory_per_cpu": _memory_per_cpu(pools)
        if pools and not _MEMORY_DEFAULTS & cluster.spec.slurm_conf.keys()
        else None,
        "default": partition.default,
        "max_time": slurm_time(partition.max_time),
        "default_time": slurm_time(partition.default_time) if partition.default_time else None,
        "allow_groups": list(partition.allow_groups),
        "priority_tier": partition.priority_tier,
        "over_subscribe": partition.over_subscribe,
        "state": partition.state,
    }


def _own_timeouts(cluster: Cluster) -> list[Json]:
    """Return what gives each pool its own timeouts, where they differ.

    Slurm has them for the whole cluster and for partitions only. A partition that nobody can see or use does it: those
    of the spec may span several pools, and say nothing of timeouts.
    """
    timeouts = {pool.name: (seconds(pool.idle_timeout), seconds(pool.start_timeout)) for pool in cluster.pools}
    if len(set(timeouts.values())) == 1:
        return []
    return [
        {
            "name": f"{HIDDEN}{pool.name}",
            "nodes": node_range(pool.name, 0, cluster.size(pool)),
            "idle": idle,
            "start": start,
        }
        for pool in cluster.pools
        for idle, start in (timeouts[pool.name],)
    ]


def _memory_per_cpu(pools: Iterable[Pool]) -> int:
    """Return a CPU's share of memory, in MiB. Without a default, a job that names no memory takes all of a node's."""
    return min(mebibytes(pool.machine.memory) // pool.machine.cpus for pool in pools)


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - configuration files, not HTML; every value is checked by its model
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _render(template: str, values: Mapping[str, Any]) -> str:
    return _environment().get_template(template).render(values)
