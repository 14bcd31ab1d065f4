"""Slips that people make in a SlurmCluster, and the field and words that they must be answered with.

Each is a change to ``VALID``. The models (unit tests) and a real API server (end-to-end tests) have to refuse it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from slurmcluster_operator.api.slurm_conf import settable

KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ alice@example.com"
RSA_BODY: Final = "AAAAB3NzaC1yc2EAAAADAQABAAAAgQ"

VALID: Final[dict[str, Any]] = {
    "users": [
        {"name": "alice", "uid": 2001, "groups": ["vision"], "sshKeys": [KEY]},
        {"name": "bob", "uid": 2002},
    ],
    "pools": [
        {
            "name": "h100",
            "nodes": {"min": 1, "max": 16},
            "machine": {"cpus": 96, "memory": "1000Gi", "gpus": {"type": "h100", "count": 8}},
            "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        },
        {"name": "cpu", "nodes": {"min": 0, "max": 4}, "machine": {"cpus": 32, "memory": "120Gi"}},
    ],
    "partitions": [
        {"name": "gpu", "pools": ["h100"], "default": True, "maxTime": "2d"},
        {"name": "all", "pools": ["h100", "cpu"]},
    ],
    "slurmConf": {"SchedulerParameters": "bf_interval=30"},
}

GONE: Final = object()
"""A change to this removes the field."""

Changes = Mapping[str, Any]


@dataclass(frozen=True)
class Bad:
    """One slip: what it changes (``pools.0.nodes.min`` to a value), and how it must be answered."""

    name: str
    changes: Changes
    path: str
    words: str
    models: bool = True
    """Whether the models can see it too."""


@dataclass(frozen=True)
class BadEdit:
    """An edit that a running cluster does not take: from ``before`` to ``after``."""

    name: str
    before: Changes
    after: Changes
    path: str
    words: str


def changed(changes: Changes, valid: Mapping[str, Any] = VALID) -> dict[str, Any]:
    """Return ``valid`` with changes."""
    spec = copy.deepcopy(dict(valid))
    for path, value in changes.items():
        *steps, last = (int(step) if step.isdigit() else step for step in path.split("."))
        place: Any = spec
        for step in steps:
            place = place[step] if isinstance(step, int) else place.setdefault(step, {})
        if value is GONE:
            del place[last]
        elif isinstance(place, list) and last == len(place):
            place.append(value)
        else:
            place[last] = value
    return spec


def same_words(words: str) -> str:
    """Leave out how JSON is spaced."""
    return re.sub(r'(?<=[":,]) (?=["{])', "", words)


def largest() -> dict[str, Any]:
    """Return a spec with as much in it as may be."""
    pools = [_pool(f"pool-{number:04}", 1000) for number in range(64)]
    names = [pool["name"] for pool in pools]
    groups = [f"group-{number:025}" for number in range(32)]
    keys = [f"{KEY.split(' ')[0]} {KEY.split(' ')[1]} {number:0200}" for number in range(8)]
    return {
        "pools": [
            pool | {"machine": pool["machine"] | {"features": [f"feature-{number:055}" for number in range(32)]}}
            for pool in pools
        ],
        "partitions": [
            {"name": f"partition-{number:053}", "pools": names, "defaultTime": "9999d", "maxTime": "9999d"}
            for number in range(64)
        ],
        "users": [
            {"name": f"user-{number:026}", "uid": 2000 + number, "groups": groups, "sshKeys": keys}
            for number in range(500)
        ],
        "slurmConf": dict.fromkeys(sorted(settable("26.05"))[:128], "x" * 1024),
    }


def _pool(name: str, most: int = 1) -> dict[str, Any]:
    return {"name": name, "nodes": {"min": 0, "max": most}, "machine": {"cpus": 1, "memory": "1Gi"}}


def _conf(name: str, key: str, value: str, words: str, path: str = "spec.slurmConf") -> Bad:
    return Bad(name, {f"slurmConf.{key}": value}, path, words)


def _smuggled(name: str, value: str) -> Bad:
    path = "spec.slurmConf[SchedulerParameters]"
    return _conf(name, "SchedulerParameters", value, "must be one value without spaces", path)


def _key(name: str, key: str, words: str) -> Bad:
    return Bad(name, {"users.0.sshKeys.0": key}, "spec.users[0].sshKeys[0]", words)


BAD: Final[tuple[Bad, ...]] = (
    Bad("nothing", {"pools": GONE, "partitions": GONE}, "spec.pools", "Required value"),
    Bad("no pool", {"pools": [], "partitions": []}, "spec.pools", "should have at least 1 items"),
    Bad("two pools of a name", {"pools.2": _pool("h100")}, "spec.pools[2]", 'Duplicate value: {"name":"h100"}'),
    Bad(
        "two partitions of a name",
        {"partitions.2": {"name": "gpu", "pools": ["cpu"]}},
        "spec.partitions[2]",
        'Duplicate value: {"name":"gpu"}',
    ),
    Bad(
        "a partition over an unknown pool",
        {"partitions.1.pools.2": "a100"},
        "spec.partitions",
        "unknown pool a100 in partition all; spec.pools has",
    ),
    Bad(
        "a pool twice in a partition", {"partitions.1.pools.2": "cpu"}, "spec.partitions[1].pools[2]", "Duplicate value"
    ),
    Bad("a partition over no pool", {"partitions.1.pools": []}, "spec.partitions[1].pools", "at least 1 items"),
    Bad(
        "two default partitions",
        {"partitions.1.default": True},
        "spec.partitions",
        "only one partition can be the default",
    ),
    Bad(
        "a partition named DEFAULT",
        {"partitions.1.name": "Default"},
        "spec.partitions[1].name",
        "DEFAULT has a meaning",
    ),
    Bad(
        "a partition with a space",
        {"partitions.1.name": "big gpu"},
        "spec.partitions[1].name",
        "must be 1 to 63 letters",
    ),
    Bad(
        "a partition that brings a key",
        {"partitions.1.name": "a\nNodeName=x"},
        "spec.partitions[1].name",
        "must be 1 to 63",
    ),
    Bad("an empty partition name", {"partitions.1.name": ""}, "spec.partitions[1].name", "must be 1 to 63 letters"),
    Bad(
        "defaultTime beyond maxTime",
        {"partitions.0.defaultTime": "49h"},
        "spec.partitions[0].defaultTime",
        "defaultTime must not be longer than maxTime",
    ),
    Bad(
        "no defaultTime limit below maxTime",
        {"partitions.0.defaultTime": "UNLIMITED"},
        "spec.partitions[0].defaultTime",
        "defaultTime must not be longer than maxTime",
    ),
    Bad("a state that is none", {"partitions.0.state": "up"}, "spec.partitions[0].state", "Unsupported value"),
    Bad("a time in Slurm's form", {"partitions.0.maxTime": "2-00:00:00"}, "spec.partitions[0].maxTime", "as in 2d"),
    Bad(
        "a priority tier too high",
        {"partitions.0.priorityTier": 70000},
        "spec.partitions[0].priorityTier",
        "less than or equal to 65533",
    ),
    Bad("min above max", {"pools.0.nodes.min": 17}, "spec.pools[0].nodes.min", "min must not be greater than max"),
    Bad("warm above max", {"pools.0.nodes.warm": 17}, "spec.pools[0].nodes.warm", "warm must not be greater than max"),
    Bad(
        "no start at a time",
        {"pools.0.nodes.maxStarting": 0},
        "spec.pools[0].nodes.maxStarting",
        "greater than or equal",
    ),
    Bad("no start at all", {"maxStarting": 0}, "spec.maxStarting", "greater than or equal to 1"),
    Bad("another capacity", {"pools.0.capacity": "Elastic"}, "spec.pools[0].capacity", "Fixed"),
    Bad(
        "a partition of ours",
        {"partitions.0.name": "slurmcluster-h100"},
        "spec.partitions[0].name",
        "names that begin with slurmcluster- are the operator's own",
    ),
    Bad(
        "shared in an unknown way",
        {"partitions.0.overSubscribe": "MAYBE"},
        "spec.partitions[0].overSubscribe",
        "must be NO",
    ),
    Bad("an image in two words", {"pools.0.image": "slurmd cuda"}, "spec.pools[0].image", "must be an image"),
    Bad("an image in two lines", {"pools.0.image": "slurmd\n"}, "spec.pools[0].image", "must be an image"),
    Bad("max above 65000", {"pools.0.nodes.max": 65001}, "spec.pools[0].nodes.max", "less than or equal to 65000"),
    Bad("max of 0", {"pools.1.nodes.max": 0}, "spec.pools[1].nodes.max", "greater than or equal to 1"),
    Bad(
        "more than 65000 nodes in all",
        {"pools.0.nodes.max": 64999, "pools.1.nodes.max": 2},
        "spec.pools",
        "must not add up to more than 65000",
    ),
    Bad("a negative min", {"pools.0.nodes.min": -1}, "spec.pools[0].nodes.min", "greater than or equal to 0"),
    Bad("no cpus", {"pools.0.machine.cpus": 0}, "spec.pools[0].machine.cpus", "greater than or equal to 1"),
    Bad(
        "odd cpus",
        {"pools.0.machine.threadsPerCore": 5},
        "spec.pools[0].machine.cpus",
        "cpus must be a multiple of threadsPerCore",
    ),
    Bad(
        "negative GPUs",
        {"pools.0.machine.gpus.count": -8},
        "spec.pools[0].machine.gpus.count",
        "greater than or equal to 1",
    ),
    Bad(
        "a GPU type with a colon",
        {"pools.0.machine.gpus.type": "h100:8"},
        "spec.pools[0].machine.gpus.type",
        "must be 1 to 63 letters",
    ),
    Bad(
        "a GPU resource without domain",
        {"pools.0.machine.gpus.resource": "gpu"},
        "spec.pools[0].machine.gpus.resource",
        "as in nvidia.com/gpu",
    ),
    Bad(
        "devices that are none",
        {"pools.0.machine.gpus.devicePrefix": "/etc/x"},
        "spec.pools[0].machine.gpus.devicePrefix",
        "must be a path below /dev",
    ),
    Bad(
        "memory in GB",
        {"pools.0.machine.memory": "1000GB"},
        "spec.pools[0].machine.memory",
        "must be a whole number of Mi, Gi or Ti",
    ),
    Bad(
        "memory as a number",
        {"pools.0.machine.memory": "1000"},
        "spec.pools[0].machine.memory",
        "must be a whole number of Mi, Gi or Ti",
    ),
    Bad(
        "no memory",
        {"pools.0.machine.memory": "0Gi"},
        "spec.pools[0].machine.memory",
        "must be a whole number of Mi, Gi or Ti",
    ),
    Bad(
        "a feature with a comma",
        {"pools.0.machine.features": ["ib,roce"]},
        "spec.pools[0].machine.features[0]",
        "must be 1 to 63 letters",
    ),
    Bad(
        "a pool name in upper case", {"pools.1.name": "CPU"}, "spec.pools[1].name", "must be 1 to 20 lower-case letters"
    ),
    Bad(
        "a pool name with a dot",
        {"pools.1.name": "cpu.big"},
        "spec.pools[1].name",
        "must be 1 to 20 lower-case letters",
    ),
    Bad(
        "a pool name that ends with -",
        {"pools.1.name": "cpu-"},
        "spec.pools[1].name",
        "must be 1 to 20 lower-case letters",
    ),
    Bad("a pool name too long", {"pools.1.name": "a" * 21}, "spec.pools[1].name", "must be 1 to 20 lower-case letters"),
    Bad(
        "a pool named after a part",
        {"pools.2": _pool("login")},
        "spec.pools",
        "must not be those of the parts: controller",
    ),
    Bad(
        "no idle time",
        {"pools.0.idleTimeout": "0m"},
        "spec.pools[0].idleTimeout",
        "must be a positive whole number of s, m, h or d",
    ),
    Bad(
        "an idle time without unit",
        {"pools.0.idleTimeout": "600"},
        "spec.pools[0].idleTimeout",
        "must be a positive whole number",
    ),
    Bad(
        "a negative idle time",
        {"pools.0.idleTimeout": "-5m"},
        "spec.pools[0].idleTimeout",
        "must be a positive whole number of s, m, h or d",
    ),
    Bad(
        "no start timeout",
        {"pools.0.startTimeout": "0s"},
        "spec.pools[0].startTimeout",
        "must be a positive whole number of s, m or h",
    ),
    Bad(
        "a negative start timeout",
        {"pools.0.startTimeout": "-5m"},
        "spec.pools[0].startTimeout",
        "must be a positive whole number of s, m or h",
    ),
    Bad(
        "no time to return",
        {"pools.0.returnAfter": "0s"},
        "spec.pools[0].returnAfter",
        "must be a positive whole number of s, m, h or d",
    ),
    Bad(
        "a negative time to return",
        {"pools.0.returnAfter": "-5m"},
        "spec.pools[0].returnAfter",
        "must be a positive whole number of s, m, h or d",
    ),
    Bad(
        "no deadline",
        {"pools.0.reclaim.deadline": "0s"},
        "spec.pools[0].reclaim.deadline",
        "must be a positive whole number of s, m, h or d",
    ),
    Bad(
        "a negative deadline",
        {"pools.0.reclaim.deadline": "-5m"},
        "spec.pools[0].reclaim.deadline",
        "must be a positive whole number of s, m, h or d",
    ),
    Bad(
        "a start timeout beyond 18h",
        {"pools.0.startTimeout": "19h"},
        "spec.pools[0].startTimeout",
        "at most 9999s, 999m or 18h",
    ),
    Bad("an isolation that is none", {"pools.0.isolation": "VM"}, "spec.pools[0].isolation", "Unsupported value"),
    Bad(
        "no node may be out",
        {"pools.0.update": {"maxUnavailable": "0%"}},
        "spec.pools[0].update.maxUnavailable",
        "must be a positive number of nodes or a percentage",
    ),
    Bad(
        "a label's value with a space",
        {"pools.0.nodeSelector": {"a": "b c"}},
        "spec.pools[0].nodeSelector[a]",
        "must be a label's value",
    ),
    Bad(
        "a toleration's operator",
        {"pools.0.tolerations": [{"key": "a", "operator": "Is"}]},
        "spec.pools[0].tolerations[0].operator",
        "Unsupported value",
    ),
    Bad(
        "a toleration of nothing",
        {"pools.0.tolerations": [{"effect": "NoSchedule"}]},
        "spec.pools[0].tolerations[0].operator",
        "operator must be Exists when no key is named",
    ),
    Bad(
        "a toleration with a value too many",
        {"pools.0.tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        "spec.pools[0].tolerations[0].value",
        "value has no meaning with operator Exists",
    ),
    Bad("a field that does not exist", {"pools.0.replicas": 3}, "spec.pools[0].replicas", "unknown field"),
    Bad("a uid below 1000", {"users.0.uid": 999}, "spec.users[0].uid", "greater than or equal to 1000"),
    Bad("a uid above 60000", {"users.0.uid": 64030}, "spec.users[0].uid", "less than or equal to 60000"),
    Bad("a negative uid", {"users.0.uid": -1}, "spec.users[0].uid", "greater than or equal to 1000"),
    Bad("a uid used twice", {"users.1.uid": 2001}, "spec.users", "uid 2001 must not be used twice, as by"),
    Bad("two users of a name", {"users.1.name": "alice"}, "spec.users[1]", 'Duplicate value: {"name":"alice"}'),
    Bad("a user named root", {"users.0.name": "root"}, "spec.users[0].name", "is an account of the images"),
    Bad("a user with a colon", {"users.0.name": "a:0"}, "spec.users[0].name", "must be a POSIX user name"),
    Bad("a user named in upper case", {"users.0.name": "Alice"}, "spec.users[0].name", "must be a POSIX user name"),
    Bad(
        "a group of the images",
        {"users.0.groups": ["slurm-sudo"]},
        "spec.users[0].groups",
        "for root on login pods set sudo",
    ),
    Bad("a group with a comma", {"users.0.groups": ["a,b"]}, "spec.users[0].groups[0]", "must be a POSIX group name"),
    Bad("a group twice", {"users.0.groups": ["a", "a"]}, "spec.users[0].groups[1]", "Duplicate value"),
    Bad("a relative shell", {"users.0.shell": "bash"}, "spec.users[0].shell", "must be an absolute path"),
    Bad(
        "a shell that brings a user",
        {"users.0.shell": "/bin/sh\neve:x:0:0::/:/bin/sh"},
        "spec.users[0].shell",
        "must be an absolute path",
    ),
    _key("a key that is none", "let me in", "must be one OpenSSH public key"),
    _key("a private key", "-----BEGIN OPENSSH PRIVATE KEY-----", "must be one OpenSSH public key"),
    _key("a key without its kind", KEY.split(" ")[1], "must be one OpenSSH public key"),
    _key(
        "a key of a kind that is not accepted", KEY.replace("ssh-ed25519", "ssh-dss"), "must be one OpenSSH public key"
    ),
    _key("a key with options", f'command="x" {KEY}', "must be one OpenSSH public key"),
    _key("a key cut off", KEY[:60], "its body is cut off or too long"),
    _key("a key cut off before its comment", f"{KEY[:60]} alice", "its body is cut off or too long"),
    _key("two keys in one", f"{KEY}\n{KEY}", "it contains a line break"),
    _key("a key with base64 that is none", KEY.replace("JdD7", "Jd_7"), ""),
    _conf("a key that we set", "ResumeTimeout", "60", "ResumeTimeout is set by spec.pools[].startTimeout"),
    _conf(
        "a key that we set, of state", "StateSaveLocation", "/", "StateSaveLocation is set by spec.controller.storage"
    ),
    _conf(
        "a key that we set, of isolation",
        "JobAcctGatherType",
        "x",
        "JobAcctGatherType is set by spec.pools[].isolation",
    ),
    _conf("nodes", "NodeName", "x", "NodeName is set by spec.pools"),
    _conf("a partition as a key", "PartitionName", "x", "PartitionName is set by spec.partitions"),
    _conf("another file", "Include", "/etc/passwd", "Include is set by the operator"),
    _conf(
        "a key that does not exist",
        "SchedulerParameter",
        "x",
        "SchedulerParameter is not a slurm.conf key of Slurm 26.05",
    ),
    _conf(
        "a key in another case",
        "schedulerparameters",
        "x",
        "schedulerparameters is not a slurm.conf key of Slurm 26.05",
    ),
    _conf("a key with a second one", "KillWait=1 StateSaveLocation", "/", "is not a slurm.conf key of Slurm 26.05"),
    Bad(
        "a key of a later version",
        {"slurmVersion": "24.11", "slurmConf.HealthCheckTimeout": "10"},
        "spec.slurmConf",
        "HealthCheckTimeout is not a slurm.conf key of Slurm 24.11",
    ),
    _smuggled("a second key in a value", "30 StateSaveLocation=/"),
    _smuggled("a second line in a value", "bf_interval=30\nStateSaveLocation=/"),
    _smuggled("a carriage return in a value", "bf_interval=30\rStateSaveLocation=/"),
    _smuggled("a comment in a value", "bf_interval=30#"),
    _smuggled("quotes in a value", '"30"'),
    _smuggled("a continued line", "30\\"),
    _smuggled("a line that ends", "bf_interval=30\n"),
    _smuggled("an empty value", ""),
    Bad("a version that is none", {"slurmVersion": "23.02"}, "spec.slurmVersion", "Unsupported value"),
    Bad(
        "a cluster name in upper case",
        {"clusterName": "Demo"},
        "spec.clusterName",
        "must be 1 to 40 lower-case letters",
    ),
    Bad("a registry with a space", {"images": {"registry": "a b"}}, "spec.images.registry", "must be a registry"),
    Bad(
        "storage in GB",
        {"controller": {"storage": {"size": "10GB"}}},
        "spec.controller.storage.size",
        "must be a whole number of Mi, Gi or Ti",
    ),
    Bad(
        "a memory limit in GB",
        {"controller": {"resources": {"limits": {"memory": "2GB"}}}},
        "spec.controller.resources.limits[memory]",
        "must be a Kubernetes quantity",
    ),
    Bad("a negative limit", {"login": {"resources": {"limits": {"cpu": -1}}}}, "spec.login.resources.limits[cpu]", ""),
    Bad("resources of a pod", {"login": {"resources": {"cpu": 1}}}, "spec.login.resources.cpu", "unknown field"),
    Bad(
        "a storage class with a space",
        {"home": {"storageClassName": "fast disks"}},
        "spec.home.storageClassName",
        "must be a DNS name",
    ),
    Bad(
        "a class for a claim that is there",
        {"home": {"storageClassName": "fast", "existingClaim": "homes"}},
        "spec.home.storageClassName",
        "not for existingClaim",
    ),
    Bad("a machine without memory", {"pools.0.machine.memory": GONE}, "spec.pools[0].machine.memory", "Required value"),
    Bad("a pool without max", {"pools.0.nodes.max": GONE}, "spec.pools[0].nodes.max", "Required value"),
    Bad(
        "GPUs without a count",
        {"pools.0.machine.gpus.count": GONE},
        "spec.pools[0].machine.gpus.count",
        "Required value",
    ),
    Bad(
        "too many GPUs",
        {"pools.0.machine.gpus.count": 65},
        "spec.pools[0].machine.gpus.count",
        "less than or equal to 64",
    ),
    Bad("too many cpus", {"pools.0.machine.cpus": 4097}, "spec.pools[0].machine.cpus", "less than or equal to 4096"),
    Bad(
        "no threads",
        {"pools.0.machine.threadsPerCore": 0},
        "spec.pools[0].machine.threadsPerCore",
        "greater than or equal to 1",
    ),
    Bad(
        "a feature twice",
        {"pools.0.machine.features": ["ib", "ib"]},
        "spec.pools[0].machine.features[1]",
        "Duplicate value",
    ),
    Bad(
        "less than no warm nodes", {"pools.0.nodes.warm": -1}, "spec.pools[0].nodes.warm", "greater than or equal to 0"
    ),
    Bad(
        "a taint's effect that is none",
        {"pools.0.tolerations": [{"key": "a", "operator": "Exists", "effect": "No"}]},
        "spec.pools[0].tolerations[0].effect",
        "Unsupported value",
    ),
    Bad(
        "a taint's value with a space",
        {"pools.0.tolerations": [{"key": "a", "value": "b c"}]},
        "spec.pools[0].tolerations[0].value",
        "must be a label's value",
    ),
    Bad(
        "a partition over a bad name",
        {"partitions.1.pools.1": "No!"},
        "spec.partitions[1].pools[1]",
        "must be 1 to 20 lower-case letters",
    ),
    Bad(
        "a default time of nothing",
        {"partitions.0.defaultTime": "0"},
        "spec.partitions[0].defaultTime",
        "must be a positive whole number",
    ),
    Bad(
        "a group in capitals",
        {"partitions.0.allowGroups": ["Vision"]},
        "spec.partitions[0].allowGroups[0]",
        "must be a POSIX group name",
    ),
    Bad(
        "a group allowed twice",
        {"partitions.0.allowGroups": ["a", "a"]},
        "spec.partitions[0].allowGroups[1]",
        "Duplicate value",
    ),
    Bad(
        "a negative priority tier",
        {"partitions.0.priorityTier": -1},
        "spec.partitions[0].priorityTier",
        "greater than or equal to 0",
    ),
    Bad("an ssh key twice", {"users.0.sshKeys.1": KEY}, "spec.users[0].sshKeys[1]", "Duplicate value"),
    Bad(
        "nine ssh keys",
        {"users.0.sshKeys": [f"{KEY}{n}" for n in range(9)]},
        "spec.users[0].sshKeys",
        "must have at most 8 items",
    ),
    Bad("a user without a uid", {"users.1.uid": GONE}, "spec.users[1].uid", "Required value"),
    Bad(
        "a Secret with a capital",
        {"login": {"authorizedKeysSecret": "Keys"}},
        "spec.login.authorizedKeysSecret",
        "must be a DNS name",
    ),
    Bad("a claim with a slash", {"home": {"existingClaim": "a/b"}}, "spec.home.existingClaim", "must be a DNS name"),
    Bad(
        "a volume to lose",
        {"controller": {"storage": {"onDelete": "Lose"}}},
        "spec.controller.storage.onDelete",
        "Unsupported value",
    ),
    Bad(
        "a host that is none",
        {"accounting": {"database": {"external": {"host": "db:3306", "credentialsSecret": "x"}}}},
        "spec.accounting.database.external.host",
        "must be a DNS name",
    ),
    Bad(
        "a database's port",
        {"accounting": {"database": {"external": {"host": "db", "port": 65536, "credentialsSecret": "x"}}}},
        "spec.accounting.database.external.port",
        "less than or equal to 65535",
    ),
    Bad(
        "a database's name with a hash",
        {"accounting": {"database": {"external": {"host": "db", "name": "a#b", "credentialsSecret": "x"}}}},
        "spec.accounting.database.external.name",
        "must be",
    ),
    Bad("no slurmrestd", {"restApi": {"replicas": 0}}, "spec.restApi.replicas", "greater than or equal to 1"),
    Bad(
        "a pull policy that is none", {"images": {"pullPolicy": "Daily"}}, "spec.images.pullPolicy", "Unsupported value"
    ),
    Bad(
        "two databases",
        {"accounting": {"database": {"embedded": {}, "external": {"host": "db", "credentialsSecret": "db"}}}},
        "spec.accounting.database",
        "name one of embedded and external",
    ),
    Bad(
        "no database", {"accounting": {"database": {}}}, "spec.accounting.database", "name one of embedded and external"
    ),
    Bad(
        "a database without credentials",
        {"accounting": {"database": {"external": {"host": "db"}}}},
        "spec.accounting.database.external.credentialsSecret",
        "Required value",
    ),
    Bad(
        "a port that is none",
        {"login": {"service": {"port": 0}}},
        "spec.login.service.port",
        "greater than or equal to 1",
    ),
    Bad(
        "a Service type that is none",
        {"login": {"service": {"type": "Ingress"}}},
        "spec.login.service.type",
        "Unsupported value",
    ),
    Bad("no login pod", {"login": {"replicas": 0}}, "spec.login.replicas", "greater than or equal to 1"),
)

BAD_NAMES: Final = ("a" * 31, "1st", "demo.example", "demo-")
"""Names of a SlurmCluster that the API server refuses at ``metadata.name``."""

BAD_EDITS: Final[tuple[BadEdit, ...]] = (
    BadEdit(
        "another cluster name",
        {"clusterName": "a"},
        {"clusterName": "b"},
        "spec.clusterName",
        "clusterName is immutable",
    ),
    BadEdit("a cluster name", {}, {"clusterName": "b"}, "spec.clusterName", "clusterName is immutable"),
    BadEdit("no cluster name", {"clusterName": "a"}, {}, "spec.clusterName", "clusterName is immutable"),
    BadEdit("an older Slurm", {}, {"slurmVersion": "24.11"}, "spec.slurmVersion", "slurmVersion cannot go back"),
    BadEdit(
        "another class for homes",
        {"home": {"storageClassName": "a"}},
        {"home": {"storageClassName": "b"}},
        "spec.home.storageClassName",
        "storageClassName is immutable",
    ),
    BadEdit("a class for homes", {}, {"home": {"storageClassName": "b"}}, "spec.home.storageClassName", "is immutable"),
    BadEdit(
        "another claim for homes",
        {"home": {"existingClaim": "a"}},
        {"home": {"existingClaim": "b"}},
        "spec.home.existingClaim",
        "existingClaim is immutable",
    ),
    BadEdit(
        "no claim for homes",
        {"home": {"existingClaim": "a"}},
        {},
        "spec.home.existingClaim",
        "existingClaim is immutable",
    ),
    BadEdit("smaller homes", {}, {"home": {"size": "99Gi"}}, "spec.home.size", "a volume cannot shrink: it has 100Gi"),
    BadEdit(
        "smaller homes in another unit",
        {"home": {"size": "1Ti"}},
        {"home": {"size": "1000Gi"}},
        "spec.home.size",
        "a volume cannot shrink",
    ),
    BadEdit(
        "another class for state",
        {},
        {"controller": {"storage": {"storageClassName": "b"}}},
        "spec.controller.storage.storageClassName",
        "storageClassName is immutable",
    ),
    BadEdit(
        "less state",
        {},
        {"controller": {"storage": {"size": "9Gi"}}},
        "spec.controller.storage.size",
        "a volume cannot shrink: it has 10Gi",
    ),
    BadEdit(
        "another class for the database",
        {},
        {"accounting": {"database": {"embedded": {"storage": {"storageClassName": "b"}}}}},
        "spec.accounting.database.embedded.storage.storageClassName",
        "storageClassName is immutable",
    ),
    BadEdit(
        "a smaller database",
        {},
        {"accounting": {"database": {"embedded": {"storage": {"size": "19Gi"}}}}},
        "spec.accounting.database.embedded.storage.size",
        "a volume cannot shrink: it has 20Gi",
    ),
)

GOOD: Final[Mapping[str, Changes]] = {
    "as it is": {},
    "a value with equals signs": {"slurmConf.SchedulerParameters": "bf_interval=30,bf_max_job_test=5000"},
    "a value with brackets": {"slurmConf.Prolog": "/etc/slurm/prolog.d/*"},
    "an older Slurm": {"slurmVersion": "24.11"},
    "no users": {"users": GONE},
    "an RSA key without a comment": {
        "users.0.sshKeys.0": "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAQQDBvt1Q5QOGXoPnyRr8dBvAoRbGgCgmZGhTR1B9WYuRq6FbSgd"
        "QmIyoSvvC1GHjvtH7TdXLdqaFYfpXZbFl2NZ5"
    },
    "a key on hardware": {
        "users.0.sshKeys.0": "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIJdD7y3aLq454yWBd"
        "wLWbieU1ebz9/cu7/QEXn9OIeZJAAAABHNzaDo= alice"
    },
    "an external database": {
        "accounting": {"database": {"external": {"host": "db.example.com", "credentialsSecret": "slurm-db"}}}
    },
    "resources of all kinds": {
        "controller": {
            "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": "1500m", "memory": "4Gi"}}
        }
    },
    "tolerations of all kinds": {
        "pools.0.tolerations": [
            {"operator": "Exists"},
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "team", "value": "a"},
        ]
    },
    "the largest cluster": {"pools.0.nodes.max": 64996},
    "a start timeout of 18h": {"pools.0.startTimeout": "18h"},
}
"""Changes that are fine, however odd they look."""

GOOD_EDITS: Final[tuple[tuple[str, Changes, Changes], ...]] = (
    ("a newer Slurm", {"slurmVersion": "24.11"}, {}),
    ("larger homes", {}, {"home": {"size": "1Ti"}}),
    ("homes kept no longer", {}, {"home": {"onDelete": "Delete"}}),
    ("an external database", {}, {"accounting": {"database": {"external": {"host": "db", "credentialsSecret": "x"}}}}),
    ("another pool", {}, {"pools.2": _pool("a100")}),
)
