"""What goes wrong in the soak, one thing at a time: parts are killed, nodes lose power or network, and come back."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hack import local
from hack.console import seconds
from hack.kube import Chart
from hack.shell import CommandError, capture
from hack.soak import scene
from hack.soak.stage import NoAnswerError, Stage
from hack.soak.work import Submitter
from localkube import machines
from localkube.layout import State

_PAUSE: Final = (4.0, 14.0)
_OUT: Final = (3.0, 12.0)
"""Seconds for which a node is without power or network."""
_HEALED_SECONDS: Final = 120.0
_BELIEVED_SECONDS: Final = 30.0
"""How long slurmctld, once started, takes jobs for running of which their slurmd knows nothing."""
KILLS: Final = ("operator killed", "slurmctld killed", "kubelet killed", "slurmd's pod deleted")
"""Without these a soak shows little."""
_DELETE: Final = ("delete", "pod", "--wait=false", "--ignore-not-found")

# By the command line's first word: a slurmctld that took over after a reconfiguration is named "exe".
_KILL_SLURMCTLD: Final = r"""for p in /proc/[0-9]*; do set -- $(tr '\0' ' ' <$p/cmdline 2>/dev/null)
one=${1##*/}; [ "${one%:}" = slurmctld ] && kill -9 "${p##*/}"; done; true"""


class NotHealedError(Exception):
    """Something that was broken did not come back."""


class Troubles:
    """Deals out troubles until it is told to stop. All kinds come once before any comes again."""

    def __init__(self, stage: Stage, submitter: Submitter, seed: int, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._stage = stage
        self._submitter = submitter
        self._chance = random.Random(f"{seed} troubles")  # noqa: S311 - for a run that can be run again
        self._stop = threading.Event()
        self._kinds: dict[str, Callable[[], str]] = {
            "operator killed": self._kill_operator,
            "slurmctld killed": self._kill_slurmctld,
            "kubelet killed": self._kill_kubelet,
            "power cut": lambda: self._without("stop"),
            "network cut": lambda: self._without("cut"),
            "Kubernetes Job's pod deleted": self._delete_job_pod,
            "slurmd's pod deleted": self._delete_slurmd,
            "login pod deleted": lambda: self._delete_part("login"),
            "slurmrestd's pod deleted": lambda: self._delete_part("restapi"),
        }
        self.done: Counter[str] = Counter()
        self.current = ""
        """The kind that is under way."""
        self.not_healed: list[str] = []

    def run(self, stop: threading.Event) -> None:
        """Cause trouble, wait until it is over, pause. What has met nothing to break does not count."""
        self._stop = stop
        deck: list[str] = []
        while not stop.wait(self._chance.uniform(*_PAUSE)):
            deck = deck or self._chance.sample(sorted(self._kinds), len(self._kinds))
            kind = self.current = deck.pop()
            began = time.monotonic()
            try:
                if target := self._kinds[kind]():
                    self.done[kind] += 1
                    self._tell(f"{kind}: {target}; all is well again after {seconds(time.monotonic() - began)}")
            except (NotHealedError, CommandError, NoAnswerError, subprocess.TimeoutExpired) as error:
                self.not_healed.append(f"{kind}: {error}")
            self.current = ""

    def _kill_operator(self) -> str:
        chart = Chart(local.ROOT)
        selector = f"app.kubernetes.io/instance={chart.release}"
        return self._delete(chart.namespace, selector, "--grace-period=0", "--force")

    def _kill_slurmctld(self) -> str:
        with self._submitter.held():
            with contextlib.suppress(NoAnswerError):  # the container, and our shell in it, may end first
                self._stage.slurm(_KILL_SLURMCTLD)
            # The kubelet would start it again later and later each time; in a new pod it starts at once.
            pod = f"{scene.NAME}-controller-0"
            self._stage.inside.text(*_DELETE, pod, "--grace-period=0", "--force")
            self._wait("slurmctld answers", lambda: "UP" in self._stage.slurm("scontrol ping"))
        self._stop.wait(_BELIEVED_SECONDS)
        self._stage.register()
        return pod

    def _delete_part(self, component: str) -> str:
        selector = f"app.kubernetes.io/component={component},app.kubernetes.io/instance={scene.NAME}"
        return self._delete(scene.NAMESPACE, selector)

    def _delete(self, namespace: str, selector: str, *how: str) -> str:
        """Delete a pod, and wait until another one is ready in its place; empty if there is none."""
        before = self._stage.pod(namespace, selector)
        if not before:
            return ""
        name, uid = before["metadata"]["name"], before["metadata"]["uid"]
        self._stage.everywhere.text("-n", namespace, *_DELETE, name, *how)

        def renewed() -> bool:
            pod = self._stage.pod(namespace, selector)
            ready = [one["status"] for one in pod.get("status", {}).get("conditions", ()) if one["type"] == "Ready"]
            return bool(pod) and pod["metadata"]["uid"] != uid and ready == ["True"]

        self._wait(f"another pod in place of {name}", renewed)
        return str(name)

    def _delete_job_pod(self) -> str:
        return self._delete_one(scene.OTHERS, "batch.kubernetes.io/job-name")

    def _delete_slurmd(self) -> str:
        return self._delete_one(scene.NAMESPACE, "app.kubernetes.io/component=slurmd")

    def _delete_one(self, namespace: str, selector: str) -> str:
        """Delete one of several pods, and see to nothing else; empty if none runs."""
        where = ["-n", namespace, "get", "pods", "-l", selector, "--field-selector=status.phase=Running"]
        names = self._stage.everywhere.text(*where, "-o", "jsonpath={.items[*].metadata.name}").split()
        if not names:
            return ""
        name = self._chance.choice(sorted(names))
        self._stage.everywhere.text("-n", namespace, *_DELETE, name)
        return name

    def _without(self, action: str) -> str:
        """Pull a worker's power plug or network cable for some seconds."""
        worker = self._chance.choice(self._stage.workers)
        localkube(action, worker)
        try:
            self._stop.wait(self._chance.uniform(*_OUT))
        finally:
            localkube("start", worker)
        return worker

    def _kill_kubelet(self) -> str:
        worker = self._chance.choice(self._stage.workers)
        folder = State.from_environment().machine(worker)
        starts = machines.statuses(folder)["kubelet"]["starts"]
        os.kill(kubelet_of(machines.pid_of(folder)), signal.SIGKILL)
        self._wait(f"kubelet of {worker}", lambda: machines.statuses(folder)["kubelet"]["starts"] > starts)
        localkube("start", worker)  # which waits until its kubelet answers
        return worker

    @staticmethod
    def _wait(what: str, probe: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _HEALED_SECONDS
        while True:
            try:
                if probe():
                    return
            except (CommandError, NoAnswerError):
                pass
            if time.monotonic() > deadline:
                raise NotHealedError(f"not within {_HEALED_SECONDS:.0f} s: {what}")
            time.sleep(1)


def localkube(action: str, node: str) -> None:
    """Switch a node off or on, or cut or plug its cable."""
    capture([sys.executable, "-m", "localkube", "node", action, node], timeout=200)


def kubelet_of(init: int | None) -> int:
    """Return the kubelet's process id, given that of its machine's init. Raises NotHealedError."""
    children = Path(f"/proc/{init}/task/{init}/children")
    for pid in children.read_text().split() if init is not None else ():
        if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].endswith(b"/kubelet"):
            return int(pid)
    raise NotHealedError("the machine is off, or its kubelet")
