"""How end-to-end tests talk to the cluster: kubectl, ssh, and words for what they wait for."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

T = TypeVar("T")

FLEET = "slurmcluster.dev/fleet"


def eventually(what: str, probe: Callable[[], T], *, within: float, every: float = 0.2) -> T:
    """Call ``probe`` until it returns something true, and return that; fail with its last words otherwise."""
    deadline = time.monotonic() + within
    last: object = None
    while True:
        try:
            last = probe()
            if last:
                return last
        except (AssertionError, subprocess.CalledProcessError) as error:
            last = getattr(error, "stderr", "") or error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:.0f} s: {what}; last seen: {last}")
        time.sleep(every)


@dataclass(frozen=True)
class Kubectl:
    """kubectl against one cluster."""

    kubeconfig: str

    def __call__(self, *arguments: str, text: str | None = None, check: bool = True) -> str:
        """Run kubectl and return what it printed. ``CalledProcessError`` carries what it complained about."""
        done = subprocess.run(
            ["kubectl", "--kubeconfig", self.kubeconfig, *arguments],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if check and done.returncode:
            raise subprocess.CalledProcessError(done.returncode, arguments, done.stdout, done.stderr)
        return done.stdout if not done.returncode or check else done.stdout + done.stderr

    def json(self, *arguments: str) -> Any:
        """Run kubectl with JSON output."""
        return json.loads(self(*arguments, "-o", "json"))

    def apply(self, *manifests: dict[str, Any]) -> None:
        """Apply objects."""
        self("apply", "-f", "-", text=yaml.safe_dump_all(manifests))


@dataclass(frozen=True)
class Person:
    """A user of a cluster, with a key of their own."""

    name: str
    uid: int
    groups: tuple[str, ...]
    key: Path

    @property
    def public(self) -> str:
        """The public key."""
        return self.key.with_suffix(".pub").read_text().strip()


@dataclass
class SlurmCluster:
    """One SlurmCluster under test."""

    kubectl: Kubectl
    namespace: str
    name: str
    spec: dict[str, Any]
    workers: tuple[str, ...]
    known_hosts: Path
    seconds_to_ready: float = field(default=0.0)

    def create(self) -> None:
        """Make the namespace, grant the workers and apply the resource."""
        self.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        for worker in self.workers:
            self.kubectl("label", "node", worker, f"{FLEET}={self.namespace}.{self.name}", "--overwrite")
        self.apply()

    def apply(self) -> None:
        """Apply the resource as ``spec`` says now."""
        metadata = {"name": self.name, "namespace": self.namespace}
        self.kubectl.apply(
            {"apiVersion": "slurmcluster.dev/v1alpha1", "kind": "SlurmCluster", "metadata": metadata, "spec": self.spec}
        )

    def wait_ready(self, seconds: int = 120) -> None:
        """Wait until Ready; on failure show what the cluster says of itself."""
        started = time.monotonic()
        try:
            self.ctl("wait", "--for=condition=Ready", f"slc/{self.name}", f"--timeout={seconds}s")
        except subprocess.CalledProcessError as error:
            pods = self.ctl("get", "pods", "-o", "wide")
            raise AssertionError(f"{error.stderr}\n{json.dumps(self.conditions(), indent=1)}\n{pods}") from error
        self.seconds_to_ready = time.monotonic() - started

    def ctl(self, *arguments: str, check: bool = True) -> str:
        """Run kubectl in the cluster's namespace."""
        return self.kubectl("-n", self.namespace, *arguments, check=check)

    def json(self, *arguments: str) -> Any:
        """Run kubectl in the cluster's namespace with JSON output."""
        return self.kubectl.json("-n", self.namespace, *arguments)

    def status(self) -> dict[str, Any]:
        """Return the resource's status."""
        found: dict[str, Any] = self.json("get", "slc", self.name).get("status", {})
        return found

    def conditions(self) -> dict[str, dict[str, str]]:
        """Return the conditions by type."""
        return {one["type"]: one for one in self.status().get("conditions", [])}

    def wait_condition(
        self, kind: str, status: str, *, reason: str = "", words: str = "", within: float = 30
    ) -> dict[str, str]:
        """Wait until a condition has a status (and reason, and words in its message), and return it."""

        def probe() -> dict[str, str]:
            one = self.conditions().get(kind, {})
            assert one.get("status") == status, one
            assert reason in {"", one["reason"]}, one
            assert words in one["message"], one
            return one

        return eventually(f"{kind}={status} {reason} {words}", probe, within=within)

    def pod(self, component: str) -> dict[str, Any]:
        """Return the (first) pod of a part."""
        selector = f"app.kubernetes.io/component={component},app.kubernetes.io/instance={self.name}"
        items = self.json("get", "pods", "-l", selector)["items"]
        found: dict[str, Any] = min(items, key=lambda one: one["metadata"]["name"])
        return found

    def kill(self, component: str, process: str, first: str = "true") -> None:
        """Kill a part's process inside its pod, as a crash would, right after another command there."""
        name = self.pod(component)["metadata"]["name"]
        # By the command line's first word: a slurmctld that took over is named "exe". mariadb's image has no pkill.
        script = """n=; for p in /proc/[0-9]*; do
            set -- $(tr '\\0' ' ' <$p/cmdline 2>/dev/null); one=${1##*/}
            [ "${one%:}" = PROCESS ] && kill -9 "${p##*/}" && n=1; done; [ -n "$n" ] && echo killed"""
        said = self.ctl("exec", name, "--", "sh", "-c", f"{first}; {script.replace('PROCESS', process)}", check=False)
        # The container may end, and our shell in it, before it can say so.
        assert "killed" in said or "exit code 137" in said, said

    def events(self) -> dict[str, str]:
        """Return the messages of all Events about the SlurmCluster, by name."""
        items = self.json("get", "events", "--field-selector", f"involvedObject.name={self.name}")["items"]
        return {item["metadata"]["name"]: item["message"] for item in items}

    def wait_event(self, words: str, before: dict[str, str], *, within: float = 15) -> str:
        """Wait for an Event that is new and begins with ``words``: it stays when the moment has passed."""

        def probe() -> str:
            new = {name: text for name, text in self.events().items() if name not in before}
            assert any(text.startswith(words) for text in new.values()), new
            return next(text for text in new.values() if text.startswith(words))

        return eventually(f"an Event: {words}", probe, within=within)

    def admin(self, command: str) -> str:
        """Run a Slurm command in slurmctld's pod, as the slurm user."""
        return self.ctl("exec", f"{self.name}-controller-0", "-c", "slurmctld", "--", "sh", "-c", command)

    def ssh(self, person: Person, command: str, *, check: bool = True, tty: bool = False) -> str:
        """Run a command on the login pod over ssh, through the Service's address."""
        host, port = self.status()["endpoints"]["login"].rsplit(":", 1)
        options = ["-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "StrictHostKeyChecking=accept-new"]
        options += ["-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "IdentitiesOnly=yes", "-i", str(person.key)]
        done = subprocess.run(
            ["ssh", *options, *(["-tt"] if tty else []), "-p", port, f"{person.name}@{host}", command],
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
            stdin=subprocess.DEVNULL,
        )
        if check and done.returncode:
            raise AssertionError(f"ssh {person.name}: {command}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout if check else done.stdout + done.stderr

    def sbatch(self, person: Person, command: str, options: str = "") -> str:
        """Submit a job and return its id."""
        return self.ssh(person, f"sbatch --parsable {options} --wrap {quoted(command)}").strip().split(";")[0]

    def job_state(self, job: str) -> str:
        """Return a job's state as slurmctld has it."""
        shown = self.admin(f"scontrol -o show job {job}")
        found = re.search(r"JobState=(\w+)", shown)
        return found[1] if found else ""

    def wait_job(self, job: str, state: str = "COMPLETED", *, within: float = 60) -> None:
        """Wait until a job is in a state."""
        eventually(f"job {job} is {state}", lambda: self._job_is(job, state), within=within)

    def _job_is(self, job: str, state: str) -> bool:
        seen = self.admin(f"scontrol -o show job {job}")
        found = re.search(r"JobState=(\w+)", seen)
        if found and found[1] != state and found[1] in {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}:
            raise RuntimeError(f"job {job} will never be {state}: {seen}")
        assert found, seen
        assert found[1] == state, seen
        return True

    def output(self, person: Person, job: str) -> str:
        """Return what a batch job printed."""
        return self.ssh(person, f"cat slurm-{job}.out")

    def run_job(self, person: Person, command: str, options: str = "") -> str:
        """Submit a job, wait for it to complete, and return what it printed."""
        job = self.sbatch(person, command, options)
        self.wait_job(job)
        return self.output(person, job)


def quoted(text: str) -> str:
    """Quote for the remote shell."""
    return "'" + text.replace("'", "'\\''") + "'"
