"""The soak's observer, a process of its own: it watches Nodes and Pods, asks Slurm, and tells who was where.

It knows nothing of what the operator decides. Every few seconds it prints its findings, as one line of JSON; when it is
told to end, a last time. What it saw goes to a record, from which everything can be found again.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final

from hack.shell import CommandError, capture
from hack.soak import history
from hack.soak.sightings import Sighting, node_seen, pod_seen, slurm_seen, to_line

EVERY: Final = 6.0
"""Seconds between two looks at Slurm, each with a report."""
_SETTLE: Final = 3.0
"""Seconds after which every watch has surely told of a change: until then the order of versions may have gaps."""
_RUNNING: Final = """squeue -h -t R -o '%A %N' | while read -r job nodes
do scontrol show hostnames "$nodes" | sed "s/^/$job /"; done"""
"""Prints a line ``JOB NODE`` for each node of each running job."""

Read = Callable[..., Sighting]


class BlindError(Exception):
    """A watch has ended: from here on the observer would miss things."""


class Observer:
    """Collects sightings."""

    def __init__(self, cluster: str, record: IO[str]) -> None:
        self._namespace, _, self._name = cluster.partition(".")
        self._cluster = cluster
        self._record = record
        self._lock = threading.Lock()
        self._seen: list[Sighting] = []
        self._start = 0
        self._ended: list[str] = []
        self._watches: list[subprocess.Popen[str]] = []

    def begin(self) -> None:
        """List everything, and watch from there on."""
        for path, read in (("/api/v1/nodes", node_seen), ("/api/v1/pods", pod_seen)):
            listed = json.loads(capture(["kubectl", "get", "--raw", path]))
            version = listed["metadata"]["resourceVersion"]
            self._start = max(self._start, int(version))
            for item in listed["items"]:
                self._note(read(item, time.time()))
            query = f"{path}?watch=true&resourceVersion={version}&timeoutSeconds=86400"
            watch = subprocess.Popen(
                ["kubectl", "get", "--raw", query], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
            )
            self._watches.append(watch)
            threading.Thread(target=self._follow, args=(path, read, watch), daemon=True).start()

    def end(self) -> None:
        """End the watches."""
        for watch in self._watches:
            watch.terminate()

    def look_at_slurm(self) -> None:
        """Ask slurmctld what runs where. While it does not answer, nothing is known."""
        with self._lock:
            version, at = max(one.version for one in self._seen), time.time()
        command = ["kubectl", "-n", self._namespace, "exec", f"{self._name}-controller-0", "-c", "slurmctld", "--"]
        with contextlib.suppress(CommandError, subprocess.TimeoutExpired):
            self._note(slurm_seen(capture([*command, "sh", "-c", _RUNNING], timeout=20), version, at))

    def findings(self, settled_before: float) -> dict[str, Any]:
        """Judge everything that was seen before a time."""
        if self._ended:
            raise BlindError("; ".join(self._ended))
        with self._lock:
            seen = [one for one in self._seen if one.at < settled_before]
        used = history.uses(seen)
        return {
            "double_claims": [asdict(one) for one in history.double_claims(seen, self._start)],
            "uses": used,
            "round_trips": {node: history.round_trips(one) for node, one in sorted(used.items())},
            "pods": history.pod_figures(seen),
            "tenures": [asdict(one) for one in history.tenures(seen, self._cluster)],
            "sightings": len(seen),
        }

    def _follow(self, path: str, read: Read, watch: subprocess.Popen[str]) -> None:
        try:
            for line in watch.stdout or ():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    break
                self._note(read(event["object"], time.time(), gone=event["type"] == "DELETED"))
        finally:
            self._ended.append(f"the watch of {path} has ended")

    def _note(self, seen: Sighting) -> None:
        with self._lock:
            self._seen.append(seen)
            self._record.write(f"{to_line(seen)}\n")
            self._record.flush()


@contextlib.contextmanager
def _until_told() -> Iterator[threading.Event]:
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    # Whoever reads us tells us when to end; a Ctrl-C is meant for them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield told


def main() -> int:
    """Observe until told to end; 2 when something was missed."""
    parser = argparse.ArgumentParser(prog="python3 -m hack.soak.observer", description=__doc__)
    parser.add_argument("--cluster", required=True, help="NAMESPACE.NAME of the SlurmCluster")
    parser.add_argument("--record", required=True, type=Path, help="file for all that is seen")
    chosen = parser.parse_args()
    with _until_told() as told, chosen.record.open("w") as record:
        observer = Observer(chosen.cluster, record)
        try:
            observer.begin()
            while not told.wait(EVERY):
                observer.look_at_slurm()
                print(json.dumps(observer.findings(time.time() - _SETTLE)), flush=True)
            time.sleep(_SETTLE)
            print(json.dumps(observer.findings(time.time())), flush=True)
        except BlindError as error:
            print(json.dumps({"blind": str(error)}), flush=True)
            return 2
        except BrokenPipeError:
            os._exit(1)
        finally:
            observer.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
