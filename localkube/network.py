"""The bridge, and the network namespaces of the machines on it.

The host has a foot on the bridge, and routes: to pods by way of their nodes, to Services and load balancers by way of
the control plane, whose kube-proxy serves them. So nothing of a cluster stands in the host's own tables but routes,
and several clusters can run beside each other.
"""

import json
from pathlib import Path
from typing import Any

from localkube import clashes
from localkube.errors import LocalkubeError
from localkube.plan import API_NUMBER, CONTROL_PLANE, MAX_INSTANCE, Instance, Node, Plan
from localkube.shell import run, succeeds

_LAST_RESORT = "4096"
_NOBODY = "02:00:00:00:00:00"


def bridge_owner(instance: Instance) -> str | None:
    """Return the state folder of the cluster that has the bridge, or None when there is no bridge."""
    links = _links(instance.bridge)
    return str(links[0].get("ifalias", "")) if links else None


def neighbours(instance: Instance) -> list[tuple[Instance, Path]]:
    """Return the other instances that have a bridge, with their state folders."""
    others = [Instance(number) for number in range(MAX_INSTANCE + 1) if number != instance.number]
    owners = {link["ifname"]: Path(link.get("ifalias", "")) for link in _links()}
    return [(other, owners[other.bridge]) for other in others if other.bridge in owners]


def refuse_used_addresses(instance: Instance) -> None:
    """Leave addresses alone that the machine has other uses for."""
    routes = json.loads(run(["ip", "-json", "-details", "route", "show"]))
    rules = run(["iptables-save", "-t", "nat"])
    found = clashes.with_routes(routes, instance.cidrs) or clashes.with_translations(rules, instance.cidrs)
    if found:
        raise LocalkubeError(
            f"the cluster's addresses are in use on this machine: {found}",
            advice="Free them, or take other ones: LOCALKUBE_INSTANCE=1 (to 9) has its own; see localkube/README.md.",
        )


def create_bridge(instance: Instance, owner: Path) -> None:
    """Make the bridge and the host's way to everything on it."""
    # Should the bridge vanish, its routes go with it, and the default route would lead the cluster's traffic away.
    _batch(*(f"route replace unreachable {cidr} metric {_LAST_RESORT}" for cidr in instance.cidrs))
    _add_bridge(instance, owner)


def connect_control_plane(cluster: Plan) -> None:
    """Make the control plane's network namespace and its cable to the bridge."""
    instance = cluster.instance
    _connect(
        instance,
        CONTROL_PLANE,
        API_NUMBER,
        # The addresses of Services are translated before a packet leaves, but the kernel wants a route first.
        f"route add {instance.service_cidr} dev eth0",
        *(f"route add {node.pod_cidr} via {node.address}" for node in cluster.nodes),
    )


def connect(node: Node, cluster: Plan) -> None:
    """Make a node's network namespace and its cable to the bridge."""
    instance = node.instance
    _connect(
        instance,
        node.name,
        node.number,
        f"route add {instance.service_cidr} via {instance.api_address}",
        *(f"route add {peer.pod_cidr} via {peer.address}" for peer in cluster.nodes if peer != node),
    )
    _batch(f"route replace {node.pod_cidr} via {node.address} dev {instance.bridge}")


def disconnect(instance: Instance, machine: str) -> None:
    """Remove a machine's network namespace. The cable goes first: a namespace dies late, and its cable with it."""
    succeeds(["ip", "link", "delete", instance.link(machine)])
    succeeds(["ip", "netns", "delete", instance.namespace(machine)])


def set_cable(node: Node, *, connected: bool) -> None:
    """Plug a node's cable in, or pull it."""
    run(["ip", "link", "set", node.instance.link(node.name), "up" if connected else "down"])


def cable_is_connected(node: Node) -> bool:
    """Tell whether the cable is there and plugged in."""
    return any("UP" in link.get("flags", []) for link in _links(node.instance.link(node.name)))


def remove_machines(instance: Instance) -> None:
    """Remove the cables in the bridge and the machines' namespaces, of this or of an earlier cluster."""
    for link in _links():
        if link.get("master") == instance.bridge:
            succeeds(["ip", "link", "delete", link["ifname"]])
    for namespace in Path("/run/netns").glob(instance.namespace("*")):
        run(["ip", "netns", "delete", namespace.name])


def holds_addresses(instance: Instance) -> bool:
    """Tell whether the cluster's addresses are kept from the default route: by this cluster, or since an earlier."""
    return bool(run(["ip", "route", "show", "type", "unreachable", instance.bridge_cidr]).strip())


def swallow(instance: Instance, owner: Path) -> None:
    """Let packets to a control plane that is gone vanish on the bridge, in place of being refused."""
    if bridge_owner(instance) is None:
        _add_bridge(instance, owner)
    _batch(f"neighbour replace {instance.api_address} lladdr {_NOBODY} nud permanent dev {instance.bridge}")


def remove_bridge(instance: Instance) -> None:
    """Remove the bridge. Packets to the cluster's addresses are refused from now on, until `release_addresses`."""
    succeeds(["ip", "link", "delete", instance.bridge])


def release_addresses(instance: Instance) -> None:
    """Let the cluster's addresses go the way of all others again."""
    for cidr in instance.cidrs:
        succeeds(["ip", "route", "delete", "unreachable", cidr, "metric", _LAST_RESORT])


def _connect(instance: Instance, machine: str, number: int, *routes: str) -> None:
    disconnect(instance, machine)
    namespace, link = instance.namespace(machine), instance.link(machine)
    _batch(
        f"netns add {namespace}",
        f"link add {link} type veth peer name eth0 address {instance.mac(number)} netns {namespace}",
        f"link set {link} master {instance.bridge} up",
    )
    _batch(
        "link set lo up",
        f"address add {instance.address(number)}/24 dev eth0",
        "link set eth0 up",
        "route add unreachable default",
        *routes,
        namespace=namespace,
    )


def _add_bridge(instance: Instance, owner: Path) -> None:
    by_control_plane = f"via {instance.api_address} dev {instance.bridge}"
    _batch(
        f"link add {instance.bridge} type bridge",
        f"address add {instance.host_address}/24 dev {instance.bridge}",
        f"link set {instance.bridge} alias {owner}",
        f"link set {instance.bridge} up",
        f"route replace {instance.service_cidr} {by_control_plane}",
        f"route replace {instance.load_balancer_cidr} {by_control_plane}",
    )


def _links(name: str = "") -> list[dict[str, Any]]:
    """Return all links, or those of one name; asking `ip` for a link that is not there would be an error."""
    found: list[dict[str, Any]] = json.loads(run(["ip", "-json", "-details", "link", "show"]))
    return [link for link in found if not name or link["ifname"] == name]


def _batch(*lines: str, namespace: str = "") -> None:
    run(["ip", *(["-netns", namespace] if namespace else []), "-batch", "-"], stdin="\n".join(lines))
