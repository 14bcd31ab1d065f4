"""What the spec says of each part: controller, accounting, REST API, login, homes, users."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from slurmcluster_operator.api.schema import Model, Rule, schema_extra, unique
from slurmcluster_operator.api.values import DnsName, GroupName, ShellPath, SshKey, StorageSize, UserName

_OPEN = schema_extra(preserve_unknown_fields=True)


class Placement(Model):
    """Where a part's pods run and what they may use."""

    resources: dict[str, Any] = Field(default_factory=dict, json_schema_extra=dict(_OPEN))
    """Requests and limits, as in a container."""
    node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels that a Kubernetes node must have."""
    tolerations: tuple[dict[str, Any], ...] = Field(
        default=(), json_schema_extra={"items": {"type": "object", **_OPEN}}
    )
    """Taints that the pods put up with, as in a pod."""


class Volume(Model):
    """A volume that the operator makes."""

    size: StorageSize = "10Gi"
    storage_class_name: DnsName | None = None
    """The cluster's default class when not set."""
    on_delete: Literal["Retain", "Delete"] = "Retain"
    """What becomes of the volume when the SlurmCluster is deleted."""


class Controller(Placement):
    """slurmctld."""

    storage: Volume = Volume()
    """Job and node state."""


class EmbeddedDatabase(Placement):
    """A MariaDB that the operator runs."""

    storage: Volume = Volume(size="20Gi")


class ExternalDatabase(Model):
    """A MySQL or MariaDB server that somebody else runs."""

    host: DnsName
    port: int = Field(default=3306, ge=1, le=65535)
    name: UserName = "slurm_acct_db"
    """The database's name."""
    credentials_secret: DnsName
    """A Secret with the keys ``username`` and ``password``."""


class Database(Model):
    """Where slurmdbd keeps its records: embedded, or external."""

    rules = (
        Rule(
            "!(has(self.embedded) && has(self.external))",
            "name either embedded or external, not both",
            lambda self: self.embedded is not None and self.external is not None,
        ),
    )

    embedded: EmbeddedDatabase | None = None
    external: ExternalDatabase | None = None

    @property
    def embedded_or_default(self) -> EmbeddedDatabase | None:
        """The embedded database's settings; None when the database is external."""
        return None if self.external else self.embedded or EmbeddedDatabase()


class Accounting(Placement):
    """slurmdbd and its database."""

    enabled: bool = True
    database: Database = Database()


class RestApi(Placement):
    """slurmrestd."""

    replicas: int = Field(default=1, ge=1, le=10)


class LoginService(Model):
    """How users reach sshd."""

    type: Literal["LoadBalancer", "NodePort", "ClusterIP"] = "LoadBalancer"
    port: int = Field(default=22, ge=1, le=65535)
    annotations: dict[str, str] = Field(default_factory=dict)
    """Passed on to the Service, for the cloud's load balancer."""


class Login(Placement):
    """Login pods."""

    replicas: int = Field(default=1, ge=1, le=20)
    service: LoginService = LoginService()
    authorized_keys_secret: DnsName | None = None
    """A Secret with one key a user: the name is the user's, the value their authorized_keys."""


class Home(Model):
    """Home directories, one volume shared (ReadWriteMany) by login and slurmd pods."""

    rules = (
        Rule(
            "!has(self.existingClaim) || !has(self.storageClassName)",
            "storageClassName is for a volume that the operator makes, not for existingClaim",
            lambda self: self.existing_claim is not None and self.storage_class_name is not None,
        ),
    )

    size: StorageSize = "100Gi"
    storage_class_name: DnsName | None = None
    """The cluster's default class when not set; it must offer ReadWriteMany."""
    existing_claim: DnsName | None = None
    """A PersistentVolumeClaim that is there already."""
    on_delete: Literal["Retain", "Delete"] = "Retain"
    """What becomes of the volume when the SlurmCluster is deleted."""


class User(Model):
    """A person who logs in and submits jobs."""

    rules = (
        Rule(
            "!has(self.groups) || self.groups.all(g, self.groups.exists_one(h, g == h))",
            "groups must be named once each",
            lambda self: not unique(self.groups, str),
        ),
    )

    name: UserName
    uid: int = Field(ge=1000, le=60000)
    """Also the id of the user's own group. Below 1000 are system accounts; above 60000 others begin."""
    groups: tuple[GroupName, ...] = Field(default=(), max_length=32)
    """Further groups; a group's id is made from its name and stays the same."""
    ssh_keys: tuple[SshKey, ...] = Field(default=(), max_length=32)
    """Public keys that may log in."""
    shell: ShellPath = "/bin/bash"
    sudo: bool = False
    """Whether the user may become root on login pods."""
