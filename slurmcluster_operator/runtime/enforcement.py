"""Whether the API server refuses what would break the rules of ownership.

That the policies are there does not prove it: an API server may have stopped reading their parameters
(kubernetes/kubernetes#130887). So a pod that names a made-up node is shown to it, which no policy knew a moment before.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from typing import Final

from slurmcluster_operator.kube.client import ApiError, Kube, NotFoundError
from slurmcluster_operator.manifests import owner

EVERY: Final = 60.0
"""Seconds between two looks: an administrator may switch it on or off at any time."""

PATIENCE: Final = 5.0
"""Seconds in which the API server must have learned of the made-up node."""
_PAUSE: Final = 0.2

_PROBE: Final = "admission-probe"
_API: Final = "admissionregistration.k8s.io/v1"
_KIND: Final = "ValidatingAdmissionPolicyBinding"

_log = logging.getLogger(__name__)


class Enforcement:
    """Looks now and then whether the admission policies of the operator's chart are there and refuse."""

    def __init__(self, kube: Kube, bindings: tuple[str, ...], namespace: str, outside: str) -> None:
        self._kube = kube
        self._bindings = bindings
        self._namespace = namespace
        self._outside = outside
        self.because = "nobody has looked yet"
        """Why it is off; empty while it is on."""
        self.known = asyncio.Event()
        """Set once it has been looked at."""

    @property
    def on(self) -> bool:
        """Whether every policy refuses."""
        return not self.because

    async def run(self) -> None:
        """Look for ever."""
        while True:
            because = await self.look()
            if because != self.because:
                _log.info("admission: %s", because or "the policies are enforced")
            self.because = because
            self.known.set()
            await asyncio.sleep(EVERY)

    async def look(self) -> str:
        """Say why enforcement is off; empty if it is on. What cannot be found out counts as off."""
        if not self._bindings:
            return (
                "admission policies are switched off in the operator's chart (fleet.enforcement is Off), or were left"
                " out because the API server had no ValidatingAdmissionPolicy (admissionregistration.k8s.io/v1, of"
                " Kubernetes 1.30 and newer): upgrade the chart once it has"
            )
        for name in self._bindings:
            try:
                found = await self._kube.get(_API, _KIND, "", name)
            except NotFoundError:
                return (
                    f"admission policy {name} is not there: the API server is older than Kubernetes 1.30, or somebody"
                    " has removed it; upgrade the operator's chart"
                )
            except (ApiError, OSError, TimeoutError) as error:
                return f"admission policy {name} cannot be read: {error}"
            if "Deny" not in found["spec"].get("validationActions", ()):
                return f"admission policy {name} only warns (fleet.enforcement is Audit in the operator's chart)"
        return await self._probe()

    async def _probe(self) -> str:
        """Show the API server a pod on a node that an index names since now; it must refuse it soon."""
        node = f"{_PROBE}-{secrets.token_hex(4)}"
        try:
            await self._kube.apply(owner.probe_index(_PROBE, self._namespace, node))
            deadline = time.monotonic() + PATIENCE
            while time.monotonic() < deadline:
                if await self._refused(node):
                    return ""
                await asyncio.sleep(_PAUSE)
        except (ApiError, OSError, TimeoutError) as error:
            return f"it cannot be found out whether admission policies are enforced: {error or type(error).__name__}"
        return (
            "the admission policies are there, and yet the API server lets in a pod on an owned node; it may have to be"
            " restarted (kubernetes/kubernetes#130887)"
        )

    async def _refused(self, node: str) -> bool:
        """Tell whether a pod on a node is refused because the node has an owner. Nothing is made."""
        try:
            await self._kube.create(owner.probe_pod(_PROBE, self._outside, node), dry_run=True)
        except ApiError as error:
            if node in str(error):
                return True
            raise
        return False
