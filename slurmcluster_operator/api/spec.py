"""The spec of a ``SlurmCluster`` and the rules between its parts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from slurmcluster_operator.api import slurm_conf
from slurmcluster_operator.api.parts import Accounting, Controller, Home, Login, RestApi, User
from slurmcluster_operator.api.pools import MAX_NODES, Partition, Pool
from slurmcluster_operator.api.schema import Model, Rule, Unique
from slurmcluster_operator.api.values import ClusterName, ConfValue, DnsName, Registry

SlurmVersion = Literal["26.05", "24.11"]

RESERVED_POOL_NAMES = ("controller", "accounting", "database", "restapi", "login", "home", "slurmd")
"""Pool names that would make pods collide with those of the parts."""

_RESERVED_POOLS_CEL = "[" + ", ".join(f"'{name}'" for name in RESERVED_POOL_NAMES) + "]"


class Images(Model):
    """Where the images come from."""

    registry: Registry | None = None
    """Registry and path in front of the image names; the operator's own setting when not set."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When to pull, as in a container."""
    pull_secrets: Annotated[tuple[DnsName, ...], Unique()] = Field(default=(), max_length=16)
    """Secrets of type dockerconfigjson."""


def _unknown_pool(spec: SlurmClusterSpec) -> str:
    known = [pool.name for pool in spec.pools]
    unknown = (
        f"unknown pool {name} in partition {partition.name}; spec.pools has {', '.join(known)}"
        for partition in spec.partitions
        for name in partition.pools
        if name not in known
    )
    return next(unknown, "")


def _shared_uid(spec: SlurmClusterSpec) -> str:
    owners: dict[int, list[str]] = {}
    for user in spec.users:
        owners.setdefault(user.uid, []).append(user.name)
    shared = (
        f"uid {uid} must not be used twice, as by {', '.join(who)}" for uid, who in owners.items() if len(who) > 1
    )
    return next(shared, "")


class SlurmClusterSpec(Model):
    """A whole Slurm cluster."""

    rules = (
        Rule(
            "has(self.clusterName) == has(oldSelf.clusterName)"
            " && (!has(self.clusterName) || self.clusterName == oldSelf.clusterName)",
            "clusterName is immutable: the accounting history is filed under it",
            field_path=".clusterName",
        ),
        Rule(
            "self.slurmVersion >= oldSelf.slurmVersion",
            "slurmVersion cannot go back: an older Slurm does not read what a newer one wrote",
            field_path=".slurmVersion",
        ),
        Rule(
            f"self.pools.all(p, !(p.name in {_RESERVED_POOLS_CEL}))",
            "pool names must not be those of the parts: " + ", ".join(RESERVED_POOL_NAMES),
            lambda self: any(pool.name in RESERVED_POOL_NAMES for pool in self.pools),
            field_path=".pools",
        ),
        Rule(
            f"self.pools.map(p, p.nodes.max).sum() <= {MAX_NODES}",
            f"the pools' nodes.max must not add up to more than {MAX_NODES}: Slurm numbers no more nodes",
            lambda self: sum(pool.nodes.max for pool in self.pools) > MAX_NODES,
            field_path=".pools",
        ),
        Rule(
            "[self.pools.map(p, p.name)].all(known, self.partitions.all(q, q.pools.all(n, n in known)))",
            "every pool of a partition must be in spec.pools",
            _unknown_pool,
            message_expression=(
                "self.partitions.map(q, q.pools.filter(n, !self.pools.exists(p, p.name == n)).map(n,"
                " 'unknown pool %s in partition %s; spec.pools has %s'.format([n, q.name, self.pools.map(p, p.name)])))"
                ".filter(l, size(l) > 0)[0][0]"
            ),
            field_path=".partitions",
        ),
        Rule(
            "self.partitions.filter(p, has(p.default) && p.default).size() <= 1",
            "only one partition can be the default",
            lambda self: sum(partition.default for partition in self.partitions) > 1,
            field_path=".partitions",
        ),
        Rule(
            "!has(self.users)"
            " || [self.users.map(u, u.uid)].all(uids, uids.all(uid, uids.indexOf(uid) == uids.lastIndexOf(uid)))",
            "a uid must not be used twice",
            _shared_uid,
            message_expression=(
                "self.users.filter(u, !self.users.exists_one(v, u.uid == v.uid)).map(u,"
                " 'uid %d must not be used twice, as by %s'"
                ".format([u.uid, self.users.filter(v, v.uid == u.uid).map(v, v.name)]))[0]"
            ),
            field_path=".users",
        ),
        *slurm_conf.rules(),
    )

    cluster_name: ClusterName | None = None
    """Name in slurmdbd; metadata.name when not set. Immutable."""
    slurm_version: SlurmVersion = "26.05"
    """The version of Slurm that all parts run. It can go up, never back."""
    images: Images = Images()
    """Where the images come from."""
    controller: Controller = Controller()
    """slurmctld."""
    accounting: Accounting = Accounting()
    """slurmdbd and its database."""
    rest_api: RestApi = RestApi()
    """slurmrestd."""
    login: Login = Login()
    """Login pods."""
    home: Home = Home()
    """Home directories."""
    users: Annotated[tuple[User, ...], Unique("name")] = Field(default=(), max_length=500)
    """Who may log in and submit jobs."""
    pools: Annotated[tuple[Pool, ...], Unique("name")] = Field(min_length=1, max_length=64)
    """Sets of like machines."""
    max_starting: int = Field(default=500, ge=1, le=MAX_NODES)
    """Nodes of the whole cluster that may be starting at a time: hundreds that register at once keep slurmctld busy."""
    partitions: Annotated[tuple[Partition, ...], Unique("name")] = Field(min_length=1, max_length=64)
    """Queues over the pools."""
    slurm_conf: dict[str, ConfValue] = Field(default_factory=dict, max_length=128)
    """slurm.conf keys and values of your own. Keys that the operator sets are refused by name."""
