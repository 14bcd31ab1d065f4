"""What a running cluster offers."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.e2e.support import eventually
from tests.localkube.support import Localkube, claim, get, run_pod, running, service, traces


def test_nodes_are_ready_and_have_their_gpus(cluster: Localkube) -> None:
    nodes = {node["metadata"]["name"]: node for node in cluster.kubectl.json("get", "nodes")["items"]}
    assert set(nodes) == {"system-0", "worker-0"}
    for node in nodes.values():
        ready = next(one for one in node["status"]["conditions"] if one["type"] == "Ready")
        assert ready["status"] == "True"
    assert nodes["worker-0"]["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert "worker-0" in cluster("status")


def test_pods_find_each_other_by_name_across_nodes(cluster: Localkube) -> None:
    web = running(cluster.kubectl, "web")
    client = run_pod(cluster.kubectl, "client", "system-0")
    addresses = client.get("resolve", name="web.default.svc.cluster.local")
    assert addresses == [cluster.kubectl.json("get", "service", "web")["spec"]["clusterIP"]]
    for host in ("web", addresses[0], f"{web.address}:8080"):
        assert client.get("get", url=f"http://{host}/")["host"] == "web"


def test_names_outside_the_cluster_do_not_exist(cluster: Localkube) -> None:
    web = running(cluster.kubectl, "web")
    with pytest.raises(AssertionError, match="no such host"):
        web.get("resolve", name="example.com")


def test_the_host_reaches_pods_services_and_load_balancers(cluster: Localkube) -> None:
    def status() -> str:
        ingress = cluster.kubectl.json("get", "service", "web")["status"]["loadBalancer"].get("ingress", [])
        return str(ingress[0]["ip"]) if ingress else ""

    balancer = eventually("the Service has an address", status, within=10)
    assert balancer == cluster.instance.load_balancers[0]
    cluster_ip = cluster.kubectl.json("get", "service", "web")["spec"]["clusterIP"]
    assert running(cluster.kubectl, "web").get()["host"] == "web"
    for address in (cluster_ip, balancer):
        eventually(f"{address} answers", partial(get, address), within=10)
        assert get(address)["host"] == "web"


def test_a_service_follows_its_pods(cluster: Localkube) -> None:
    cluster.kubectl.apply(service("late"))
    address = cluster.kubectl.json("get", "service", "late")["spec"]["clusterIP"]
    with pytest.raises(AssertionError):
        get(address)
    run_pod(cluster.kubectl, "late", "system-0")
    eventually("the Service answers", lambda: get(address)["host"] == "late", within=10)


def test_volumes_bind_and_keep_their_content(cluster: Localkube) -> None:
    cluster.kubectl.apply(claim("once", "ReadWriteOnce"), claim("many", "ReadWriteMany"))
    first = run_pod(cluster.kubectl, "first", "worker-0", "once", "many")
    for volume in ("once", "many"):
        first.get("write", path=f"/{volume}/note", text=f"from {first.name}")
    # While the first pod still runs, from another node.
    second = run_pod(cluster.kubectl, "second", "system-0", "many")
    assert second.get("read", path="/many/note") == "from first"
    cluster.kubectl("delete", "pod", "first", "--wait=true")
    again = run_pod(cluster.kubectl, "again", "worker-0", "once")
    assert again.get("read", path="/once/note") == "from first"


def test_a_deleted_claim_takes_its_volume_along(cluster: Localkube) -> None:
    cluster.kubectl.apply(claim("brief", "ReadWriteOnce"))
    volumes = cluster.state.volumes

    def bound() -> str:
        return str(cluster.kubectl.json("get", "pvc", "brief")["spec"].get("volumeName", ""))

    folder = volumes / eventually("the claim is bound", bound, within=10)
    eventually("the folder is there", folder.is_dir, within=10)
    cluster.kubectl("delete", "pvc", "brief")
    eventually("the folder is gone", lambda: not folder.exists(), within=20)


def test_a_second_up_changes_nothing(cluster: Localkube, probe: Path) -> None:
    web = running(cluster.kubectl, "web")
    before = cluster.lives(), web.get(), cluster("status"), cluster.state.cluster.read_text()
    cluster("up", "--workers", "1", "--gpus", "2", "--image", str(probe))
    cluster("up")
    assert (cluster.lives(), web.get(), cluster("status"), cluster.state.cluster.read_text()) == before


def test_another_size_is_refused_with_what_to_do(cluster: Localkube) -> None:
    assert "python3 -m localkube down" in cluster.fails("up", "--workers", "2")


def test_an_image_that_is_there_is_not_loaded_again(cluster: Localkube, probe: Path) -> None:
    assert "loading" not in cluster("load-image", str(probe))
    noted = cluster.state.machine("worker-0").images
    noted.write_text("{}")
    assert "into 1 nodes" in cluster("load-image", str(probe))
    assert "loading" not in cluster("load-image", str(probe))


def test_the_hosts_address_translation_is_left_alone(cluster: Localkube) -> None:
    found = traces(cluster.state)
    assert "rules" not in found
    assert set(found) == {"links", "namespaces", "routes", "mounts", "cgroups", "processes", "files"}
