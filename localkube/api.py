"""The few calls to the API server that the tool itself makes."""

import http.client
import json
import ssl
from pathlib import Path
from typing import Any

from localkube import plan
from localkube.errors import LocalkubeError
from localkube.plan import Instance

_TIMEOUT = 5
_JSON = "application/json"
_OK = range(200, 300)
_NOT_FOUND, _CONFLICT = 404, 409
KUBELET_PORT = 10250


class Api:
    """A client with the administrator's certificate."""

    def __init__(self, instance: Instance, pki: Path) -> None:
        self._server = (instance.api_address, plan.API_PORT)
        self._context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._context.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def ready(self) -> bool:
        """Tell whether the API server serves."""
        return self._answers(*self._server, "/readyz")

    def kubelet_ready(self, address: str) -> bool:
        """Ask a kubelet itself: its Node object may still show what an earlier kubelet wrote."""
        return self._answers(address, KUBELET_PORT, "/healthz")

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Return all Node objects by name."""
        return {item["metadata"]["name"]: item for item in self._call("GET", "/api/v1/nodes")["items"]}

    def set_pod_cidr(self, node: str, cidr: str) -> None:
        """Write down which addresses the pods of a node have."""
        patch = {"spec": {"podCIDR": cidr, "podCIDRs": [cidr]}}
        self._call("PATCH", f"/api/v1/nodes/{node}", patch, "application/merge-patch+json")

    def create(self, path: str, value: dict[str, Any]) -> None:
        """Create an object, unless it is there."""
        self._call("POST", path, value, allowed=(_CONFLICT,))

    def _answers(self, host: str, port: int, path: str) -> bool:
        try:
            status, _ = self._request((host, port), "GET", path)
        except (OSError, http.client.HTTPException):
            return False
        return status in _OK

    def _call(
        self,
        method: str,
        path: str,
        value: dict[str, Any] | None = None,
        kind: str = _JSON,
        allowed: tuple[int, ...] = (),
    ) -> dict[str, Any]:
        body = None if value is None else json.dumps(value)
        try:
            status, answer = self._request(self._server, method, path, body, kind)
        except (OSError, http.client.HTTPException) as error:
            raise LocalkubeError(f"the API server does not answer {method} {path}: {error}") from error
        if status not in _OK and status not in allowed:
            raise LocalkubeError(f"{method} {path} was answered with {status}: {answer[:500].decode()}")
        parsed: dict[str, Any] = json.loads(answer)
        return parsed

    def _request(
        self, address: tuple[str, int], method: str, path: str, body: str | None = None, kind: str = _JSON
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection(*address, context=self._context, timeout=_TIMEOUT)
        try:
            connection.request(method, path, body, {"Content-Type": kind})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()
