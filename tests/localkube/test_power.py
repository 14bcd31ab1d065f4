"""Nodes that lose their power or their network, and a machine on which everything is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

from localkube.api import Api
from localkube.cluster import load, power_off, power_on
from localkube.layout import Cache
from localkube.machines import started_at
from tests.e2e.support import eventually
from tests.localkube.support import PORT, Localkube, get, kill_all, processes, run_pod, running

_ASK = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())"


def _ask_on_node(cluster: Localkube, node: str, address: str) -> str:
    """Ask a pod from within its node, where no cable is needed."""
    enter = ["nsenter", f"--net=/run/netns/{cluster.instance.namespace(node)}"]
    command = [*enter, sys.executable, "-c", _ASK, f"http://{address}:{PORT}/"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout


def _restarts(cluster: Localkube, pod: str) -> int:
    return int(cluster.kubectl.json("get", "pod", pod)["status"]["containerStatuses"][0]["restartCount"])


def test_a_node_without_power_starts_its_containers_anew_and_keeps_its_disk(cluster: Localkube) -> None:
    web = running(cluster.kubectl, "web")
    life, uid = web.get()["life"], cluster.kubectl.json("get", "pod", "web")["metadata"]["uid"]
    web.get("write", path="/scratch/note", text="kept")
    assert processes(cluster.state, "worker-0")
    cluster("node", "stop", "worker-0")
    assert not processes(cluster.state, "worker-0")
    assert processes(cluster.state, "system-0")
    assert "off" in cluster.fails("status")
    cluster("node", "start", "worker-0")
    # As on a real machine: the same pod, its containers started anew, and what it wrote to disk still there.
    again = running(cluster.kubectl, "web", other_than=life)
    assert again.get("read", path="/scratch/note") == "kept"
    assert cluster.kubectl.json("get", "pod", "web")["metadata"]["uid"] == uid
    eventually("the restart is counted", lambda: _restarts(cluster, "web") == 1, within=10)
    cluster("status")


def test_a_node_is_started_in_a_later_second_than_its_last_kubelet_wrote_in(cluster: Localkube) -> None:
    whole = load(cluster.state, Cache(cluster.cache / "localkube"))
    node = whole.plan.node("worker-0")
    time.sleep(1 - time.time() % 1)  # all of what follows would fit into one second
    power_off(whole, node)
    ended = datetime.now(UTC)
    assert power_on(whole, whole.plan.nodes) == [node]
    started = started_at(cluster.state.machine("worker-0"))
    assert started.replace(microsecond=0) > ended
    cluster("up")


def test_an_address_is_not_given_to_another_pod_after_a_power_cut(cluster: Localkube) -> None:
    pods = [running(cluster.kubectl, "web"), run_pod(cluster.kubectl, "beside", "worker-0")]
    lives = {pod.name: pod.get()["life"] for pod in pods}
    cluster("node", "stop", "worker-0")
    cluster("node", "start", "worker-0")
    after = {running(cluster.kubectl, name, other_than=life).address for name, life in lives.items()}
    assert after.isdisjoint(pod.address for pod in pods)


def test_a_node_without_network_is_silent_and_its_containers_run_on(cluster: Localkube) -> None:
    web = running(cluster.kubectl, "web")
    life = web.get()["life"]
    restarts = _restarts(cluster, "web")
    node = next(one for one in cluster.kubectl.json("get", "nodes")["items"] if one["metadata"]["name"] == web.node)
    address = next(one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP")
    api = Api(cluster.instance, cluster.state.pki)
    assert api.kubelet_ready(address)
    cluster("node", "cut", web.node)
    assert not api.kubelet_ready(address)
    with pytest.raises(AssertionError):
        web.get()
    assert life in _ask_on_node(cluster, web.node, web.address)
    assert "cut" in cluster.fails("status")
    cluster("node", "start", web.node)
    assert web.get()["life"] == life
    assert _restarts(cluster, "web") == restarts


def test_up_repairs_a_cluster_of_which_every_process_was_killed(cluster: Localkube) -> None:
    before = run_pod(cluster.kubectl, "survivor", "system-0")
    before.get("write", path="/scratch/note", text="kept")
    life = before.get()["life"]
    kill_all(cluster.state)
    assert "control plane was off" in cluster("up")
    after = running(cluster.kubectl, "survivor", other_than=life)
    assert after.get("read", path="/scratch/note") == "kept"
    life = running(cluster.kubectl, "web").get()["life"]
    service = cluster.kubectl.json("get", "service", "web")["spec"]["clusterIP"]
    # A Service follows once the API server knows the pod's new address.
    eventually("pods reach it", lambda: after.get("get", url="http://web/")["life"] == life, within=10)
    eventually("the host reaches it", lambda: get(service)["life"] == life, within=10)


def test_up_plugs_in_and_switches_on(cluster: Localkube) -> None:
    cluster("node", "cut", "system-0")
    cluster("node", "stop", "worker-0")
    said = cluster("up")
    assert "system-0 was off or cut" in said
    assert "worker-0 was off or cut" in said
    cluster("status")
