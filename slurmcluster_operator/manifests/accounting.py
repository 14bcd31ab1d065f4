"""slurmdbd and the embedded MariaDB."""

from __future__ import annotations

from slurmcluster_operator.api.parts import EmbeddedDatabase
from slurmcluster_operator.manifests import objects
from slurmcluster_operator.manifests.cluster import Cluster, Json
from slurmcluster_operator.manifests.config import database_name, slurmdbd_conf
from slurmcluster_operator.manifests.objects import mount
from slurmcluster_operator.model import names

MARIADB_VERSION = "11.8"


def workloads(cluster: Cluster) -> list[Json]:
    """Return what accounting needs; nothing when it is off."""
    if not cluster.accounting:
        return []
    result = [
        objects.service(cluster, names.ACCOUNTING, {"slurmdbd": names.SLURMDBD_PORT}, publishNotReadyAddresses=True),
        # slurmdbd reads its file only at its start, and its restart harms nothing: slurmctld queues records.
        objects.stateful_set(
            cluster,
            names.ACCOUNTING,
            objects.pod_template(
                cluster,
                names.ACCOUNTING,
                _slurmdbd_pod(cluster),
                {names.HASH_ANNOTATION: objects.digest(slurmdbd_conf(cluster))},
            ),
        ),
    ]
    embedded = cluster.spec.accounting.database.embedded_or_default
    if embedded:
        result.append(objects.service(cluster, names.DATABASE, {"mysql": names.DATABASE_PORT}))
        template = objects.pod_template(cluster, names.DATABASE, _database_pod(cluster, embedded))
        result.append(objects.stateful_set(cluster, names.DATABASE, template))
    return result


def credentials_secret(cluster: Cluster) -> str:
    """Return the Secret with the database's username and password."""
    external = cluster.spec.accounting.database.external
    return external.credentials_secret if external else cluster.names.database_credentials


def _credentials(cluster: Cluster, user: str, password: str) -> list[Json]:
    secret = credentials_secret(cluster)
    return [
        {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
        for variable, key in ((user, "username"), (password, "password"))
    ]


def _slurmdbd_pod(cluster: Cluster) -> Json:
    spec = cluster.spec.accounting
    config_mounts = [
        mount("etc-slurm", "/etc/slurm"),
        mount("config", "/etc/slurm-src/config", read_only=True),
        mount("keys", "/etc/slurm-src/keys", read_only=True),
        mount("tmp", "/tmp"),  # noqa: S108 - a volume of the pod
    ]
    return {
        "securityContext": objects.unprivileged_pod(names.SLURM_UID),
        "initContainers": [
            objects.container(
                cluster,
                "install-config",
                cluster.image("slurm"),
                args=["slurm-config", "install"],
                securityContext=objects.UNPRIVILEGED,
                volumeMounts=config_mounts,
            )
        ],
        "containers": [
            objects.container(
                cluster,
                "slurmdbd",
                cluster.image("slurm"),
                args=["slurmdbd-start"],
                env=_credentials(cluster, "STORAGE_USER", "STORAGE_PASS"),
                ports=[{"name": "slurmdbd", "containerPort": names.SLURMDBD_PORT, "protocol": "TCP"}],
                resources=spec.resources,
                securityContext=objects.UNPRIVILEGED,
                readinessProbe=objects.tcp_probe(names.SLURMDBD_PORT),
                volumeMounts=[
                    *config_mounts,
                    mount("run", "/run/slurmdbd"),
                    mount("users", "/var/lib/extrausers", read_only=True),
                ],
            )
        ],
        "volumes": [
            objects.scratch("etc-slurm", medium="Memory"),
            objects.scratch("run", medium="Memory"),
            objects.scratch("tmp"),
            objects.config_volume("config", cluster.names.accounting_config),
            objects.config_volume("users", cluster.names.users),
            objects.secret_volume("keys", cluster.names.keys, mode=0o440),
        ],
        **objects.placement(spec),
    }


def _database_pod(cluster: Cluster, spec: EmbeddedDatabase) -> Json:
    registry = cluster.spec.images.registry or cluster.platform.registry
    return {
        "securityContext": objects.unprivileged_pod(names.MARIADB_UID),
        # MariaDB writes its buffers out before it ends.
        "terminationGracePeriodSeconds": 60,
        "containers": [
            objects.container(
                cluster,
                "mariadb",
                f"{registry}/mariadb:{MARIADB_VERSION}",
                env=[
                    {"name": "MARIADB_DATABASE", "value": database_name(cluster)},
                    *_credentials(cluster, "MARIADB_USER", "MARIADB_PASSWORD"),
                ],
                ports=[{"name": "mysql", "containerPort": names.DATABASE_PORT, "protocol": "TCP"}],
                resources=spec.resources,
                securityContext=objects.UNPRIVILEGED,
                readinessProbe=objects.tcp_probe(names.DATABASE_PORT),
                volumeMounts=[mount("data", "/var/lib/mysql"), mount("run", "/run/mysqld"), mount("tmp", "/tmp")],  # noqa: S108
            )
        ],
        "volumes": [
            objects.scratch("run", medium="Memory"),
            objects.scratch("tmp"),
            {"name": "data", "persistentVolumeClaim": {"claimName": cluster.names.database_claim}},
        ],
        **objects.placement(spec),
    }
