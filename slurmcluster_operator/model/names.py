"""Every name that the operator gives: objects, labels, annotations, ports. Nothing else spells one out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MANAGER: Final = "slurmcluster-operator"
"""Our field manager, and the value of ``app.kubernetes.io/managed-by``."""

PREFIX: Final = "slurmcluster.dev/"
"""Begins every label, annotation and taint of ours."""

FLEET_LABEL: Final = "slurmcluster.dev/fleet"
"""On a Node, label, the grant: the cluster that may use it, as ``namespace.name``; several are joined by ``_``.
Set by administrators, or by who makes the node, only."""
OWNER: Final = "slurmcluster.dev/owner"
"""On a Node, label and ``NoSchedule`` taint: the cluster that has it. Written by the operator alone."""
SERVES: Final = "slurmcluster.dev/serves"
"""On a Node that is the cluster's alone (state Owned), label: the cluster. The scheduler goes by it for slurmd pods."""
OWNER_STATE: Final = "slurmcluster.dev/owner-state"
"""On a Node, annotation: how far the claim is (``model.fleet.State``); absent on free nodes."""
OWNER_SINCE: Final = "slurmcluster.dev/owner-since"
"""On a Node, annotation: when its owner, or the state of the claim, last changed."""
OWNER_WHY: Final = "slurmcluster.dev/owner-why"
"""On a Node, annotation: why it last changed, for people."""
SEAT: Final = "slurmcluster.dev/seat"
"""On a Node, annotation: the Slurm node that it last was, as ``namespace.name/h100-3``, so that a seat finds its
machine again."""
ASKED_BY: Final = "slurmcluster.dev/asked-by"
"""On a Node granted to several clusters, annotation: which of them asks its owner for it, and since when."""
FLEET_INDEX: Final = "slurmcluster.dev/fleet-index"
"""Labels the ConfigMaps from which admission policies know who owns which node."""

POOL_LABEL: Final = "slurmcluster.dev/pool"
"""On a slurmd pod, label: its pool's name."""
NODE_LABEL: Final = "slurmcluster.dev/node"
"""On a slurmd pod, label: its Slurm node's name."""
MACHINE: Final = "slurmcluster.dev/machine"
"""On a slurmd pod, annotation: the Kubernetes node that it was made for."""

HASH_ANNOTATION: Final = "slurmcluster.dev/content-hash"
"""On a pod, annotation: what its mounted configuration should hold. A change makes the kubelet refresh the volumes at
once."""
NUDGE_ANNOTATION: Final = "slurmcluster.dev/nudged"
"""On a pod that is slow to start, annotation: when its kubelet was last made to look again."""
TEMPLATE_ANNOTATION: Final = "slurmcluster.dev/template-hash"
"""On a slurmd pod, annotation: the template it was made from."""

QUEUES_ANNOTATION: Final = "slurmcluster.dev/queues"
"""On the ConfigMap with slurm.conf, annotation: the pools and partitions in it, as JSON."""

COMPONENT: Final = "app.kubernetes.io/component"
INSTANCE: Final = "app.kubernetes.io/instance"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"

CONTROLLER: Final = "controller"
ACCOUNTING: Final = "accounting"
DATABASE: Final = "database"
RESTAPI: Final = "restapi"
LOGIN: Final = "login"
SLURMD: Final = "slurmd"
HOME: Final = "home"

SLURMCTLD_PORT: Final = 6817
SLURMD_PORT: Final = 6818
SLURMDBD_PORT: Final = 6819
SLURMRESTD_PORT: Final = 6820
DATABASE_PORT: Final = 3306
SSH_PORT: Final = 22
"""sshd's port inside the pod; users meet the Service's."""

DRAIN_PREFIX: Final = "slurmcluster:"
"""Begins the reason of every drain that we set. We lift no other."""

SLURM_UID: Final = 64030
"""The slurm user of Debian's packages."""
SLURMRESTD_UID: Final = 64031
"""slurmrestd refuses to run as root or as the slurm user."""
MARIADB_UID: Final = 999


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one cluster's objects.

    Everything carries the cluster's name in front, so that two clusters live side by side in one namespace.
    """

    namespace: str
    cluster: str

    @property
    def fleet(self) -> str:
        """The value of ``FLEET_LABEL`` on Nodes granted to this cluster."""
        return f"{self.namespace}.{self.cluster}"

    def part(self, component: str) -> str:
        """Name the workload, Service and ServiceAccount of a part."""
        return f"{self.cluster}-{component}"

    def pod(self, node: str) -> str:
        """Name the pod of a Slurm node."""
        return f"{self.cluster}-{node}"

    @property
    def controller_pod(self) -> str:
        """The one pod of slurmctld; also its hostname, which slurm.conf names."""
        return f"{self.part(CONTROLLER)}-0"

    @property
    def config(self) -> str:
        """ConfigMap with slurm.conf and its companions."""
        return f"{self.cluster}-config"

    @property
    def pod_config(self) -> str:
        """ConfigMap with the configuration of pools that run without cgroups."""
        return f"{self.cluster}-config-pod"

    @property
    def accounting_config(self) -> str:
        """ConfigMap with slurmdbd.conf (without the password)."""
        return f"{self.cluster}-config-accounting"

    @property
    def users(self) -> str:
        """ConfigMap with passwd, group and shadow."""
        return f"{self.cluster}-users"

    @property
    def ssh_keys(self) -> str:
        """ConfigMap with users' public keys."""
        return f"{self.cluster}-ssh-keys"

    @property
    def keys(self) -> str:
        """Secret with slurm.key and jwt.key."""
        return f"{self.cluster}-keys"

    @property
    def host_keys(self) -> str:
        """Secret with sshd's host keys."""
        return f"{self.cluster}-ssh-host-keys"

    @property
    def database_credentials(self) -> str:
        """Secret with the embedded database's user and password."""
        return f"{self.cluster}-database-credentials"

    @property
    def state_claim(self) -> str:
        """Claim of slurmctld's state."""
        return f"{self.cluster}-controller-state"

    @property
    def database_claim(self) -> str:
        """Claim of the embedded database."""
        return f"{self.cluster}-database"

    @property
    def home_claim(self) -> str:
        """Claim of the home directories that the operator makes."""
        return f"{self.cluster}-home"

    def labels(self, component: str) -> dict[str, str]:
        """Return the labels of an object of ``component``."""
        return {
            "app.kubernetes.io/name": "slurmcluster",
            "app.kubernetes.io/part-of": "slurmcluster",
            INSTANCE: self.cluster,
            COMPONENT: component,
            MANAGED_BY: MANAGER,
        }

    def selector(self, component: str) -> dict[str, str]:
        """Return the labels that select the pods of ``component``; immutable on workloads, so kept few."""
        return {INSTANCE: self.cluster, COMPONENT: component, MANAGED_BY: MANAGER}
