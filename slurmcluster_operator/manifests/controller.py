"""slurmctld: its StatefulSet and Service."""

from __future__ import annotations

from slurmcluster_operator.manifests import objects
from slurmcluster_operator.manifests.cluster import Cluster, Json
from slurmcluster_operator.manifests.objects import mount
from slurmcluster_operator.model import names

_CONFIG_MOUNTS = [
    mount("etc-slurm", "/etc/slurm"),
    mount("config", "/etc/slurm-src/config", read_only=True),
    mount("keys", "/etc/slurm-src/keys", read_only=True),
    mount("tmp", "/tmp"),  # noqa: S108 - a volume of the pod
]

_APPLIED = {"exec": {"command": ["slurm-config", "applied"]}}
_FOREVER = 2**31 - 1


def workloads(cluster: Cluster) -> list[Json]:
    """Return the controller's Service and StatefulSet.

    The update strategy is OnDelete: a new template never restarts slurmctld by itself. Configuration reaches it
    through the ``config`` container: a reconfiguration is a new slurmctld that takes over, so every key that a user
    may set takes effect without a restart.
    """
    service = objects.service(
        cluster,
        names.CONTROLLER,
        {"slurmctld": names.SLURMCTLD_PORT},
        clusterIP="None",
        # slurmd and clients must find slurmctld also while it is busy starting.
        publishNotReadyAddresses=True,
    )
    template = objects.pod_template(cluster, names.CONTROLLER, _pod(cluster))
    return [service, objects.stateful_set(cluster, names.CONTROLLER, template, update="OnDelete")]


def _pod(cluster: Cluster) -> Json:
    spec = cluster.spec.controller
    image = cluster.image("slurm")
    runtime = [mount("run", "/run/slurmctld")]
    return {
        "securityContext": objects.unprivileged_pod(names.SLURM_UID),
        "terminationGracePeriodSeconds": 30,
        "initContainers": [
            objects.container(
                cluster,
                "install-config",
                image,
                args=["slurm-config", "install"],
                securityContext=objects.UNPRIVILEGED,
                volumeMounts=_CONFIG_MOUNTS,
            )
        ],
        "containers": [
            objects.container(
                cluster,
                "slurmctld",
                image,
                # Not plain "slurmctld -D": that would not survive a reconfiguration that slurmctld cannot start with.
                args=["slurmctld-start"],
                ports=[{"name": "slurmctld", "containerPort": names.SLURMCTLD_PORT, "protocol": "TCP"}],
                resources=spec.resources,
                securityContext=objects.UNPRIVILEGED,
                readinessProbe=_probe(cluster, "/readyz", period=1, failures=3),
                # Slow to give up: a restart costs nothing but it also helps nothing while slurmctld recovers state.
                livenessProbe=_probe(cluster, "/livez", period=15, failures=12),
                volumeMounts=[
                    *_CONFIG_MOUNTS,
                    *runtime,
                    mount("state", "/var/spool/slurmctld"),
                    mount("users", "/var/lib/extrausers", read_only=True),
                ],
            ),
            objects.container(
                cluster,
                "config",
                image,
                args=["slurm-config", "watch"],
                securityContext=objects.UNPRIVILEGED,
                # Not ready means: what is mounted is not what slurmctld runs with.
                readinessProbe={**_APPLIED, "periodSeconds": 3, "failureThreshold": 1},
                # A start ends with a reconfiguration. slurmctld may be down for as long as it likes.
                startupProbe={**_APPLIED, "periodSeconds": 1, "failureThreshold": _FOREVER},
                volumeMounts=[*_CONFIG_MOUNTS, *runtime, mount("state", "/var/spool/slurmctld")],
            ),
        ],
        "volumes": [
            objects.scratch("etc-slurm", medium="Memory"),
            objects.scratch("run", medium="Memory"),
            objects.scratch("tmp"),
            objects.config_volume("config", cluster.names.config),
            objects.config_volume("users", cluster.names.users),
            objects.secret_volume("keys", cluster.names.keys, mode=0o440),
            {"name": "state", "persistentVolumeClaim": {"claimName": cluster.names.state_claim}},
        ],
        **objects.placement(spec),
    }


def _probe(cluster: Cluster, path: str, *, period: int, failures: int) -> Json:
    """Slurmctld answers HTTP on its own port since 25.11; before that a connection has to do."""
    if cluster.spec.slurm_version == "24.11":
        return objects.tcp_probe(names.SLURMCTLD_PORT, period=period, failures=failures)
    return {
        "httpGet": {"path": path, "port": names.SLURMCTLD_PORT},
        "periodSeconds": period,
        "failureThreshold": failures,
    }
