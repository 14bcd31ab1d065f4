"""The spec of a ``SlurmCluster`` and the rules between its parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from slurmcluster_operator.api import slurm_conf
from slurmcluster_operator.api.parts import Accounting, Controller, Home, Login, RestApi, User
from slurmcluster_operator.api.pools import Partition, Pool
from slurmcluster_operator.api.schema import Model, Rule, unique
from slurmcluster_operator.api.values import ClusterName, ConfValue, DnsName

SlurmVersion = Literal["26.05", "24.11"]

RESERVED_POOL_NAMES = ("controller", "accounting", "database", "restapi", "login", "home", "slurmd")
"""Pool names that would make pods collide with those of the parts."""


def _slurm_conf_rules() -> Iterable[Rule]:
    """Make the CEL twins of ``slurm_conf.problem``; Python asks that function itself, so these have no twin here."""
    owned = _cel_map(slurm_conf.OWNED)
    yield Rule(
        f"!has(self.slurmConf) || self.slurmConf.all(k, !(k in {owned}))",
        "slurmConf must not hold keys that the operator sets",
        message_expression=f"self.slurmConf.filter(k, k in {owned}).map(k, k + ' is set by ' + {owned}[k])[0]",
        field_path=".slurmConf",
    )
    for version in slurm_conf.KEYS:
        known = _cel_map(dict.fromkeys(sorted(slurm_conf.KEYS[version]), ""))
        yield Rule(
            f"!has(self.slurmConf) || self.slurmVersion != '{version}' || self.slurmConf.all(k, k in {known})",
            f"slurmConf must hold keys of Slurm {version} only",
            message_expression=f"self.slurmConf.filter(k, !(k in {known}))[0] + ' is not a slurm.conf key of Slurm {version}'",
            field_path=".slurmConf",
        )


def _cel_map(values: Mapping[str, str]) -> str:
    return "{" + ",".join(f"'{key}':'{value}'" for key, value in values.items()) + "}"


class Images(Model):
    """Where the images come from."""

    registry: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9./:_-]+$", max_length=253)] | None = None
    """Registry and path in front of the image names; the operator's own setting when not set."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    pull_secrets: tuple[DnsName, ...] = Field(default=(), max_length=16)
    """Secrets of type dockerconfigjson."""


class SlurmClusterSpec(Model):
    """A whole Slurm cluster."""

    rules = (
        Rule(
            "has(self.clusterName) == has(oldSelf.clusterName) && (!has(self.clusterName) || self.clusterName == oldSelf.clusterName)",
            "clusterName is immutable: the accounting history is filed under it",
        ),
        Rule(
            "self.pools.map(p, p.name).all(n, self.pools.exists_one(p, p.name == n))",
            "pool names must be unique",
            lambda self: not unique(self.pools, lambda pool: pool.name),
            field_path=".pools",
        ),
        Rule(
            "self.pools.all(p, !(p.name in [" + ", ".join(f"'{name}'" for name in RESERVED_POOL_NAMES) + "]))",
            "pool names must not be those of the parts: " + ", ".join(RESERVED_POOL_NAMES),
            lambda self: any(pool.name in RESERVED_POOL_NAMES for pool in self.pools),
            field_path=".pools",
        ),
        Rule(
            "self.partitions.map(p, p.name).all(n, self.partitions.exists_one(p, p.name == n))",
            "partition names must be unique",
            lambda self: not unique(self.partitions, lambda partition: partition.name),
            field_path=".partitions",
        ),
        Rule(
            "self.partitions.all(q, q.pools.all(n, self.pools.exists(p, p.name == n)))",
            "every pool of a partition must be in spec.pools",
            lambda self: not _pools_known(self),
            message_expression=(
                "'unknown pool ' + self.partitions.map(q, q.pools.filter(n, !self.pools.exists(p, p.name == n)).map(n,"
                " n + ' in partition ' + q.name)).filter(l, size(l) > 0)[0][0] + '; spec.pools has '"
                " + self.pools.map(p, p.name).join(', ')"
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
            "!has(self.users) || self.users.map(u, u.name).all(n, self.users.exists_one(u, u.name == n))",
            "user names must be unique",
            lambda self: not unique(self.users, lambda user: user.name),
            field_path=".users",
        ),
        Rule(
            "!has(self.users) || self.users.all(u, self.users.exists_one(v, u.uid == v.uid))",
            "a uid must not be used twice",
            lambda self: not unique(self.users, lambda user: user.uid),
            message_expression=(
                "'uid ' + string(self.users.filter(u, !self.users.exists_one(v, u.uid == v.uid))[0].uid) + ' is used twice, by '"
                " + self.users.filter(u, !self.users.exists_one(v, u.uid == v.uid)).map(u, u.name).join(' and ')"
            ),
            field_path=".users",
        ),
        *_slurm_conf_rules(),
    )

    @model_validator(mode="after")
    def _check_slurm_conf(self) -> Self:
        problems = [problem for key in self.slurm_conf if (problem := slurm_conf.problem(key, self.slurm_version))]
        if problems:
            raise ValueError("slurmConf: " + "; ".join(problems))
        return self

    cluster_name: ClusterName | None = None
    """Name in slurmdbd; metadata.name when not set. Immutable."""
    slurm_version: SlurmVersion = "26.05"
    images: Images = Images()
    controller: Controller = Controller()
    accounting: Accounting = Accounting()
    rest_api: RestApi = RestApi()
    login: Login = Login()
    home: Home = Home()
    users: tuple[User, ...] = Field(default=(), max_length=500)
    pools: tuple[Pool, ...] = Field(min_length=1, max_length=64)
    partitions: tuple[Partition, ...] = Field(min_length=1, max_length=64)
    slurm_conf: dict[str, ConfValue] = Field(default_factory=dict, max_length=128)
    """slurm.conf keys and values of your own. Keys that the operator sets are refused by name."""


def _pools_known(spec: SlurmClusterSpec) -> bool:
    names = {pool.name for pool in spec.pools}
    return all(names.issuperset(partition.pools) for partition in spec.partitions)
