"""The cluster as a whole: bringing it up, and repairing it."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from localkube import (
    archives,
    cgroups,
    config,
    golden,
    host,
    machines,
    network,
    note,
    pki,
    plan,
    removal,
    services,
    waiting,
)
from localkube.api import Api
from localkube.console import say, step, together
from localkube.errors import LocalkubeError
from localkube.layout import Cache, State
from localkube.machines import Machine
from localkube.plan import Node, Plan


@dataclass(frozen=True)
class Cluster:
    """A cluster that is about to run, or runs."""

    state: State
    cache: Cache
    plan: Plan
    bin: Path

    @property
    def api(self) -> Api:
        """A client for its API server."""
        return Api(self.state.instance, self.state.pki)

    def control_plane(self) -> Machine:
        """Return the machine with the API server."""
        return Machine(
            self.state.machine(plan.CONTROL_PLANE),
            services.control_plane(self.state, self.bin),
            self.bin,
            namespace=self.state.instance.namespace(plan.CONTROL_PLANE),
        )

    def machine(self, node: Node) -> Machine:
        """Return the machine that is a node."""
        return Machine(
            self.state.machine(node.name),
            services.node(self.state, node, self.bin),
            self.bin,
            namespace=node.instance.namespace(node.name),
            gpus=node.gpus,
        )


def load(state: State, cache: Cache) -> Cluster:
    """Return the running cluster."""
    noted = note.read(state)
    if noted is None or not noted["complete"]:
        raise LocalkubeError("there is no cluster", advice="Start one: python3 -m localkube up")
    return Cluster(state, cache, note.plan(noted), Path(noted["bin"]))


def usable(state: State) -> bool:
    """Tell whether the noted cluster can be repaired; after a reboot, or half made, it cannot."""
    noted = note.read(state)
    return bool(
        noted
        and noted["complete"]
        and noted["boot"] == host.boot_id()
        and Path(noted["bin"]).is_dir()
        and network.bridge_owner(state.instance) == str(state.root)
    )


def create(cluster: Cluster) -> None:
    """Make a new cluster from nothing."""
    state = cluster.state
    removal.clear(state)
    network.refuse_used_addresses(state.instance)
    state.volumes.mkdir(parents=True)
    noted = {"complete": False, "plan": cluster.plan.to_json(), "bin": str(cluster.bin), "boot": host.boot_id()}
    with host.changing():
        noted |= note.change_host(state.instance)
        note.write(state, noted)
        network.create_bridge(state.instance, state.root)
    with step("certificates, configuration and networks"):
        pki.create(state.pki, cluster.plan)
        _write_configuration(cluster)
        network.connect_control_plane(cluster.plan)
        machines.start(cluster.control_plane())
        for node in cluster.plan.nodes:
            network.connect(node, cluster.plan)
            cgroups.create(node)
    together(lambda: _prepare_images(cluster), lambda: waiting.for_api(cluster.api, state))
    cluster.api.create("/apis/storage.k8s.io/v1/storageclasses", config.storage_class())
    for node in cluster.plan.nodes:
        machines.start(cluster.machine(node))
    with step(f"{len(cluster.plan.nodes)} nodes"):
        waiting.for_nodes(cluster.api, state, cluster.plan.nodes)
    note.write(state, {**noted, "complete": True})


def repair(cluster: Cluster) -> None:
    """Start what is off, plug in what is cut, and wait until all is well."""
    if machines.pid_of(cluster.state.machine(plan.CONTROL_PLANE)) is None:
        say("the control plane was off: starting it")
        network.connect_control_plane(cluster.plan)
        machines.start(cluster.control_plane())
    waiting.for_api(cluster.api, cluster.state)
    for node in power_on(cluster, cluster.plan.nodes):
        say(f"{node.name} was off or cut: started")
    waiting.for_nodes(cluster.api, cluster.state, cluster.plan.nodes)


def power_on(cluster: Cluster, nodes: Sequence[Node]) -> list[Node]:
    """Start those nodes that are off, plug in those that are cut, and return them."""
    off = [node for node in nodes if machines.pid_of(cluster.state.machine(node.name)) is None]
    cut = [node for node in nodes if node not in off and not network.cable_is_connected(node)]
    if off:
        waiting.for_next_second()
    for node in off:
        cgroups.remove(node.instance, node.name)
        network.connect(node, cluster.plan)
        cgroups.create(node)
        machines.start(cluster.machine(node))
    for node in cut:
        network.set_cable(node, connected=True)
    return [*off, *cut]


def power_off(cluster: Cluster, node: Node) -> None:
    """End a node as a pulled power plug does."""
    machines.kill(cluster.state.machine(node.name))
    network.disconnect(node.instance, node.name)
    cgroups.remove(node.instance, node.name)


def _prepare_images(cluster: Cluster) -> None:
    with step("images"), archives.unchanged(cluster.cache):
        root = golden.ensure(cluster.cache, archives.collection(cluster.cache))
        folders = [cluster.state.machine(node.name) for node in cluster.plan.nodes]
        together(*(partial(golden.link, root, folder.containerd) for folder in folders))
        for folder in folders:
            shutil.copy(root.parent / "images.json", folder.images)


def _write_configuration(cluster: Cluster) -> None:
    state = cluster.state
    instance, url = state.instance, state.instance.api_url
    state.resolv_conf.write_text(f"nameserver {instance.api_address}\n")
    admin = pki.kubeconfig(state.pki, "admin", url)
    proxy = pki.kubeconfig(state.pki, "kube-proxy", url)
    own_folder = state.machine(plan.CONTROL_PLANE).config
    # kube-proxy wants to run on a node, and the control plane is none.
    own_proxy = config.kube_proxy(instance, f"{own_folder}/kube-proxy.kubeconfig", "system-0", instance.api_address)
    _write(state.kubeconfig, admin)
    _write(own_folder / "kube-proxy.kubeconfig", proxy)
    _write(own_folder / "kube-proxy.json", json.dumps(own_proxy, indent=1))
    _write(own_folder / "Corefile", config.coredns(instance, str(state.kubeconfig)))
    for user in ("kube-controller-manager", "kube-scheduler"):
        _write(own_folder / f"{user}.kubeconfig", pki.kubeconfig(state.pki, user, url))
    for node in cluster.plan.nodes:
        folder = state.machine(node.name)
        target = folder.config
        node_proxy = config.kube_proxy(instance, f"{target}/kube-proxy.kubeconfig", node.name, node.address)
        _write(target / "kube-proxy.kubeconfig", proxy)
        _write(target / "kube-proxy.json", json.dumps(node_proxy, indent=1))
        _write(target / "kubelet.kubeconfig", pki.kubeconfig(state.pki, node.name, url))
        _write(target / "kubelet.json", json.dumps(config.kubelet(state, node), indent=1))
        _write(target / "containerd.toml", config.containerd(folder))
        _write(target / "cni" / "10-pods.conflist", json.dumps(config.cni(node), indent=1))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)
