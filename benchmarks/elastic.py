"""How soon a job runs for which nodes have to be started, and how a burst of jobs is taken."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.start import CannotMeasureError, Start
from benchmarks.timeline import Spread, verdict
from hack import demo, ssh
from hack.console import INDENT, say

P50_GOAL: Final = 3.0
P95_GOAL: Final = 5.0
JOIN_GOAL: Final = 5.0
BURST: Final = 200
BURST_SECONDS: Final = 10
BURST_GOAL: Final = 30.0
"""Seconds from the first submission after which all have run."""
_LIMIT: Final = 120.0
_USER: Final = "alice"

# The job tells when it starts; the clock is the same on all nodes of one machine.
_ONE: Final = """\
set -e
date +%s.%N
job=$(sbatch --parsable -N {nodes} --exclusive --output=one.out --wrap='date +%s.%N')
until [ "$(squeue -h -t all -j "$job" -o %T)" = COMPLETED ]; do sleep 0.1; done
cat one.out
"""

_WAITING: Final = """\
set -e
sbatch --parsable -N {nodes} --exclusive --output=joined.out --wrap='date +%s.%N'
"""

_BURST: Final = """\
set -e
rm -f burst-*.out
date +%s.%N
pause=$(awk 'BEGIN {{ print {seconds} / {jobs} }}')
for one in $(seq {jobs}); do sbatch -Q --output=burst-$one.out --wrap=true & sleep "$pause"; done
wait
until [ -z "$(squeue -h -u {user})" ]; do sleep 0.5; done
date +%s.%N
ls burst-*.out | wc -l
"""


@dataclass(frozen=True)
class Elastic:
    """A cluster whose pools start at zero, and the way into it."""

    start: Start
    login: ssh.Login

    @classmethod
    def on(cls, start: Start) -> Elastic:
        """Work on a cluster that is Ready."""
        address = start.kubectl.get("slc", start.name)["status"]["endpoints"]["login"]
        host, port = ssh.split_address(address)
        known = start.key.with_name("known_hosts.benchmark")
        known.write_text(ssh.known_hosts(host, port, demo.host_keys(start.kubectl, start.name)))
        return cls(start, ssh.Login(host, port, start.key, known))

    def measure(self, rounds: int) -> list[tuple[str, str, str, str]]:
        """Return the rows of the table."""
        rows = []
        for nodes in (1, len(self.start.nodes)):
            waits = []
            for _ in range(rounds):
                self.power_down()
                began, ran = self._say(_ONE.format(nodes=nodes)).split()
                waits.append(float(ran) - float(began))
            say(f"{INDENT}{nodes} new: {', '.join(f'{wait:.1f}' for wait in waits)} s")
            rows.append(verdict(f"sbatch -> RUNNING on {nodes} new pods, p50", P50_GOAL, Spread(tuple(waits)), "s"))
            p95 = sorted(waits)[max(0, round(0.95 * len(waits)) - 1)]
            rows.append(verdict(f"sbatch -> RUNNING on {nodes} new pods, p95", P95_GOAL, Spread((p95,)), "s"))
        rows.append(verdict("a node joins -> RUNNING", JOIN_GOAL, Spread((self.join(),)), "s"))
        what = f"{BURST} jobs within {BURST_SECONDS} s: all done after"
        rows.append(verdict(what, BURST_GOAL, Spread((self.burst(),)), "s"))
        return rows

    def join(self) -> float:
        """Return the seconds from the grant of the last node to the start of the job that waits for it."""
        self.power_down()
        last, kubectl = self.start.nodes[-1], self.start.kubectl
        fleet = f"slurmcluster.dev/fleet={kubectl.namespace}.{self.start.name}"
        kubectl.text("label", "node", last, "slurmcluster.dev/fleet-")
        job = self._say(_WAITING.format(nodes=len(self.start.nodes))).strip()
        time.sleep(12)
        kubectl.text("label", "node", last, fleet, "--overwrite")
        granted = time.time()
        wait = f'until [ "$(squeue -h -t all -j {job} -o %T)" = COMPLETED ]; do sleep 0.1; done; cat joined.out'
        return float(self._say(wait)) - granted

    def burst(self) -> float:
        """Return the seconds until the last of many jobs has ended."""
        self.power_down()
        script = _BURST.format(jobs=BURST, seconds=BURST_SECONDS, user=_USER)
        began, ended, done = self._say(script).split()
        if int(done) != BURST:
            raise CannotMeasureError(f"{done} of {BURST} jobs have run")
        return float(ended) - float(began)

    def power_down(self) -> None:
        """Stop every node, and wait until the last pod is gone."""
        pools = [f"{pool['name']}-[0-{pool['nodes']['max'] - 1}]" for pool in self.start.example["spec"]["pools"]]
        for nodes in pools:
            self._admin(f"scontrol update nodename={nodes} state=power_down")
        deadline = time.monotonic() + _LIMIT
        while self._pods() or set(self._admin("sinfo -h -N -o %t").split()) != {"idle~"}:
            if time.monotonic() > deadline:
                raise CannotMeasureError(f"nodes do not stop: {self._pods()}")
            time.sleep(0.5)
        time.sleep(1)

    def _pods(self) -> list[Any]:
        return self.start.kubectl.names("pods", "app.kubernetes.io/component=slurmd")

    def _admin(self, command: str) -> str:
        pod = f"{self.start.name}-controller-0"
        return self.start.kubectl.text("exec", pod, "-c", "slurmctld", "--", "sh", "-c", command)

    def _say(self, script: str) -> str:
        return self.login.quietly(_USER, "bash -s", stdin=script)
