"""Addresses are taken only where nobody else has them."""

from typing import Any

import pytest

from localkube.clashes import with_routes, with_translations
from localkube.plan import Instance

OURS = Instance(0).cidrs
DEFAULT = {"dst": "default", "gateway": "192.0.2.1", "dev": "eth0", "type": "unicast"}


def _route(destination: str, **more: str) -> dict[str, Any]:
    return {"type": "unicast", "dst": destination, "dev": "eth0", **more}


@pytest.mark.parametrize(
    "route",
    [
        _route("10.244.0.0/16", gateway="192.0.2.1"),
        _route("10.244.7.0/24", gateway="192.0.2.1"),
        _route("10.96.0.10", gateway="192.0.2.1"),
        _route("172.16.0.0/12", scope="link"),
    ],
)
def test_a_route_into_the_clusters_addresses_and_a_wider_wire_are_clashes(route: dict[str, Any]) -> None:
    assert str(route["dst"]) in with_routes([DEFAULT, route], OURS)


@pytest.mark.parametrize(
    "route",
    [
        _route("10.0.0.0/8", gateway="192.0.2.1"),
        _route("192.0.2.0/24", scope="link"),
        {"type": "unreachable", "dst": "10.244.0.0/16"},
        _route("172.30.1.0/24", scope="link"),
    ],
)
def test_a_wide_route_by_a_gateway_and_other_addresses_are_none(route: dict[str, Any]) -> None:
    assert not with_routes([DEFAULT, route], OURS)


def test_another_kubernetes_is_known_by_its_rules() -> None:
    rule = "-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y"
    assert rule in with_translations(f"*nat\n:KUBE-SERVICES - [0:0]\n{rule}\nCOMMIT\n", OURS)
    assert not with_translations(f"*nat\n{rule}\nCOMMIT\n", Instance(1).cidrs)


def test_rules_for_all_but_these_addresses_are_no_clash() -> None:
    assert not with_translations("-A POSTROUTING ! -d 10.244.0.0/16 -j MASQUERADE\n", OURS)
    assert not with_translations("-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE\n", OURS)
