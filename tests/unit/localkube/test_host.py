"""What is changed on the host, and what is put back: ours, and nobody else's."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from localkube import cgroups, host, network, note, packages, removal, shell
from localkube.errors import LocalkubeError
from localkube.init import Running
from localkube.layout import State
from localkube.plan import Instance, Plan
from localkube.waiting import serves

_REFUSED = pytest.fail.Exception
INSTANCE = Instance()


def test_unit_tests_cannot_reach_the_machine() -> None:
    for effect in (network.remove_machines, network.remove_bridge):
        with pytest.raises(_REFUSED):
            effect(INSTANCE)
    with pytest.raises(_REFUSED):
        host.create_mount_points()
    with pytest.raises(_REFUSED):
        shell.run(["true"])
    with pytest.raises(FileNotFoundError):
        cgroups.remove(INSTANCE)


def test_a_state_folder_of_somebody_else_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "bridge_owner", lambda instance: None)
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(LocalkubeError, match="left alone"):
        removal.remove(State(tmp_path, INSTANCE))
    assert (tmp_path / "thesis.tex").read_text() == "precious"


def test_another_cluster_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "bridge_owner", lambda instance: "/elsewhere")
    with pytest.raises(LocalkubeError, match="another cluster"):
        removal.remove(State(tmp_path, INSTANCE))


def test_a_folder_of_another_instance_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "bridge_owner", lambda instance: None)
    note.write(State(tmp_path, Instance(3)), {"plan": Plan(instance=Instance(3)).to_json()})
    with pytest.raises(LocalkubeError, match="LOCALKUBE_INSTANCE=3"):
        removal.remove(State(tmp_path, INSTANCE))
    assert list(tmp_path.iterdir())


def test_the_machine_is_put_back_as_it_was_before_the_first_cluster_and_only_with_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, folders = {"panic": "0", "limit": "low"}, list[str]()
    monkeypatch.setattr(host, "sysctls", settings.copy)
    monkeypatch.setattr(host, "raise_limits", lambda: settings.update(limit="high"))
    monkeypatch.setattr(host, "create_mount_points", lambda: ["/var/log/pods"])
    monkeypatch.setattr(host, "restore_sysctls", settings.update)
    monkeypatch.setattr(host, "remove_folders", folders.extend)
    first, second = (State(tmp_path / str(number), Instance(number)) for number in (1, 2))
    monkeypatch.setattr(network, "neighbours", lambda instance: [])
    earlier = note.change_host(first.instance)
    first.root.mkdir()
    note.write(first, {"plan": Plan(instance=first.instance).to_json(), **earlier})
    settings["panic"] = "1"  # a kubelet of the first cluster

    monkeypatch.setattr(network, "neighbours", lambda instance: [(first.instance, first.root)])
    monkeypatch.setattr(host, "create_mount_points", list)
    later = note.change_host(second.instance)
    note.restore_host(first.instance, earlier)
    assert settings == {"panic": "1", "limit": "high"}
    assert not folders

    monkeypatch.setattr(network, "neighbours", lambda instance: [])
    note.restore_host(second.instance, later)
    assert settings == {"panic": "0", "limit": "low"}
    assert folders == ["/var/log/pods"]


def test_folders_are_removed_only_when_empty(tmp_path: Path) -> None:
    empty, used = tmp_path / "empty", tmp_path / "used"
    empty.mkdir()
    used.mkdir()
    (used / "file").touch()
    host.remove_folders([str(empty), str(used), str(tmp_path / "missing")])
    assert not empty.exists()
    assert used.exists()


def test_cgroup_v1_gets_a_tree_in_every_controller_with_its_processors(tmp_path: Path) -> None:
    for controller in ("memory", "cpuset"):
        (tmp_path / controller).mkdir()
    (tmp_path / "cpuset" / "cpuset.cpus").write_text("0-1")
    node = Plan().node("worker-0")
    (tmp_path / "cpuset" / "localkube" / "worker-0").mkdir(parents=True)
    for path in ("cpuset/localkube", "cpuset/localkube/worker-0"):
        (tmp_path / path / "cpuset.cpus").touch()
    cgroups.create(node, tmp_path)
    assert (tmp_path / "memory/localkube/worker-0").is_dir()
    assert (tmp_path / "cpuset/localkube/worker-0/cpuset.cpus").read_text() == "0-1"


def test_cgroup_v2_has_one_tree(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory")
    (tmp_path / "system.slice").mkdir()
    assert cgroups.hierarchies(tmp_path) == [tmp_path]


def test_removing_one_nodes_cgroups_keeps_the_others(tmp_path: Path) -> None:
    for name in ("worker-1/kubepods/pod", "worker-10/kubepods"):
        (tmp_path / "memory" / "localkube" / name).mkdir(parents=True)
    cgroups.remove(INSTANCE, "worker-1", tmp_path)
    assert [path.name for path in (tmp_path / "memory/localkube").iterdir()] == ["worker-10"]


def test_only_missing_packages_are_installed() -> None:
    assert packages.missing_packages(set(packages.PACKAGES) - {"runc"}) == ["runc"]
    assert not packages.missing_packages(set(packages.PACKAGES))


def _node(gpus: str, beat: datetime, ready: str = "True") -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "lastHeartbeatTime": beat.strftime("%Y-%m-%dT%H:%M:%SZ")}
    return {"status": {"conditions": [condition], "allocatable": {"nvidia.com/gpu": gpus}}}


def test_a_node_serves_when_its_present_kubelet_says_so() -> None:
    start = datetime(2026, 1, 1, 12, 0, 0, 700000, tzinfo=UTC)
    assert serves(_node("8", start), 8, start)
    assert not serves(_node("8", start - timedelta(seconds=2)), 8, start)
    assert not serves(_node("7", start), 8, start)
    assert not serves(_node("8", start, ready="False"), 8, start)
    assert not serves({"status": {}}, 0, start)


def test_a_service_that_keeps_failing_is_started_less_and_less_often() -> None:
    service = Running("kubelet", ["kubelet"], "")
    delays = []
    for _ in range(8):
        service.ended(now=0.0)
        delays.append(service.due)
    assert delays == sorted(delays)
    assert delays[-1] == delays[-2]
    service.began = 0.0
    service.ended(now=1000.0)
    assert service.due - 1000.0 < delays[0]


def test_a_service_waits_for_the_file_that_it_needs(tmp_path: Path) -> None:
    service = Running("kubelet", ["kubelet"], str(tmp_path / "socket"))
    assert not service.ready(now=1.0)
    (tmp_path / "socket").touch()
    assert service.ready(now=1.0)
