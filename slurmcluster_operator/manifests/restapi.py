"""slurmrestd: Deployment, Service and the NetworkPolicy in front of it."""

from __future__ import annotations

from slurmcluster_operator.manifests import objects
from slurmcluster_operator.manifests.cluster import Cluster, Json
from slurmcluster_operator.manifests.objects import mount
from slurmcluster_operator.model import names


def workloads(cluster: Cluster) -> list[Json]:
    """Return the REST API's Service and Deployment."""
    return [
        objects.service(cluster, names.RESTAPI, {"slurmrestd": names.SLURMRESTD_PORT}),
        objects.deployment(
            cluster,
            names.RESTAPI,
            objects.pod_template(cluster, names.RESTAPI, _pod(cluster)),
            replicas=cluster.spec.rest_api.replicas,
        ),
    ]


def _pod(cluster: Cluster) -> Json:
    spec = cluster.spec.rest_api
    return {
        "securityContext": objects.unprivileged_pod(names.SLURMRESTD_UID),
        "containers": [
            objects.container(
                cluster,
                "slurmrestd",
                cluster.image("slurm"),
                # Every request brings a token of its own: slurmrestd holds no key and no rights.
                args=[
                    "slurmrestd",
                    "-a",
                    "rest_auth/jwt",
                    "-s",
                    "slurmctld,slurmdbd" if cluster.accounting else "slurmctld",
                    f"0.0.0.0:{names.SLURMRESTD_PORT}",
                ],
                env=[
                    {"name": "SLURM_JWT", "value": "daemon"},
                    # For 10,000 nodes: 16 MB an answer in place of 26, and 0.5 GB of memory in place of 1.3.
                    {"name": "SLURMRESTD_JSON", "value": "compact"},
                    {"name": "MALLOC_ARENA_MAX", "value": "1"},
                    # It would unshare what a container of its own has unshared already, and may not.
                    {"name": "SLURMRESTD_SECURITY", "value": "disable_unshare_sysv,disable_unshare_files"},
                ],
                ports=[{"name": "slurmrestd", "containerPort": names.SLURMRESTD_PORT, "protocol": "TCP"}],
                resources=spec.resources,
                securityContext=objects.UNPRIVILEGED,
                readinessProbe=objects.tcp_probe(names.SLURMRESTD_PORT),
                livenessProbe=objects.tcp_probe(names.SLURMRESTD_PORT, period=10, failures=6),
                volumeMounts=[mount("config", "/etc/slurm", read_only=True), mount("tmp", "/tmp")],  # noqa: S108
            )
        ],
        "volumes": [objects.config_volume("config", cluster.names.config), objects.scratch("tmp")],
        **objects.placement(spec),
    }
