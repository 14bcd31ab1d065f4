"""What on a machine stands in the way of a cluster's addresses: pure."""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

_TRANSLATED = re.compile(r"^-A .*(?<!! )-d (?P<destination>[0-9./]+) .*$", re.MULTILINE)


def with_routes(routes: Iterable[Mapping[str, Any]], cidrs: Iterable[str]) -> str:
    """Return the first of the host's routes that leads to addresses of a cluster, or nothing.

    A wide route by way of a gateway, as of a VPN, is no clash: ours are narrower and win, and nothing there is a
    neighbour on the wire. Unreachable routes are what an earlier cluster left for its last clients.
    """
    ours = [ipaddress.IPv4Network(cidr) for cidr in cidrs]
    for route in routes:
        if route["dst"] == "default" or route.get("type") == "unreachable":
            continue
        theirs = ipaddress.IPv4Network(route["dst"])
        for cidr in ours:
            attached = "gateway" not in route
            if theirs.subnet_of(cidr) or (attached and cidr.subnet_of(theirs)):
                return f"{cidr} meets the route to {theirs} on {route.get('dev', 'this machine')}"
    return ""


def with_translations(saved: str, cidrs: Iterable[str]) -> str:
    """Return the first rule of a saved iptables table that is about addresses of a cluster, or nothing.

    The Services of another Kubernetes on the machine are seen in such rules only.
    """
    ours = [ipaddress.IPv4Network(cidr) for cidr in cidrs]
    for rule in _TRANSLATED.finditer(saved):
        theirs = ipaddress.IPv4Network(rule["destination"])
        if any(theirs.subnet_of(cidr) for cidr in ours):
            return f"iptables has the rule {rule[0]}"
    return ""
