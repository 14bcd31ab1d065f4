"""How localkube's own tests start it, look at what it leaves on the machine, and speak to pods."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localkube import cgroups, machines
from localkube.layout import State
from localkube.plan import Instance
from tests.e2e.support import Kubectl, eventually

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "docker.io/localkube/probe:1"
PORT = 8080


@dataclass(frozen=True)
class Localkube:
    """The command line of one instance, with a cache of its own."""

    instance: Instance
    cache: Path

    @property
    def state(self) -> State:
        """Where its files lie."""
        return State(Path(f"/var/lib/{self.instance.name}"), self.instance)

    @property
    def kubectl(self) -> Kubectl:
        """kubectl on it."""
        return Kubectl(str(self.state.kubeconfig))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command."""
        environment = {
            **{name: value for name, value in os.environ.items() if name != "LOCALKUBE_STATE"},
            "LOCALKUBE_INSTANCE": str(self.instance.number),
            "LOCALKUBE_CACHE": str(self.cache),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "localkube", *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def fails(self, *arguments: str) -> str:
        """Run a command that is to fail, and return what it said."""
        said, status = self._finish(arguments)
        assert status == 1, said
        return said

    def __call__(self, *arguments: str) -> str:
        """Run a command, and return what it said."""
        said, status = self._finish(arguments)
        assert status == 0, f"localkube {' '.join(arguments)}: exit {status}\n{said}"
        return said

    def lives(self) -> dict[str, int | None]:
        """Return the first process of every machine."""
        folders = sorted(self.state.machines.iterdir())
        return {folder.name: machines.pid_of(self.state.machine(folder.name)) for folder in folders}

    def _finish(self, arguments: tuple[str, ...]) -> tuple[str, int]:
        with self.start(*arguments) as process:
            said, _ = process.communicate(timeout=240)
        return said, process.returncode


@dataclass(frozen=True)
class Pod:
    """A running probe."""

    name: str
    node: str
    address: str

    def get(self, path: str = "", /, **query: str) -> Any:
        """Ask it from the host."""
        return get(f"{self.address}:{PORT}", path, **query)


def get(host: str, path: str = "", /, **query: str) -> Any:
    """Ask a probe; what it complains about comes as an ``AssertionError``."""
    address = f"http://{host}/{path}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{address}: {error.read().decode()}") from error
    except OSError as error:
        raise AssertionError(f"{address}: {error}") from error


def run_pod(kubectl: Kubectl, name: str, node: str, *claims: str) -> Pod:
    """Run a probe on a node, with a folder ``/NAME`` for every claim, and ``/scratch`` for the pod's life."""
    volumes: list[dict[str, Any]] = [{"name": "scratch", "emptyDir": {}}]
    volumes += [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    container = {
        "name": "probe",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "volumeMounts": [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes],
    }
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [container],
        "volumes": volumes,
        "terminationGracePeriodSeconds": 0,
        # A node that is away for a while keeps its pods.
        "tolerations": [{"operator": "Exists"}],
    }
    kubectl.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}
    )
    return running(kubectl, name)


def running(kubectl: Kubectl, name: str, *, other_than: str = "", within: float = 60) -> Pod:
    """Wait until a probe answers, in another life than this one, and return it."""

    def look() -> Pod:
        seen = kubectl.json("get", "pod", name)
        pod = Pod(name, seen["spec"].get("nodeName", ""), seen["status"].get("podIP", ""))
        assert pod.address, seen["status"]
        answer = pod.get()
        # Until its kubelet has written otherwise, a pod that starts anew shows an address that another may have by now.
        assert answer["host"] == name, answer
        assert answer["life"] != other_than
        return pod

    return eventually(f"pod {name} answers", look, within=within)


def claim(name: str, mode: str) -> dict[str, Any]:
    """Return a claim for a volume of the default class."""
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def service(name: str, kind: str = "ClusterIP") -> dict[str, Any]:
    """Return a Service on port 80 for the probe of the same name."""
    spec = {"type": kind, "selector": {"app": name}, "ports": [{"port": 80, "targetPort": PORT}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def processes(state: State, machine: str = "") -> dict[int, str]:
    """Return the processes of an instance, or of one machine: those told of its files, and those in its cgroups."""
    files, cgroup = (str(path / machine) for path in (state.machines, Path("/", state.instance.name)))
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            groups = (folder / "cgroup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if f"{files}/" in command or f"{cgroup}/" in groups:
            found[int(folder.name)] = command
    return found


def kill_all(state: State) -> None:
    """Kill every process of an instance, as a machine-wide catastrophe would."""
    for pid in processes(state):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    eventually("every process is gone", lambda: not processes(state), within=20)


def mounts_of(pid: int | str) -> list[str]:
    """Return the mount points that a process sees."""
    return [line.split()[4] for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]


def traces(state: State) -> dict[str, list[str]]:
    """Return everything on the machine that belongs to an instance, by kind."""
    instance = state.instance
    networks = tuple(cidr.removesuffix("0/24").removesuffix("0.0/16") for cidr in instance.cidrs)
    links = [line.split()[0] for line in _lines("ip", "-brief", "link")]
    found = {
        "links": [name for name in links if name.startswith((instance.bridge, instance.link("")))],
        "namespaces": [name for name in _lines("ip", "netns") if name.startswith(instance.namespace(""))],
        "routes": [line for line in _lines("ip", "route", "show", "table", "all") if _mentions(line, networks)],
        "rules": [line for line in _lines("iptables-save") if _mentions(line, networks)],
        "mounts": [
            point for point in mounts_of("self") if point.startswith((f"{state.root}/", f"/run/netns/{instance.name}-"))
        ],
        "cgroups": [str(top) for root in cgroups.hierarchies() if (top := root / instance.name).exists()],
        "processes": list(processes(state).values()),
        "files": [str(state.root)] if state.root.exists() else [],
    }
    return {kind: things for kind, things in found.items() if things}


def wait_for(point: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait until a running command has come to a certain point; it is soon past it."""
    deadline = time.monotonic() + 60
    while not point():
        assert process.poll() is None, "the command ended too early"
        assert time.monotonic() < deadline, "the command does not come to that point"
        time.sleep(0.005)


def _mentions(line: str, networks: tuple[str, ...]) -> bool:
    return any(word.startswith(networks) for word in line.split())


def _lines(*command: str) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
