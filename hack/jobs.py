"""The demo's jobs, made to fit the cluster's spec, and what their output must say. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]

_LINE = re.compile(r"^(?P<host>\S+) CUDA_VISIBLE_DEVICES=(?P<gpus>[0-9,]*)$", re.MULTILINE)


class UnexpectedOutputError(Exception):
    """A job ran, but did not print what it should have."""


@dataclass(frozen=True)
class Target:
    """Where the demo's jobs go: a partition, a pool in it, and the GPUs of each of the pool's nodes."""

    partition: str
    pool: str
    nodes: int
    gpu_type: str = ""
    gpus: int = 0

    def gres(self, gpus: int) -> str:
        """Return the option that asks for GPUs; empty where there are none."""
        return f"--gres=gpu:{self.gpu_type}:{gpus}" if self.gpus else ""


def choose_target(spec: Json) -> Target:
    """Choose the first pool with two GPU nodes; else the largest there is."""
    pools = sorted(spec["pools"], key=lambda pool: (_gpus(pool) == 0, -min(pool["nodes"]["max"], 2)))
    pool = pools[0]
    partitions = [one for one in spec["partitions"] if pool["name"] in one["pools"]]
    if not partitions:
        raise UnexpectedOutputError(f"no partition of the SlurmCluster uses its pool {pool['name']}")
    partition = next((one for one in partitions if one.get("default")), partitions[0])
    kind = pool["machine"].get("gpus", {}).get("type", "gpu") if _gpus(pool) else ""
    return Target(partition["name"], pool["name"], min(pool["nodes"]["max"], 2), kind, _gpus(pool))


def gpu_job(target: Target) -> str:
    """Return a batch script that shows, from each of its nodes, the host's name and its GPUs."""
    gres = f"#SBATCH {target.gres(target.gpus)}\n" if target.gpus else ""
    return f"""\
#!/bin/bash
#SBATCH --job-name=two-nodes --output=two-nodes-%j.out
#SBATCH --partition={target.partition} --constraint={target.pool}
#SBATCH --nodes={target.nodes} --ntasks-per-node=1
{gres}srun bash -c 'echo "$(hostname) CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"'
"""


def check_gpu_job(output: str, target: Target) -> str:
    """Check what ``gpu_job`` printed; return a sentence about it."""
    seen = {found["host"]: [gpu for gpu in found["gpus"].split(",") if gpu] for found in _LINE.finditer(output)}
    if len(seen) != target.nodes:
        raise UnexpectedOutputError(
            f"the job should have printed a line from each of {target.nodes} different hosts, not from {sorted(seen)}"
        )
    for host, gpus in seen.items():
        if len(set(gpus)) != target.gpus:
            raise UnexpectedOutputError(f"the job should have seen {target.gpus} GPUs on {host}, not {gpus}")
    return f"{target.nodes} hosts ({', '.join(sorted(seen))}), {target.gpus} GPUs on each"


def job_id(output: str) -> str:
    """Read the number that sbatch gives."""
    found = re.search(r"Submitted batch job (\d+)", output)
    if not found:
        raise UnexpectedOutputError(f"sbatch gave no job number but: {output.strip()}")
    return found[1]


def wait_for(job: str, state: str = "", seconds: int = 120) -> str:
    """Return a shell command that ends once a job is in a state, or without one once it has left the queue.

    It fails when that takes too long.
    """
    look = f"squeue -h -j {job}" + (f" -t {state}" if state else "") + " 2>/dev/null | grep -q ."
    return f"timeout {seconds} bash -c '{'until' if state else 'while'} {look}; do sleep 0.3; done'"


def check_interactive(screen: str, target: Target) -> None:
    """Check what the interactive session showed: a terminal, on a node of the pool."""
    if "not a tty" in screen or "/dev/pts/" not in screen:
        raise UnexpectedOutputError("the interactive srun got no terminal")
    if not re.search(rf"^{re.escape(target.pool)}-\d+$", screen, re.MULTILINE):
        raise UnexpectedOutputError(f"the interactive srun did not run on a node of pool {target.pool}")


def check_array(output: str, count: int) -> None:
    """Check that each task of the array has left its line."""
    seen = sorted(int(number) for number in re.findall(r"^task (\d+) of job", output, re.MULTILINE))
    if seen != list(range(count)):
        raise UnexpectedOutputError(f"the array should have run tasks 0 to {count - 1}; its files tell of {seen}")


def unfinished(rows: str, jobs: list[str]) -> list[str]:
    """Return those of the jobs that ``sacct -X -n -P -o JobID,State`` does not call COMPLETED."""
    states: dict[str, list[str]] = {}
    for row in rows.splitlines():
        name, _, state = row.partition("|")
        states.setdefault(name.split("_")[0], []).append(state)
    return [job for job in jobs if not states.get(job) or any(state != "COMPLETED" for state in states[job])]


def _gpus(pool: Json) -> int:
    gpus = pool["machine"].get("gpus") or {}
    return int(gpus.get("count", 0))
