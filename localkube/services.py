"""Which programs run on which machine, and with which arguments: pure."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localkube import plan
from localkube.layout import State
from localkube.plan import Instance, Node

ETCD_URL = "http://127.0.0.1:22379"
_ETCD_PEER_URL = "http://127.0.0.1:22380"


@dataclass(frozen=True)
class Service:
    """One program, and the file that has to exist before it makes sense to start it."""

    name: str
    argv: tuple[str, ...]
    after: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return what the machine's init reads."""
        return {"name": self.name, "argv": list(self.argv), "after": self.after}


def control_plane(state: State, bin_: Path) -> list[Service]:
    """Return what runs on the control plane's machine."""
    instance, (first, last) = state.instance, state.instance.load_balancers
    folder = state.machine(plan.CONTROL_PLANE)
    config = folder.config
    leaderless = ("--leader-elect=false", "--bind-address=127.0.0.1", "--kube-api-qps=200", "--kube-api-burst=400")
    return [
        Service("etcd", (str(bin_ / "etcd"), *_etcd_flags(folder.root / "etcd"))),
        Service("kube-apiserver", (str(bin_ / "kube-apiserver"), *_apiserver_flags(instance, state.pki))),
        Service(
            "kube-controller-manager",
            (
                str(bin_ / "kube-controller-manager"),
                f"--kubeconfig={config}/kube-controller-manager.kubeconfig",
                f"--service-account-private-key-file={state.pki}/service-accounts.key",
                f"--root-ca-file={state.pki}/ca.crt",
                f"--cluster-signing-cert-file={state.pki}/ca.crt",
                f"--cluster-signing-key-file={state.pki}/ca.key",
                "--use-service-account-credentials",
                *leaderless,
            ),
        ),
        Service(
            "kube-scheduler",
            (str(bin_ / "kube-scheduler"), f"--kubeconfig={config}/kube-scheduler.kubeconfig", *leaderless),
        ),
        Service("kube-proxy", (str(bin_ / "kube-proxy"), f"--config={config}/kube-proxy.json")),
        Service("coredns", (str(bin_ / "coredns"), f"-conf={config}/Corefile")),
        Service(
            "agents",
            (
                str(bin_ / "localkube-agents"),
                "controllers",
                f"--kubeconfig={state.kubeconfig}",
                f"--volumes={state.volumes}",
                f"--first-address={first}",
                f"--last-address={last}",
            ),
        ),
    ]


def node(state: State, node: Node, bin_: Path) -> list[Service]:
    """Return what runs on a node."""
    folder = state.machine(node.name)
    config, socket = folder.config, str(folder.containerd_socket)
    labels = ",".join(f"{key}={value}" for key, value in node.labels)
    services = [
        Service("containerd", ("containerd", f"--config={config}/containerd.toml")),
        Service(
            "kubelet",
            (
                str(bin_ / "kubelet"),
                f"--config={config}/kubelet.json",
                f"--kubeconfig={config}/kubelet.kubeconfig",
                "--root-dir=/var/lib/kubelet",
                f"--hostname-override={node.name}",
                f"--node-ip={node.address}",
                f"--node-labels={labels}",
            ),
            after=socket,
        ),
        Service("kube-proxy", (str(bin_ / "kube-proxy"), f"--config={config}/kube-proxy.json")),
    ]
    if node.gpus:
        arguments = ("--plugins=/var/lib/kubelet/device-plugins", f"--node={node.name}", f"--count={node.gpus}")
        services.append(Service("gpus", (str(bin_ / "localkube-agents"), "gpus", *arguments)))
    return services


def _etcd_flags(data: Path) -> tuple[str, ...]:
    # Not to sync files is right for a cluster that `down` throws away: a power cut of the real machine ends it.
    return (
        f"--data-dir={data}",
        f"--listen-client-urls={ETCD_URL}",
        f"--advertise-client-urls={ETCD_URL}",
        f"--listen-peer-urls={_ETCD_PEER_URL}",
        f"--initial-advertise-peer-urls={_ETCD_PEER_URL}",
        f"--initial-cluster=default={_ETCD_PEER_URL}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    )


def _apiserver_flags(instance: Instance, pki: Path) -> tuple[str, ...]:
    return (
        f"--etcd-servers={ETCD_URL}",
        f"--bind-address={instance.api_address}",
        f"--secure-port={plan.API_PORT}",
        f"--service-cluster-ip-range={instance.service_cidr}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--tls-cert-file={pki}/kube-apiserver.crt",
        f"--tls-private-key-file={pki}/kube-apiserver.key",
        f"--client-ca-file={pki}/ca.crt",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki}/service-accounts.pub",
        f"--service-account-signing-key-file={pki}/service-accounts.key",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
        f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={pki}/front-proxy-client.crt",
        f"--proxy-client-key-file={pki}/front-proxy-client.key",
    )
