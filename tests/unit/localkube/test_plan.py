"""The address plan: nothing overlaps, and names fit where they are used."""

import fnmatch
import ipaddress
import itertools

import pytest

from localkube.errors import LocalkubeError
from localkube.plan import CONTROL_PLANE, MAX_INSTANCE, MAX_WORKERS, Instance, Plan

LONGEST_INTERFACE_NAME = 15
INSTANCES = [Instance(number) for number in range(MAX_INSTANCE + 1)]


def test_the_default_is_one_system_node_and_four_workers_with_eight_gpus() -> None:
    nodes = Plan().nodes
    assert [node.name for node in nodes] == ["system-0", "worker-0", "worker-1", "worker-2", "worker-3"]
    assert [node.gpus for node in nodes] == [0, 8, 8, 8, 8]


@pytest.mark.parametrize("instance", INSTANCES)
def test_addresses_never_collide_even_in_the_largest_cluster(instance: Instance) -> None:
    nodes = Plan(MAX_WORKERS, instance=instance).nodes
    first, last = (int(ipaddress.ip_address(address)) for address in instance.load_balancers)
    machines = [ipaddress.ip_address(address) for address in (instance.api_address, instance.host_address)]
    machines += [ipaddress.ip_address(node.address) for node in nodes]
    balanced = [ipaddress.ip_address(address) for address in range(first, last + 1)]
    assert len({*machines, *balanced}) == len(machines) + len(balanced)
    bridge, balancers = (ipaddress.IPv4Network(cidr) for cidr in (instance.bridge_cidr, instance.load_balancer_cidr))
    assert all(address in bridge for address in machines)
    assert all(address in balancers for address in balanced)
    assert not any(address in balancers for address in machines)
    assert len({node.pod_cidr for node in nodes}) == len({instance.mac(node.number) for node in nodes}) == len(nodes)
    pods = ipaddress.IPv4Network(instance.pod_cidr)
    assert all(ipaddress.IPv4Network(node.pod_cidr).subnet_of(pods) for node in nodes)
    assert ipaddress.ip_address(instance.service_api_address) in ipaddress.IPv4Network(instance.service_cidr)


def test_interface_names_fit_the_kernel_and_differ() -> None:
    links = [
        instance.link(machine)
        for instance in INSTANCES
        for machine in (CONTROL_PLANE, *(node.name for node in Plan(MAX_WORKERS).nodes))
    ]
    assert max(map(len, links)) <= LONGEST_INTERFACE_NAME
    assert len(set(links)) == len(links)


def test_the_first_instance_has_the_plain_names_and_addresses() -> None:
    instance = Instance.parse("")
    node = Plan(instance=instance).node("worker-0")
    assert (instance.bridge, instance.cidrs) == ("localkube0", ("172.30.0.0/24", "10.244.0.0/16", "10.96.0.0/16"))
    assert (instance.api_url, instance.load_balancers) == ("https://172.30.0.1:6443", ("172.30.0.200", "172.30.0.250"))
    assert (node.address, node.pod_cidr, node.cgroup) == ("172.30.0.11", "10.244.11.0/24", "/localkube/worker-0")
    assert (instance.namespace("worker-0"), instance.link("worker-0")) == ("localkube-worker-0", "lk-worker-0")


def test_two_instances_share_no_name_and_no_address() -> None:
    for one, other in itertools.combinations(INSTANCES, 2):
        names = [
            {i.name, i.bridge, i.namespace("worker-0"), i.link("worker-0"), Plan(instance=i).node("worker-0").cgroup}
            for i in (one, other)
        ]
        assert not names[0] & names[1]
        for a, b in itertools.product(one.cidrs, other.cidrs):
            assert not ipaddress.ip_network(a).overlaps(ipaddress.ip_network(b))


def test_one_instances_namespaces_do_not_match_anothers_pattern() -> None:
    for one, other in itertools.permutations(INSTANCES, 2):
        assert not fnmatch.fnmatch(other.namespace("worker-0"), one.namespace("*"))


@pytest.mark.parametrize("text", ["10", "-1", "one", "1.5", "²"])
def test_instances_without_addresses_are_refused(text: str) -> None:
    with pytest.raises(LocalkubeError, match="LOCALKUBE_INSTANCE"):
        Instance.parse(text)


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
    plan = Plan(workers=2, gpus=3, instance=Instance(4))
    assert Plan.from_json(plan.to_json()) == plan
