"""The address plan: nothing overlaps, and names fit where they are used."""

import ipaddress

import pytest

from localkube import plan
from localkube.errors import LocalkubeError
from localkube.plan import MAX_WORKERS, Plan

LONGEST_INTERFACE_NAME = 15


def test_the_default_is_one_system_node_and_four_workers_with_eight_gpus() -> None:
    nodes = Plan().nodes
    assert [node.name for node in nodes] == ["system-0", "worker-0", "worker-1", "worker-2", "worker-3"]
    assert [node.gpus for node in nodes] == [0, 8, 8, 8, 8]


def test_addresses_never_collide_even_in_the_largest_cluster() -> None:
    nodes = Plan(workers=MAX_WORKERS).nodes
    balanced = range(
        int(ipaddress.ip_address(plan.LOAD_BALANCER_FIRST)), int(ipaddress.ip_address(plan.LOAD_BALANCER_LAST)) + 1
    )
    addresses = [int(ipaddress.ip_address(node.address)) for node in nodes]
    taken = [int(ipaddress.ip_address(plan.HOST_ADDRESS)), *addresses, *balanced]
    assert len(set(taken)) == len(taken)
    assert len({node.pod_cidr for node in nodes}) == len(nodes)
    pods = ipaddress.IPv4Network(plan.POD_CIDR)
    assert all(ipaddress.IPv4Network(node.pod_cidr).subnet_of(pods) for node in nodes)
    bridge = ipaddress.IPv4Network(plan.BRIDGE_CIDR)
    assert all(ipaddress.ip_address(address) in bridge for address in taken)


def test_interface_names_fit_the_kernel() -> None:
    links = [node.link for node in Plan(workers=MAX_WORKERS).nodes]
    assert max(map(len, links)) <= LONGEST_INTERFACE_NAME
    assert len(set(links)) == len(links)


def test_workers_carry_the_labels_of_gpu_feature_discovery() -> None:
    products = [dict(node.labels).get("nvidia.com/gpu.product") for node in Plan(gpus=4).nodes]
    h100, a100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"
    assert products == [None, h100, h100, a100, a100]
    assert dict(Plan(gpus=4).node("worker-0").labels)["nvidia.com/gpu.count"] == "4"


def test_without_gpus_no_label_speaks_of_gpus() -> None:
    labels = dict(Plan(gpus=0).node("worker-0").labels)
    assert not [key for key in labels if "nvidia" in key]


@pytest.mark.parametrize("workers", [-1, MAX_WORKERS + 1])
def test_sizes_outside_the_plan_are_refused(workers: int) -> None:
    with pytest.raises(LocalkubeError, match="--workers"):
        Plan(workers=workers)


def test_an_unknown_node_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(LocalkubeError, match="system-0, worker-0"):
        Plan(workers=1).node("worker-7")


def test_a_plan_survives_being_written_down() -> None:
    assert Plan.from_json(Plan(workers=2, gpus=3).to_json()) == Plan(workers=2, gpus=3)
