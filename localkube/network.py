"""The bridge, the nodes' network namespaces, and the traces that they leave on the host."""

import json
import re
from pathlib import Path
from typing import Any

from localkube import plan
from localkube.errors import LocalkubeError
from localkube.plan import Node, Plan
from localkube.shell import run, succeeds

_CHAIN = re.compile(r"^:(KUBE-\S+)", re.MULTILINE)
_RULE_WITH_CHAIN = re.compile(r"^-A (?!KUBE-)(.*-j KUBE-.*)$", re.MULTILINE)
_DESTINATIONS = (plan.BRIDGE_CIDR, plan.POD_CIDR, plan.SERVICE_CIDR)
_LAST_RESORT = 4096
_TABLES = ("filter", "nat", "mangle")


def bridge_owner() -> str | None:
    """Return the state folder of the cluster that has the bridge, or None when there is no bridge."""
    links = _links(plan.BRIDGE)
    return str(links[0].get("ifalias", "")) if links else None


def create_bridge(owner: Path) -> None:
    """Make the bridge that carries the API server and connects the nodes."""
    _refuse_used_addresses()
    _batch(
        f"link add {plan.BRIDGE} type bridge",
        f"address add {plan.HOST_ADDRESS}/24 dev {plan.BRIDGE}",
        f"link set {plan.BRIDGE} alias {owner}",
        f"link set {plan.BRIDGE} up",
        # Service addresses that nobody serves end here and are not sent into the world.
        f"route replace {plan.SERVICE_CIDR} dev {plan.BRIDGE} src {plan.HOST_ADDRESS}",
        # Should the bridge vanish, its routes go with it, and the default route would lead the cluster's traffic away.
        *(f"route add unreachable {destination} metric {_LAST_RESORT}" for destination in _DESTINATIONS),
    )


def connect(node: Node, cluster: Plan) -> None:
    """Make a node's network namespace and its cable to the bridge."""
    disconnect(node)
    _batch(
        f"netns add {node.namespace}",
        f"link add {node.link} type veth peer name eth0 netns {node.namespace}",
        f"link set {node.link} master {plan.BRIDGE} up",
        f"route replace {node.pod_cidr} via {node.address} dev {plan.BRIDGE}",
    )
    _batch(
        "link set lo up",
        f"address add {node.address}/24 dev eth0",
        "link set eth0 up",
        f"route add {plan.SERVICE_CIDR} via {plan.HOST_ADDRESS}",
        "route add unreachable default",
        *(f"route add {peer.pod_cidr} via {peer.address}" for peer in cluster.nodes if peer != node),
        namespace=node.namespace,
    )


def disconnect(node: Node) -> None:
    """Remove a node's network namespace. The cable goes first: a namespace dies late, and its cable with it."""
    succeeds(["ip", "link", "delete", node.link])
    succeeds(["ip", "netns", "delete", node.namespace])


def set_cable(node: Node, *, connected: bool) -> None:
    """Plug a node's cable in, or pull it."""
    run(["ip", "link", "set", node.link, "up" if connected else "down"])


def cable_is_connected(node: Node) -> bool:
    """Tell whether the cable is there and plugged in."""
    return any("UP" in link.get("flags", []) for link in _links(node.link))


def remove_links() -> None:
    """Remove the bridge, the cables in it, and the nodes' namespaces, of this or of an earlier cluster."""
    for link in _links():
        if link.get("master") == plan.BRIDGE:
            succeeds(["ip", "link", "delete", link["ifname"]])
    for namespace in Path("/run/netns").glob(f"{plan.PREFIX}*"):
        run(["ip", "netns", "delete", namespace.name])
    succeeds(["ip", "link", "delete", plan.BRIDGE])
    for destination in _DESTINATIONS:
        succeeds(["ip", "route", "delete", "unreachable", destination, "metric", str(_LAST_RESORT)])


def remove_rules() -> None:
    """Remove kube-proxy's rules from the host; only for a machine on which a cluster of ours ran."""
    for program in ("iptables", "ip6tables"):
        _remove_rules(program)
    for destination in _DESTINATIONS:
        succeeds(["conntrack", "--delete", "--orig-dst", destination])


def refuse_foreign_kubernetes() -> None:
    """Two kube-proxies in one network would fight, and `down` could not tell their rules apart."""
    if _CHAIN.search(run(["iptables-save", "-t", "nat"])):
        raise LocalkubeError(
            "this machine has address translation rules of another Kubernetes",
            advice="Use a machine that is not itself a Kubernetes node.",
        )


def removal(table: str, saved: str) -> str:
    """Return the input for iptables-restore that takes kube-proxy's chains out of a saved table."""
    chains = _CHAIN.findall(saved)
    rules = [f"-D {rule}" for rule in _RULE_WITH_CHAIN.findall(saved)]
    flush, delete = [f":{chain} - [0:0]" for chain in chains], [f"-X {chain}" for chain in chains]
    return "\n".join([f"*{table}", *flush, *rules, *delete, "COMMIT", ""]) if chains else ""


def _remove_rules(program: str) -> None:
    for table in _TABLES:
        script = removal(table, run([f"{program}-save", "-t", table]))
        if script:
            run([f"{program}-restore", "--noflush"], stdin=script)


def _refuse_used_addresses() -> None:
    for destination in _DESTINATIONS:
        used = run(["ip", "route", "show", "root", destination]).strip()
        if used:
            raise LocalkubeError(
                f"the addresses {destination} are in use on this machine: {used}",
                advice="Free them; the cluster's addresses are fixed (localkube/plan.py).",
            )


def _links(name: str = "") -> list[dict[str, Any]]:
    """Return all links, or those of one name; asking `ip` for a link that is not there would be an error."""
    found: list[dict[str, Any]] = json.loads(run(["ip", "-json", "-details", "link", "show"]))
    return [link for link in found if not name or link["ifname"] == name]


def _batch(*lines: str, namespace: str = "") -> None:
    run(["ip", *(["-netns", namespace] if namespace else []), "-batch", "-"], stdin="\n".join(lines))
