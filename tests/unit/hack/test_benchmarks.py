from __future__ import annotations

from typing import Any

from benchmarks import idle
from benchmarks.timeline import STAGES, Spread, Timeline, break_down, verdict


def _pod(component: str, container: str, *, ready: bool) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app.kubernetes.io/component": component}},
        "status": {
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{"name": container, "ready": ready}],
        },
    }


def test_a_stage_is_reached_once_and_for_good() -> None:
    timeline = Timeline(volumes=2, nodes=2)
    claims = [{"status": {"phase": "Bound"}}, {"status": {"phase": "Pending"}}]
    timeline.look(1.0, claims, [_pod("slurmd", "slurmd", ready=True)], None)
    assert timeline.marks == {}
    claims[1]["status"]["phase"] = "Bound"
    slurmd = [_pod("slurmd", "slurmd", ready=True), _pod("slurmd", "slurmd", ready=False)]
    timeline.look(2.0, claims, [*slurmd, _pod("database", "mariadb", ready=True)], None)
    timeline.look(3.0, [], [_pod("slurmd", "slurmd", ready=True)] * 2, None)
    assert timeline.marks == {
        "volumes bound": 2.0,
        "database ready": 2.0,
        "slurmd pods created": 2.0,
        "slurmd pods ready": 3.0,
    }


def test_the_clusters_own_word_counts_for_nodes_and_ready() -> None:
    timeline = Timeline(volumes=1, nodes=1)
    status: dict[str, Any] = {"pools": [{"ready": 1, "min": 2}], "conditions": [{"type": "Ready", "status": "False"}]}
    timeline.look(1.0, [], [], {"status": status})
    timeline.look(1.5, [], [], {})
    assert timeline.marks == {}
    status["pools"][0]["ready"] = 2
    status["conditions"][0]["status"] = "True"
    timeline.look(2.0, [], [], {"status": status})
    assert timeline.marks == {"nodes usable": 2.0, "Ready": 2.0}


def test_the_break_down_is_in_order_of_time() -> None:
    runs = [{stage: float(number) for number, stage in enumerate(STAGES)} for _ in range(2)]
    runs[1]["volumes bound"] = 99.0
    rows = break_down(runs)
    assert rows[0] == ("seconds after apply", "run 1", "run 2", "median")
    assert rows[-1] == ("volumes bound", "0.0", "99.0", "49.5")


def test_a_missed_goal_is_shown() -> None:
    spread = Spread((1.0, 3.0, 8.0))
    assert verdict("start", 3.0, spread, "s") == ("start", "3 s", "3.0 s  (1.0 to 8.0, 3 runs)", "yes")
    assert verdict("start", 2.5, spread, "s")[3] == "NO"
    assert verdict("calls", None, Spread((4.0,)), "a minute") == ("calls", "-", "4.0 a minute", "-")


def test_idle_cost_is_read_from_kubelet_and_api_server() -> None:
    other = {"podRef": {"namespace": "x", "name": "operator-1"}}
    ours = {
        "podRef": {"namespace": "slurmcluster-system", "name": "operator-1"},
        "cpu": {"time": "2030-01-01T00:00:10Z", "usageCoreNanoSeconds": 5_000_000_000},
        "memory": {"workingSetBytes": 64 * 1024 * 1024},
    }
    taken, memory, cpu = idle.pod_usage({"pods": [other, ours]}, "operator-1")
    assert (memory, cpu) == (64.0, 5.0)
    metric = "apiserver_flowcontrol_dispatched_requests_total"
    metrics = (
        f'{metric}{{flow_schema="service-accounts",priority_level="workload-low"}} 120\n'
        f'{metric}{{flow_schema="kube-system-service-accounts",priority_level="workload-high"}} 5000\n'
    )
    assert idle.calls(metrics) == 120
    cost = idle.between(idle.Usage(taken, 60.0, 5.0, 120), idle.Usage(taken + 60, 64.0, 5.6, 150))
    assert (cost.memory, round(cost.millicores), cost.calls_per_minute) == (64.0, 10, 30.0)
