"""What the spec says of each part: controller, accounting, REST API, login, homes, users."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from slurmcluster_operator.api.pod import Resources, Toleration
from slurmcluster_operator.api.schema import Model, Rule, Shape, Unique
from slurmcluster_operator.api.values import DnsName, GroupName, LabelValue, ShellPath, SshKey, StorageSize, UserName

RESERVED_ACCOUNTS = (
    *("root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy", "backup", "list"),
    *("irc", "nobody", "nogroup", "adm", "sudo", "shadow", "staff", "users", "sshd", "slurm", "slurmrestd", "mysql"),
)
"""Users and groups of the images: a user of that name would be somebody else there."""

SUDO_GROUP = "slurm-sudo"
"""Members become root on login pods: the image's sudoers file names this group."""

_RESERVED = (*RESERVED_ACCOUNTS, SUDO_GROUP)
_RESERVED_CEL = "[" + ", ".join(f"'{name}'" for name in _RESERVED) + "]"


def _immutable(field: str, why: str) -> Rule:
    """Return the rule that a field keeps its value, also that of being absent."""
    return Rule(
        f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
        f"{field} is immutable: {why}",
        field_path=f".{field}",
    )


_CLASS_STAYS = _immutable("storageClassName", "a volume keeps its class")
_SIZE_GROWS = Rule(
    # Defaults are checked before they are filled in: size may be absent then.
    "!has(self.size) || !has(oldSelf.size) || !quantity(self.size).isLessThan(quantity(oldSelf.size))",
    "a volume cannot shrink",
    message_expression="'a volume cannot shrink: it has ' + oldSelf.size",
    field_path=".size",
)


class Placement(Model):
    """Where a part's pods run and what they may use."""

    resources: Annotated[dict[str, Any], Shape(Resources)] = Field(default_factory=dict)
    """Requests and limits, as in a container."""
    node_selector: dict[str, LabelValue] = Field(default_factory=dict, max_length=32)
    """Labels that a Kubernetes node must have."""
    tolerations: tuple[Annotated[dict[str, Any], Shape(Toleration)], ...] = Field(default=(), max_length=32)
    """Taints that the pods put up with, as in a pod."""


class Volume(Model):
    """A volume that the operator makes."""

    rules = (_CLASS_STAYS, _SIZE_GROWS)

    size: StorageSize = "10Gi"
    """Can grow where the class allows it; it cannot shrink."""
    storage_class_name: DnsName | None = None
    """The Kubernetes cluster's default class when not set. Immutable."""
    on_delete: Literal["Retain", "Delete"] = "Retain"
    """What becomes of the volume when the SlurmCluster is deleted."""


class DatabaseVolume(Volume):
    """The volume of the embedded database."""

    size: StorageSize = "20Gi"
    """Can grow where the class allows it; it cannot shrink."""


class Controller(Placement):
    """slurmctld."""

    storage: Volume = Volume()
    """Job and node state."""


class EmbeddedDatabase(Placement):
    """A MariaDB that the operator runs."""

    storage: DatabaseVolume = DatabaseVolume()
    """The accounting records."""


class ExternalDatabase(Model):
    """A MySQL or MariaDB server that somebody else runs."""

    host: DnsName
    """Where it is reached."""
    port: int = Field(default=3306, ge=1, le=65535)
    """Its port."""
    name: UserName = "slurm_acct_db"
    """The database's name."""
    credentials_secret: DnsName
    """A Secret with the keys ``username`` and ``password``."""


class Database(Model):
    """Where slurmdbd keeps its records: embedded, or external."""

    rules = (
        Rule(
            "has(self.embedded) != has(self.external)",
            "name one of embedded and external",
            lambda self: (self.embedded is None) == (self.external is None),
        ),
    )

    embedded: EmbeddedDatabase | None = None
    """A MariaDB that the operator runs: ``embedded: {}`` takes its defaults."""
    external: ExternalDatabase | None = None
    """A MySQL or MariaDB server that somebody else runs."""

    @property
    def embedded_or_default(self) -> EmbeddedDatabase | None:
        """The embedded database's settings; None when the database is external."""
        return self.embedded


class Accounting(Placement):
    """slurmdbd and its database."""

    enabled: bool = True
    """Whether jobs are recorded. Without it there is no sacct, no fair-share and no limits."""
    database: Database = Database(embedded=EmbeddedDatabase())
    """Where the records are kept."""


class RestApi(Placement):
    """slurmrestd."""

    replicas: int = Field(default=1, ge=1, le=10)
    """Pods of slurmrestd."""


class LoginService(Model):
    """How users reach sshd."""

    type: Literal["LoadBalancer", "NodePort", "ClusterIP"] = "LoadBalancer"
    """The Service's type."""
    port: int = Field(default=22, ge=1, le=65535)
    """The Service's port."""
    annotations: dict[str, str] = Field(default_factory=dict, max_length=32)
    """Passed on to the Service, for the cloud's load balancer."""


class Login(Placement):
    """Login pods."""

    replicas: int = Field(default=1, ge=1, le=20)
    """Login pods. All have the same host keys and homes."""
    service: LoginService = LoginService()
    """How users reach sshd."""
    authorized_keys_secret: DnsName | None = None
    """A Secret with one key a user: the name is the user's, the value their authorized_keys."""


class Home(Model):
    """Home directories, one volume shared (ReadWriteMany) by login and slurmd pods."""

    rules = (
        Rule(
            "!has(self.existingClaim) || !has(self.storageClassName)",
            "storageClassName is for a volume that the operator makes, not for existingClaim",
            lambda self: self.existing_claim is not None and self.storage_class_name is not None,
            field_path=".storageClassName",
        ),
        _CLASS_STAYS,
        _SIZE_GROWS,
        _immutable("existingClaim", "homes would be empty on another volume"),
    )

    size: StorageSize = "100Gi"
    """Can grow where the class allows it; it cannot shrink. Of no meaning with ``existingClaim``."""
    storage_class_name: DnsName | None = None
    """The Kubernetes cluster's default class when not set; it must offer ReadWriteMany. Immutable."""
    existing_claim: DnsName | None = None
    """A PersistentVolumeClaim that is there already. Immutable."""
    on_delete: Literal["Retain", "Delete"] = "Retain"
    """What becomes of the volume when the SlurmCluster is deleted."""


class User(Model):
    """A person who logs in and submits jobs."""

    rules = (
        Rule(
            f"!(self.name in {_RESERVED_CEL})",
            "is an account of the images; choose another name",
            lambda self: self.name in _RESERVED,
            field_path=".name",
        ),
        Rule(
            f"!has(self.groups) || !self.groups.exists(g, g in {_RESERVED_CEL})",
            "groups must not be those of the images; for root on login pods set sudo",
            lambda self: any(group in _RESERVED for group in self.groups),
            field_path=".groups",
        ),
    )

    name: UserName
    """The name to log in with. The home directory is /home/ and the name."""
    uid: int = Field(ge=1000, le=60000)
    """Also the id of the user's own group. Below 1000 are system accounts; above 60000 others begin."""
    groups: Annotated[tuple[GroupName, ...], Unique()] = Field(default=(), max_length=32)
    """Further groups; a group's id is made from its name and stays the same."""
    ssh_keys: Annotated[tuple[SshKey, ...], Unique()] = Field(default=(), max_length=8)
    """Public keys that may log in."""
    shell: ShellPath = "/bin/bash"
    """The login shell."""
    sudo: bool = False
    """Whether the user may become root on login pods."""
