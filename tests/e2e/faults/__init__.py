"""A fault proxy between the operator and slurmrestd, for tests on any cluster.

with FaultProxy.started(kubectl) as proxy:      # the operator is restarted once, to use it
    with proxy.faults(fault("half", path="/nodes/")):
        …
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from tests.e2e.support import Kubectl

Json = dict[str, Any]

OPERATOR_NAMESPACE: Final = "slurmcluster-system"
DEPLOYMENT: Final = "deployment/slurmcluster-operator"
NAME: Final = "slurmrestd-faults"
VARIABLE: Final = "SLURMCLUSTER_REST_PROXY"
PORT: Final = 8080
CONTROL: Final = 8081

_SCRIPTS: Final = ("messages.py", "proxy.py", "wrongs.py")

_ASK: Final = f"""\
import sys, urllib.error, urllib.request
method, path, body = sys.argv[1:]
request = urllib.request.Request("http://127.0.0.1:{CONTROL}" + path, body.encode() or None, method=method)
try:
    sys.stdout.write(urllib.request.urlopen(request, timeout=10).read().decode())
except urllib.error.HTTPError as error:
    sys.exit(error.read().decode())
"""


def fault(kind: str, **limits: Any) -> Json:
    """Return a fault; see ``wrongs.py`` for the kinds and what limits them."""
    return {"kind": kind, **limits}


@dataclass(frozen=True)
class FaultProxy:
    """The proxy's pod, in the operator's namespace."""

    kubectl: Kubectl
    namespace: str = OPERATOR_NAMESPACE
    image: str = ""
    """Where there is Python; the operator's own image when not set."""

    @classmethod
    @contextmanager
    def started(cls, kubectl: Kubectl) -> Iterator[Self]:
        """Run the proxy with the operator behind it, for as long as the block lasts."""
        proxy = cls(kubectl)
        try:
            proxy.start()
            proxy.divert()
            yield proxy
        finally:
            proxy.undivert()
            proxy.stop()

    @property
    def url(self) -> str:
        """Where the operator reaches it."""
        return f"http://{NAME}.{self.namespace}.svc:{PORT}"

    def start(self) -> None:
        """Make the proxy and wait until it serves."""
        self.kubectl.apply(*manifests(self.namespace, self.image or self._operator_image()))
        self._ctl("wait", "--for=condition=Ready", f"pod/{NAME}", "--timeout=60s")

    def stop(self) -> None:
        """Remove it."""
        self._ctl(
            "delete", f"pod/{NAME}", f"service/{NAME}", f"configmap/{NAME}", "--ignore-not-found", "--grace-period=0"
        )

    def divert(self) -> None:
        """Let the operator use the proxy. It restarts for that."""
        self._operator_env(f"{VARIABLE}={self.url}")

    def undivert(self) -> None:
        """Let the operator speak to slurmrestd itself again."""
        self._operator_env(f"{VARIABLE}-")

    @contextmanager
    def faults(self, *faults: Json) -> Iterator[None]:
        """Let these be all faults while the block lasts."""
        self.set(*faults)
        try:
            yield
        finally:
            self.clear()

    def set(self, *faults: Json) -> None:
        """Let these be all faults. The first that applies to a request spoils it."""
        self._ask("PUT", "/faults", json.dumps(faults))

    def clear(self) -> None:
        """Let everything work again."""
        self._ask("DELETE", "/faults")

    def hits(self) -> list[int]:
        """Return how many requests each fault has spoiled so far."""
        return [one["hits"] for one in self._ask("GET", "/faults")]

    def log(self) -> list[Json]:
        """Return all requests since the log was cleared: at, method, path, fault, status, seconds, bytes, body."""
        found: list[Json] = self._ask("GET", "/log")
        return found

    def forget(self) -> None:
        """Clear the log."""
        self._ask("DELETE", "/log")

    def _operator_env(self, change: str) -> None:
        self._ctl("set", "env", DEPLOYMENT, change)
        self._ctl("rollout", "status", DEPLOYMENT, "--timeout=90s")

    def _operator_image(self) -> str:
        return self._ctl("get", DEPLOYMENT, "-o", "jsonpath={.spec.template.spec.containers[0].image}")

    def _ask(self, method: str, path: str, body: str = "") -> Any:
        # Not by standard input: now and then its end does not arrive, and kubectl exec waits for ever.
        return json.loads(self._ctl("exec", NAME, "--", "python3", "-c", _ASK, method, path, body))

    def _ctl(self, *arguments: str) -> str:
        return self.kubectl("-n", self.namespace, *arguments)


def manifests(namespace: str, image: str) -> list[Json]:
    """Return the proxy's objects."""
    # Where NetworkPolicies are enforced, slurmrestd is open to the operator's pods: this label makes it one of them.
    labels = {"app": NAME, "app.kubernetes.io/component": "operator"}
    metadata = {"name": NAME, "namespace": namespace, "labels": labels}
    container = {
        "name": "proxy",
        "image": image,
        "command": ["python3", "-u", "-m", f"{__name__}.proxy", f"--port={PORT}", f"--control={CONTROL}"],
        "workingDir": "/faults",
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "volumeMounts": [{"name": "script", "mountPath": "/faults"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    # As a package of the same name, so that imports work there as they do here.
    items = [{"key": name, "path": f"{__name__.replace('.', '/')}/{name}"} for name in _SCRIPTS]
    spec = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "script", "configMap": {"name": NAME, "items": items}}],
    }
    scripts = {name: (Path(__file__).parent / name).read_text() for name in _SCRIPTS}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": scripts},
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            # "refuse" takes the pod out of the Service's endpoints, but what the operator then meets must be a
            # refused connection and not a missing address.
            "spec": {"selector": {"app": NAME}, "ports": [{"port": PORT}], "publishNotReadyAddresses": True},
        },
    ]
