"""slurmd pods: one a Kubernetes node, named after its Slurm node."""

from __future__ import annotations

from slurmcluster_operator.api.pools import Pool
from slurmcluster_operator.manifests import objects
from slurmcluster_operator.manifests.cluster import Cluster, Json
from slurmcluster_operator.manifests.objects import mount
from slurmcluster_operator.model import names

PROVISIONING_CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
"""All machines or none."""

_GRACE_SECONDS = 24 * 3600
"""How long a pod that somebody deletes or evicts waits for its jobs to end."""

_POD_CAPABILITIES = ("SYS_NICE",)
"""Beyond a container's default: task/affinity binds tasks to cores, and drains the node if it cannot."""


def services(cluster: Cluster) -> list[Json]:
    """Return the headless Service under which slurmd pods find each other by their short names."""
    return [
        objects.service(
            cluster, names.SLURMD, {"slurmd": names.SLURMD_PORT}, clusterIP="None", publishNotReadyAddresses=True
        )
    ]


def pod(
    cluster: Cluster, pool: Pool, node: str, content_hash: str, machine: str = "", request: str | None = None
) -> Json:
    """Return the pod of one Slurm node.

    ``content_hash`` is that of the configuration it will find mounted; ``machine`` the Kubernetes node that it is made
    for, if that is known; ``request`` the ProvisioningRequest that asks for one.
    """
    spec = pod_spec(cluster, pool, node, machine)
    metadata = objects.meta(cluster, cluster.names.pod(node), names.SLURMD)
    metadata["labels"] |= {names.POOL_LABEL: pool.name, names.NODE_LABEL: node}
    metadata["annotations"] = {
        names.TEMPLATE_ANNOTATION: template_hash(cluster, pool),
        names.HASH_ANNOTATION: content_hash,
        # Neither the Cluster Autoscaler nor Karpenter may take a machine away under a job.
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
        **({names.MACHINE: machine} if machine else {}),
        **(consuming(request) if request else {}),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def consuming(request: str) -> dict[str, str]:
    """Return the annotations that tell the Cluster Autoscaler that a request asks for the pod's machine."""
    return {
        "autoscaling.x-k8s.io/consume-provisioning-request": request,
        "autoscaling.x-k8s.io/provisioning-class-name": PROVISIONING_CLASS,
    }


def template_hash(cluster: Cluster, pool: Pool) -> str:
    """Return what changes when the pool's pods would come out differently."""
    return objects.digest(pod_spec(cluster, pool, pool.name))


def pod_spec(cluster: Cluster, pool: Pool, node: str, machine: str = "") -> Json:
    """Return the spec of one slurmd pod, for a certain Kubernetes node if that is given."""
    isolated = pool.isolation == "Pod"
    controller = f"{cluster.names.part(names.CONTROLLER)}:{names.SLURMCTLD_PORT}"
    return objects.pod_spec(
        cluster,
        {
            "hostname": node,
            "subdomain": cluster.names.part(names.SLURMD),
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
            "nodeSelector": dict(pool.node_selector),
            "tolerations": [*(dict(toleration) for toleration in pool.tolerations), _own(cluster)],
            "affinity": _affinity(cluster, machine),
            "containers": [
                objects.container(
                    cluster,
                    "slurmd",
                    pool.image or cluster.image("slurmd"),
                    args=["slurmd-start", "--local-config"]
                    if isolated
                    else ["slurmd-start", "--conf-server", controller],
                    ports=[{"name": "slurmd", "containerPort": names.SLURMD_PORT, "protocol": "TCP"}],
                    resources=_resources(pool),
                    securityContext={"capabilities": {"add": list(_POD_CAPABILITIES)}}
                    if isolated
                    else {"privileged": True},
                    readinessProbe=objects.tcp_probe(names.SLURMD_PORT),
                    volumeMounts=[
                        mount("etc-slurm", "/etc/slurm", read_only=True),
                        mount("users", "/var/lib/extrausers", read_only=True),
                        mount("spool", "/var/spool/slurmd"),
                        mount("shm", "/dev/shm"),  # noqa: S108 - NCCL's shared memory
                        mount("home", "/home"),
                    ],
                )
            ],
            "volumes": [
                _etc_slurm(cluster, isolated=isolated),
                objects.config_volume("users", cluster.names.users),
                objects.scratch("spool"),
                objects.scratch("shm", medium="Memory"),
                {"name": "home", "persistentVolumeClaim": {"claimName": cluster.home_claim}},
            ],
        },
    )


def _own(cluster: Cluster) -> Json:
    return {"key": names.OWNER, "operator": "Equal", "value": cluster.names.fleet, "effect": "NoSchedule"}


def _affinity(cluster: Cluster, machine: str) -> Json:
    """Only nodes that are this cluster's alone, and no node that carries another slurmd, of whatever cluster.

    The scheduler binds the pod, not we: so it cannot land on a node that was given back meanwhile.
    """
    term: Json = {"matchExpressions": [{"key": names.SERVES, "operator": "In", "values": [cluster.names.fleet]}]}
    if machine:
        term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": [machine]}]
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}},
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "namespaceSelector": {},
                    "labelSelector": {"matchLabels": {names.MANAGED_BY: names.MANAGER, names.COMPONENT: names.SLURMD}},
                }
            ]
        },
    }


def _resources(pool: Pool) -> Json:
    """Ask for every GPU of the machine. Cores and memory are not limited: the whole machine is Slurm's to divide."""
    gpus = pool.machine.gpus
    return {"limits": {gpus.resource: str(gpus.count)}, "requests": {gpus.resource: str(gpus.count)}} if gpus else {}


def _etc_slurm(cluster: Cluster, *, isolated: bool) -> Json:
    key: Json = {
        "secret": {"name": cluster.names.keys, "items": [{"key": "slurm.key", "path": "slurm.key", "mode": 0o400}]}
    }
    sources = [key, {"configMap": {"name": cluster.names.pod_config}}] if isolated else [key]
    return {"name": "etc-slurm", "projected": {"defaultMode": 0o444, "sources": sources}}
