"""The cluster as a whole: bringing it up, repairing it, taking it down."""

import json
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from localkube import archives, cgroups, config, golden, host, machines, network, pki, plan, services, waiting
from localkube.api import Api
from localkube.console import say, step, together
from localkube.errors import LocalkubeError
from localkube.layout import Cache, State
from localkube.machines import Machine
from localkube.plan import Node, Plan
from localkube.shell import run


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
        return Api(self.state.pki)

    def control_plane(self) -> Machine:
        """Return the machine that runs in the host's own network."""
        folder = self.state.machine(plan.CONTROL_PLANE)
        return Machine(folder, services.control_plane(self.state, self.bin), self.bin)

    def machine(self, node: Node) -> Machine:
        """Return the machine that is a node."""
        return Machine(
            self.state.machine(node.name),
            services.node(self.state, node, self.bin),
            self.bin,
            namespace=node.namespace,
            hostname=node.name,
            gpus=node.gpus,
        )


def saved(state: State) -> dict[str, Any] | None:
    """Return what is noted about the cluster in the state folder."""
    try:
        value: dict[str, Any] = json.loads(state.cluster.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return value


def load(state: State, cache: Cache) -> Cluster:
    """Return the running cluster."""
    note = saved(state)
    if note is None or not note["complete"]:
        raise LocalkubeError("there is no cluster", advice="Start one: python3 -m localkube up")
    return Cluster(state, cache, Plan.from_json(note["plan"]), Path(note["bin"]))


def usable(state: State) -> bool:
    """Tell whether the noted cluster can be repaired; after a reboot, or half made, it cannot."""
    note = saved(state)
    return bool(
        note
        and note["complete"]
        and note["boot"] == host.boot_id()
        and Path(note["bin"]).is_dir()
        and network.bridge_owner() == str(state.root)
    )


def create(cluster: Cluster) -> None:
    """Make a new cluster from nothing."""
    state = cluster.state
    remove(state)
    network.refuse_foreign_kubernetes()
    state.root.mkdir(parents=True, exist_ok=True)
    note = {
        "complete": False,
        "plan": cluster.plan.to_json(),
        "bin": str(cluster.bin),
        "boot": host.boot_id(),
        "sysctls": host.sysctls(),
        "folders": host.create_mount_points(),
    }
    state.cluster.write_text(json.dumps(note, indent=1))
    state.volumes.mkdir()
    with step("certificates, configuration and networks"):
        pki.create(state.pki, cluster.plan)
        _write_configuration(cluster)
        network.create_bridge(state.root)
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
    state.cluster.write_text(json.dumps({**note, "complete": True}, indent=1))


def repair(cluster: Cluster) -> None:
    """Start what is off, plug in what is cut, and wait until all is well."""
    if machines.pid_of(cluster.state.machine(plan.CONTROL_PLANE)) is None:
        say("the control plane was off: starting it")
        machines.start(cluster.control_plane())
    waiting.for_api(cluster.api, cluster.state)
    for node in cluster.plan.nodes:
        if power_on(cluster, node):
            say(f"{node.name} was off or cut: started")
    waiting.for_nodes(cluster.api, cluster.state, cluster.plan.nodes)


def power_on(cluster: Cluster, node: Node) -> bool:
    """Start a node that is off, or plug in one that is cut; False when it was neither."""
    if machines.pid_of(cluster.state.machine(node.name)) is None:
        cgroups.remove(node.name)
        network.connect(node, cluster.plan)
        cgroups.create(node)
        machines.start(cluster.machine(node))
        return True
    if not network.cable_is_connected(node):
        network.set_cable(node, connected=True)
        return True
    return False


def power_off(cluster: Cluster, node: Node) -> None:
    """End a node as a pulled power plug does."""
    machines.kill(cluster.state.machine(node.name))
    network.disconnect(node)
    cgroups.remove(node.name)


def remove(state: State) -> None:
    """Remove a cluster and everything that it left on the machine."""
    owner = network.bridge_owner()
    if owner and owner != str(state.root):
        raise LocalkubeError(
            f"another cluster runs here; its state folder is {owner}",
            advice=f"End it first: LOCALKUBE_STATE={owner} python3 -m localkube down",
        )
    _refuse_foreign_folder(state)
    note = saved(state) or {}
    folders = [state.machine(path.name) for path in state.machines.glob("*")]
    together(*(partial(machines.kill, folder) for folder in folders))
    # By name, from our own note: a cable whose bridge is gone cannot be told from somebody else's.
    for node in Plan.from_json(note["plan"]).nodes if "plan" in note else ():
        network.disconnect(node)
    network.remove_links()
    if owner or note:
        network.remove_rules()
    cgroups.remove()
    host.restore_sysctls(note.get("sysctls", {}))
    host.remove_folders(note.get("folders", []))
    for point in host.mounts_under(state.root):
        run(["umount", "--lazy", point])
    if state.root.exists():
        shutil.rmtree(state.root)


def _refuse_foreign_folder(state: State) -> None:
    """Keep `remove` from a folder that this tool did not make: it deletes the whole of it."""
    if state.root.is_dir() and any(state.root.iterdir()) and not state.cluster.exists():
        raise LocalkubeError(
            f"{state.root} holds files, but no cluster: it is left alone",
            advice="Let LOCALKUBE_STATE name an empty or a new folder, or empty this one yourself.",
        )


def _prepare_images(cluster: Cluster) -> None:
    with step("images"):
        root = golden.ensure(cluster.cache, archives.collection(cluster.cache))
        folders = [cluster.state.machine(node.name) for node in cluster.plan.nodes]
        together(*(partial(golden.link, root, folder.containerd) for folder in folders))
        for folder in folders:
            shutil.copy(root.parent / "images.json", folder.images)


def _write_configuration(cluster: Cluster) -> None:
    state = cluster.state
    state.resolv_conf.write_text(f"nameserver {plan.HOST_ADDRESS}\n")
    admin = pki.kubeconfig(state.pki, "admin")
    proxy = pki.kubeconfig(state.pki, "kube-proxy")
    host_folder = state.machine(plan.CONTROL_PLANE).config
    host_proxy = config.kube_proxy(f"{host_folder}/kube-proxy.kubeconfig", "system-0", plan.HOST_ADDRESS)
    _write(state.kubeconfig, admin)
    _write(host_folder / "kube-proxy.kubeconfig", proxy)
    _write(host_folder / "kube-proxy.json", json.dumps(host_proxy, indent=1))
    _write(host_folder / "Corefile", config.coredns(str(state.kubeconfig)))
    for user in ("kube-controller-manager", "kube-scheduler"):
        _write(host_folder / f"{user}.kubeconfig", pki.kubeconfig(state.pki, user))
    for node in cluster.plan.nodes:
        folder = state.machine(node.name)
        target = folder.config
        node_proxy = config.kube_proxy(f"{target}/kube-proxy.kubeconfig", node.name, node.address)
        _write(target / "kube-proxy.kubeconfig", proxy)
        _write(target / "kube-proxy.json", json.dumps(node_proxy, indent=1))
        _write(target / "kubelet.kubeconfig", pki.kubeconfig(state.pki, node.name))
        _write(target / "kubelet.json", json.dumps(config.kubelet(state, node), indent=1))
        _write(target / "containerd.toml", config.containerd(folder))
        _write(target / "cni" / "10-pods.conflist", json.dumps(config.cni(node, folder), indent=1))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)
