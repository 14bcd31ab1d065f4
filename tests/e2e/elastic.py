"""The elastic cluster of the end-to-end tests: two pools of different GPUs, both from zero, on four machines."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from slurmcluster_operator.decide.nodes import YOUNG
from slurmcluster_operator.model.hostlist import expand
from tests.e2e.support import Person, SlurmCluster, eventually

IDLE_SECONDS = 4


@dataclass
class Elastic:
    """An elastic cluster and the user who works on it."""

    cluster: SlurmCluster
    alice: Person

    def sbatch(self, command: str, options: str = "") -> str:
        """Submit a job."""
        return self.cluster.sbatch(self.alice, command, options)

    def output(self, job: str) -> str:
        """Return what a job printed."""
        return self.cluster.output(self.alice, job)

    def job(self, job: str) -> dict[str, Any]:
        """Return a job as slurmctld shows it."""
        jobs: list[dict[str, Any]] = json.loads(self.cluster.admin(f"scontrol show job {job} --json"))["jobs"]
        return jobs[0]

    def use(self, job: str) -> Use:
        """Return when and where a job that has ended ran."""
        found = self.job(job)
        return Use(set(expand(found["nodes"])), found["start_time"]["number"], found["end_time"]["number"])

    def why(self, job: str) -> str:
        """Return what an administrator is told of a job."""
        where = ["-n", "slurmcluster-system", "exec", "deploy/slurmcluster-operator", "--"]
        command = ["python", "-m", "slurmcluster_operator", "why", job]
        return self.cluster.kubectl(*where, *command, "-n", self.cluster.namespace, "-c", self.cluster.name)

    def pods(self) -> set[str]:
        """Return the Slurm nodes that have a pod."""
        return {one["metadata"]["labels"]["slurmcluster.dev/node"] for one in self._pods()}

    def states(self) -> dict[str, set[str]]:
        """Return the flags of each node."""
        lines = self.cluster.admin("scontrol -o show nodes").splitlines()
        words = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]
        return {one["NodeName"]: set(one["State"].split("+")) for one in words}

    def pool(self, name: str) -> dict[str, Any]:
        """Return a pool's status."""
        found: dict[str, Any] = next(one for one in self.cluster.status()["pools"] if one["name"] == name)
        return found

    def wait_quiet(self, within: float = 60) -> None:
        """Wait until every pod is gone, every node is off and no job is left."""

        def quiet() -> bool:
            assert not self.cluster.admin("squeue -h"), self.cluster.admin("squeue -h")
            states = self.states()
            assert all("POWERED_DOWN" in flags for flags in states.values()), states
            assert not self.pods(), self.pods()
            return True

        eventually("no job, no pod, all nodes off", quiet, within=within, every=0.5)

    def cancel(self) -> None:
        """Cancel everything."""
        self.cluster.admin("scancel -u alice; scancel -u root; true")

    def clear(self) -> None:
        """Bring everything to an end: jobs, and nodes without waiting until they have been idle for long enough."""
        self.cancel()
        eventually("no job is left", lambda: not self.cluster.admin("squeue -h"), within=60)
        on = [node for node, flags in self.states().items() if not flags & {"POWERED_DOWN", "POWERING_DOWN", "DOWN"}]
        if on:
            self.cluster.admin(f"scontrol update nodename={','.join(on)} state=power_down")
        # What a slurmctld says that has only just started proves nothing yet: pods stay.
        self.wait_quiet(within=60 + YOUNG.seconds)

    @contextmanager
    def edited(self, **pools: dict[str, Any]) -> Iterator[None]:
        """Change fields of pools for a while."""
        before = json.loads(json.dumps(self.cluster.spec))
        for pool in self.cluster.spec["pools"]:
            pool.update(pools.get(pool["name"], {}))
        self.cluster.apply()
        try:
            yield
        finally:
            self.cluster.spec.clear()
            self.cluster.spec.update(before)
            self.cluster.apply()

    @contextmanager
    def recorded(self) -> Iterator[Record]:
        """Record every slurmd pod that appears or is deleted meanwhile."""
        record = Record()
        with subprocess.Popen(
            ["kubectl", "--kubeconfig", self.cluster.kubectl.kubeconfig, "-n", self.cluster.namespace, "get", "pods",
             "-l", "app.kubernetes.io/component=slurmd", "--watch", "--output-watch-events", "-o",
             ("jsonpath={.type} {.object.metadata.labels.slurmcluster\\.dev/node} {.object.metadata.uid}"
             " {.object.metadata.deletionTimestamp} {.object.metadata.deletionGracePeriodSeconds}{'\\n'}")],
            stdout=subprocess.PIPE, text=True,
        ) as watch:  # fmt: skip
            thread = threading.Thread(target=record.read, args=(watch.stdout,), daemon=True)
            thread.start()
            try:
                yield record
                assert watch.poll() is None, "the watch has ended: not everything was recorded"
            finally:
                watch.terminate()
                # What is read is closed next.
                thread.join()

    def _pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.cluster.json("get", "pods", "-l", "app.kubernetes.io/component=slurmd")[
            "items"
        ]
        return found


@dataclass(frozen=True)
class Use:
    """When a job ran, in whole seconds since 1970, and on which nodes."""

    nodes: set[str]
    start: int
    end: int


@dataclass
class Record:
    """What a watch of slurmd pods has seen: one line a change."""

    lines: list[str] = field(default_factory=list)

    def read(self, stream: Any) -> None:
        """Read lines until the stream ends."""
        for line in stream:
            self.lines.append(line.strip())

    @property
    def nodes(self) -> set[str]:
        """The Slurm nodes that had a pod."""
        return {line.split()[1] for line in self.lines}

    @property
    def uids(self) -> dict[str, set[str]]:
        """For each Slurm node, the pods that it had."""
        found: dict[str, set[str]] = {}
        for line in self.lines:
            _, node, uid, *_ = line.split()
            found.setdefault(node, set()).add(uid)
        return found

    @property
    def deleted(self) -> set[str]:
        """The Slurm nodes whose pod somebody asked to go."""
        return {line.split()[1] for line in self.lines if len(line.split()) > 3}

    @property
    def deletions(self) -> list[tuple[str, float]]:
        """Each Slurm node whose pod somebody asked to go, and when, in seconds since 1970 (a whole number)."""
        asked: dict[str, tuple[str, float]] = {}
        for line in self.lines:
            _, node, uid, *rest = line.split()
            if rest:
                # Kubernetes notes when the time that it gives the pod will be over. The first note counts: another one
                # follows when the pod has ended.
                asked.setdefault(uid, (node, datetime.fromisoformat(rest[0]).timestamp() - int(rest[1])))
        return list(asked.values())
