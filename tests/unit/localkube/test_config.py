"""Rendered configuration: what would break a node or another one on the same machine."""

import json
import tomllib
from pathlib import Path

from localkube import config, services
from localkube.layout import State
from localkube.machines import Machine
from localkube.plan import Instance, Plan

INSTANCE = Instance()
STATE = State(Path("/state"), INSTANCE)
NODES = Plan(workers=2).nodes


def test_kubelets_share_no_cgroup_and_no_socket() -> None:
    rendered = [config.kubelet(STATE, node) for node in NODES]
    for key in ("cgroupRoot", "containerRuntimeEndpoint", "tlsCertFile"):
        assert len({value[key] for value in rendered}) == len(NODES)


def test_pods_ask_the_host_for_names() -> None:
    assert config.kubelet(STATE, NODES[0])["clusterDNS"] == [INSTANCE.api_address]


def test_containerd_configuration_is_toml_and_allows_machines_without_cap_sys_resource() -> None:
    folder = STATE.machine("worker-0")
    value = tomllib.loads(config.containerd(folder))
    cri = value["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["restrict_oom_score_adj"] is True
    assert cri["sandbox_image"] == config.PAUSE_IMAGE
    assert value["grpc"]["address"] == str(folder.containerd_socket)


def test_what_a_power_cut_wipes_lies_under_the_run_folder() -> None:
    folder = STATE.machine("worker-0")
    value = tomllib.loads(config.containerd(folder))
    assert Path(value["state"]).is_relative_to(folder.run)
    assert not Path(value["root"]).is_relative_to(folder.run)


def test_pods_get_addresses_of_their_node() -> None:
    for node in NODES:
        ranges = config.cni(node)["plugins"][0]["ipam"]["ranges"]
        assert ranges == [[{"subnet": node.pod_cidr}]]


def test_cluster_names_are_looked_up_before_everything_else_is_denied() -> None:
    blocks = config.coredns(INSTANCE, "/k").split("\n. {")
    assert "kubernetes cluster.local" in blocks[0]
    assert "template" not in blocks[0]
    assert "NXDOMAIN" in blocks[1]


def test_kube_proxy_leaves_the_machines_connection_tracking_alone() -> None:
    conntrack = config.kube_proxy(INSTANCE, "/k", "n", "1.2.3.4")["conntrack"]
    assert conntrack["maxPerCore"] == 0
    assert conntrack["tcpEstablishedTimeout"] == "0s"


def test_only_nodes_with_gpus_run_the_device_plugin() -> None:
    names = [{service.name for service in services.node(STATE, node, Path("/bin"))} for node in NODES]
    assert ["gpus" in each for each in names] == [False, True, True]


def test_the_kubelet_waits_for_its_container_runtime() -> None:
    by_name = {service.name: service for service in services.node(STATE, NODES[1], Path("/bin"))}
    assert by_name["kubelet"].after == str(STATE.machine("worker-0").containerd_socket)


def test_a_machine_does_not_inherit_the_callers_proxy() -> None:
    machine = Machine(STATE.machine("worker-0"), services.node(STATE, NODES[1], Path("/b")), Path("/b"), "ns", 8)
    environment = machine.spec()["environment"]
    assert set(environment) == {"HOME", "LANG", "PATH"}
    assert json.dumps(machine.spec())


def test_every_machine_has_namespaces_of_its_own() -> None:
    machine = Machine(STATE.machine("worker-0"), [], Path("/b"), INSTANCE.namespace("worker-0"))
    command = machine.command()
    assert command[:2] == ["nsenter", "--net=/run/netns/localkube-worker-0"]
    assert {"--uts", "--pid", "--mount"} <= set(command)
    assert machine.spec()["hostname"] == "worker-0"
