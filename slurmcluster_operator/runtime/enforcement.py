"""Whether the API server refuses what would break the rules of ownership."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from slurmcluster_operator.kube.client import ApiError, Kube, NotFoundError

EVERY: Final = 30.0
"""Seconds between two looks: an administrator may switch it on or off at any time."""

_API: Final = "admissionregistration.k8s.io/v1"
_KIND: Final = "ValidatingAdmissionPolicyBinding"

_log = logging.getLogger(__name__)


class Enforcement:
    """Looks now and then whether the admission policies of the operator's chart are there and refuse."""

    def __init__(self, kube: Kube, bindings: tuple[str, ...]) -> None:
        self._kube = kube
        self._bindings = bindings
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
            return "admission policies are switched off in the operator's chart (fleet.enforcement)"
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
        return ""
