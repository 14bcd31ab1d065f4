"""Configuration files of the cluster's programs, as values: pure."""

from typing import Any

from localkube import plan
from localkube.layout import MachineFolder, State
from localkube.plan import Instance, Node

CNI_PLUGINS = "/usr/lib/cni"
PAUSE_IMAGE = "docker.io/localkube/pause:1"
_CONNTRACK = {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
_UNUSED_PLUGINS = (
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.internal.v1.opt",
    "io.containerd.internal.v1.tracing",
    "io.containerd.tracing.processor.v1.otlp",
)


def kubelet(state: State, node: Node) -> dict[str, Any]:
    """Return the kubelet's configuration; the cgroup and eviction settings let many kubelets share a machine."""
    folder = state.machine(node.name)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "x509": {"clientCAFile": str(state.pki / "ca.crt")},
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(state.pki / f"{node.name}.crt"),
        "tlsPrivateKeyFile": str(state.pki / f"{node.name}.key"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": node.cgroup,
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [node.instance.api_address],
        "clusterDomain": plan.CLUSTER_DOMAIN,
        "resolvConf": str(state.resolv_conf),
        "containerRuntimeEndpoint": f"unix://{folder.containerd_socket}",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "maxPods": 200,
        "serializeImagePulls": False,
        "nodeStatusUpdateFrequency": "4s",
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1%",
        },
    }


def kube_proxy(instance: Instance, kubeconfig: str, node_name: str, address: str) -> dict[str, Any]:
    """Return kube-proxy's configuration; it leaves the machine-wide connection tracking limits alone."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig},
        "hostnameOverride": node_name,
        "bindAddress": address,
        "healthzBindAddress": f"{address}:10256",
        "metricsBindAddress": f"{address}:10249",
        "clusterCIDR": instance.pod_cidr,
        "mode": "iptables",
        "iptables": {"minSyncPeriod": "200ms", "localhostNodePorts": False},
        "conntrack": _CONNTRACK,
    }


def cni(node: Node) -> dict[str, Any]:
    """Return the pod network of a node.

    The ptp plugin routes every packet. With the bridge plugin two pods of one node would talk past the node's
    address translation, and a Service between them would only work where br_netfilter is loaded.
    """
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": node.pod_cidr}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {"type": "ptp", "ipMasq": False, "ipam": ipam},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def containerd(folder: MachineFolder) -> str:
    """Return containerd's configuration.

    `restrict_oom_score_adj` is for machines that lack CAP_SYS_RESOURCE: without it every sandbox fails there.
    """
    disabled = ", ".join(f'"{name}"' for name in _UNUSED_PLUGINS)
    return f"""\
version = 2
root = "{folder.containerd}"
state = "{folder.run}/containerd"
disabled_plugins = [{disabled}]
[grpc]
  address = "{folder.containerd_socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  max_concurrent_downloads = 6
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{CNI_PLUGINS}"
  conf_dir = "{folder.config}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
"""


def coredns(instance: Instance, kubeconfig: str) -> str:
    """Return the Corefile.

    Nothing is cached, so that a new pod is found at once, and nothing outside the cluster is asked. Two blocks, since
    within one the template would answer before the cluster's names are looked up.
    """
    return f"""\
{plan.CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
    bind {instance.api_address}
    errors
    kubernetes {plan.CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig} localkube
        ttl 1
    }}
}}
. {{
    bind {instance.api_address}
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def storage_class() -> dict[str, Any]:
    """Return the default StorageClass."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "localkube.dev/folder",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }
