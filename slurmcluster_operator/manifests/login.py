"""Login pods: sshd with the users of the spec, their homes, and host keys that never change."""

from __future__ import annotations

from slurmcluster_operator.manifests import objects
from slurmcluster_operator.manifests.cluster import Cluster, Json
from slurmcluster_operator.manifests.objects import mount
from slurmcluster_operator.model import names

_CAPABILITIES = (
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETUID",
    "SYS_CHROOT",
)
"""What sshd needs to become its users, and to give new homes to them."""


def workloads(cluster: Cluster) -> list[Json]:
    """Return the login StatefulSet and the Service that users reach.

    The update strategy is OnDelete: people are logged in there, so a new template waits until somebody deletes a pod.
    """
    spec = cluster.spec.login
    service = objects.service(cluster, names.LOGIN, {"ssh": spec.service.port}, type=spec.service.type)
    service["spec"]["ports"][0]["targetPort"] = names.SSH_PORT
    if spec.service.annotations:
        service["metadata"]["annotations"] = dict(spec.service.annotations)
    template = objects.pod_template(cluster, names.LOGIN, _pod(cluster))
    return [service, objects.stateful_set(cluster, names.LOGIN, template, replicas=spec.replicas, update="OnDelete")]


def _pod(cluster: Cluster) -> Json:
    spec = cluster.spec.login
    controller = f"{cluster.names.part(names.CONTROLLER)}:{names.SLURMCTLD_PORT}"
    volumes = [
        objects.config_volume("users", cluster.names.users),
        objects.config_volume("ssh-keys", cluster.names.ssh_keys),
        objects.secret_volume("host-keys", cluster.names.host_keys),
        {"name": "slurm-key", "secret": {**_key(cluster)}},
        {"name": "home", "persistentVolumeClaim": {"claimName": cluster.home_claim}},
    ]
    mounts = [
        mount("users", "/var/lib/extrausers", read_only=True),
        mount("ssh-keys", "/etc/slurmcluster/authorized-keys", read_only=True),
        mount("host-keys", "/etc/ssh/host-keys", read_only=True),
        mount("slurm-key", "/etc/slurm", read_only=True),
        mount("home", "/home"),
    ]
    if spec.authorized_keys_secret:
        # Optional, so that a Secret that is missing locks out only those whose keys are in it.
        volumes.append(objects.secret_volume("more-ssh-keys", spec.authorized_keys_secret, mode=0o444, optional=True))
        mounts.append(mount("more-ssh-keys", "/etc/slurmcluster/authorized-keys-secret", read_only=True))
    return {
        # Sessions end with the pod; give people a moment to read the shutdown message.
        "terminationGracePeriodSeconds": 10,
        "containers": [
            objects.container(
                cluster,
                "sshd",
                cluster.image("login"),
                args=["login-start", "--conf-server", controller],
                ports=[{"name": "ssh", "containerPort": names.SSH_PORT, "protocol": "TCP"}],
                resources=spec.resources,
                securityContext={
                    "capabilities": {"drop": ["ALL"], "add": list(_CAPABILITIES)},
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                readinessProbe=objects.tcp_probe(names.SSH_PORT),
                volumeMounts=mounts,
            )
        ],
        "volumes": volumes,
        **objects.placement(spec),
    }


def _key(cluster: Cluster) -> Json:
    return {
        "secretName": cluster.names.keys,
        "defaultMode": 0o400,
        "items": [{"key": "slurm.key", "path": "slurm.key"}],
    }
