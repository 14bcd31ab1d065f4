from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hack import jobs
from hack.jobs import Target, UnexpectedOutputError

_H100 = Target("gpu", "h100", nodes=2, gpu_type="h100", gpus=2)


def _pool(name: str, maximum: int, gpus: int = 0) -> dict[str, Any]:
    machine: dict[str, Any] = {"cpus": 2, "memory": "1Gi"}
    if gpus:
        machine["gpus"] = {"type": name, "count": gpus}
    return {"name": name, "nodes": {"min": 1, "max": maximum}, "machine": machine}


@pytest.mark.parametrize(
    ("pools", "target"),
    [
        ([_pool("cpu", 4), _pool("h100", 2, 8)], Target("all", "h100", 2, "h100", 8)),
        ([_pool("one", 1, 8), _pool("h100", 3, 8)], Target("all", "h100", 2, "h100", 8)),
        ([_pool("cpu", 1)], Target("all", "cpu", 1)),
    ],
)
def test_the_target_fits_the_spec(pools: list[dict[str, Any]], target: Target) -> None:
    partitions = [
        {"name": "side", "pools": [pool["name"] for pool in pools]},
        {"name": "all", "default": True, "pools": [pool["name"] for pool in pools]},
    ]
    assert jobs.choose_target({"pools": pools, "partitions": partitions}) == target


def test_a_pool_without_partition_is_told() -> None:
    with pytest.raises(UnexpectedOutputError, match="no partition"):
        jobs.choose_target({"pools": [_pool("h100", 2, 8)], "partitions": [{"name": "x", "pools": ["other"]}]})


def test_the_job_asks_for_whole_nodes() -> None:
    script = jobs.gpu_job(_H100)
    assert script.startswith("#!/bin/bash\n#SBATCH ")
    assert "--partition=gpu --constraint=h100\n" in script
    assert "#SBATCH --nodes=2 " in script
    assert "#SBATCH --gres=gpu:h100:2\n" in script
    assert "gres" not in jobs.gpu_job(Target("cpu", "cpu", 1))


def test_two_hosts_with_all_their_gpus_are_right() -> None:
    output = "h100-1 CUDA_VISIBLE_DEVICES=0,1\nh100-0 CUDA_VISIBLE_DEVICES=0,1\n"
    assert jobs.check_gpu_job(output, _H100) == "2 hosts (h100-0, h100-1), 2 GPUs on each"


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("", "2 different hosts"),
        ("h100-0 CUDA_VISIBLE_DEVICES=0,1\nh100-0 CUDA_VISIBLE_DEVICES=0,1\n", "2 different hosts"),
        ("h100-0 CUDA_VISIBLE_DEVICES=0,1\nh100-1 CUDA_VISIBLE_DEVICES=0\n", "2 GPUs on h100-1"),
        ("h100-0 CUDA_VISIBLE_DEVICES=0,1\nh100-1 CUDA_VISIBLE_DEVICES=\n", "2 GPUs on h100-1"),
        ("h100-0 CUDA_VISIBLE_DEVICES=0,1\nh100-1 CUDA_VISIBLE_DEVICES=1,1\n", "2 GPUs on h100-1"),
    ],
)
def test_anything_else_is_not(output: str, words: str) -> None:
    with pytest.raises(UnexpectedOutputError, match=words):
        jobs.check_gpu_job(output, _H100)


def test_job_id() -> None:
    assert jobs.job_id("Submitted batch job 42\n") == "42"
    with pytest.raises(UnexpectedOutputError, match="no job number but: sbatch: error: no"):
        jobs.job_id("sbatch: error: no\n")


def test_an_interactive_session_has_a_terminal_on_a_node() -> None:
    screen = "alice@h100-1:~$ hostname\nh100-1\nalice@h100-1:~$ tty\n/dev/pts/0\n"
    jobs.check_interactive(screen, _H100)
    with pytest.raises(UnexpectedOutputError, match="no terminal"):
        jobs.check_interactive(screen.replace("/dev/pts/0", "not a tty"), _H100)
    with pytest.raises(UnexpectedOutputError, match="pool h100"):
        jobs.check_interactive(screen.replace("\nh100-1\n", "\ndemo-login-0\n"), _H100)


def test_every_task_of_an_array_counts() -> None:
    lines = [f"task {number} of job 7 on h100-0" for number in range(3)]
    jobs.check_array("\n".join(lines), 3)
    with pytest.raises(UnexpectedOutputError, match=r"tell of \[0, 2\]"):
        jobs.check_array("\n".join([lines[0], lines[2]]), 3)


def test_what_sacct_does_not_call_completed_is_unfinished() -> None:
    rows = "3|COMPLETED\n4_0|COMPLETED\n4_1|FAILED\n5_0|COMPLETED\n5_1|COMPLETED\n"
    assert jobs.unfinished(rows, ["3", "4", "5", "6"]) == ["4", "6"]


@pytest.mark.parametrize(
    ("queue", "state", "status"),
    [("", "", 0), ("3 gpu array", "", 124), ("3 gpu array", "R", 0), ("", "R", 124)],
)
def test_waiting_follows_the_queue(tmp_path: Path, queue: str, state: str, status: int) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text(f'#!/bin/sh\n[ -z "{queue}" ] || echo "{queue}"\n')
    squeue.chmod(0o755)
    command = jobs.wait_for("3", state, seconds=1)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert subprocess.run(["bash", "-c", command], env=environment, check=False).returncode == status
