"""A thin client: raw JSON in and out, every call with a deadline, errors with the server's own words."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import GenericAlias
from typing import Any, Final, Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from kubernetes.aio import client as kube_client
from kubernetes.aio import config as kube_config

from slurmcluster_operator.model.names import MANAGER
from slurmcluster_operator.model.records import Records

Json = dict[str, Any]

_DEADLINE: Final = 30.0
"""Seconds that a call may take."""

_PATHS: Final[Mapping[str, str]] = {
    "admissionregistration.k8s.io/v1": "/apis/admissionregistration.k8s.io/v1",
    "v1": "/api/v1",
    "apps/v1": "/apis/apps/v1",
    "autoscaling.x-k8s.io/v1": "/apis/autoscaling.x-k8s.io/v1",
    "networking.k8s.io/v1": "/apis/networking.k8s.io/v1",
    "storage.k8s.io/v1": "/apis/storage.k8s.io/v1",
    "slurmcluster.dev/v1alpha1": "/apis/slurmcluster.dev/v1alpha1",
}

_PLURALS: Final[Mapping[str, str]] = {
    "ConfigMap": "configmaps",
    "DaemonSet": "daemonsets",
    "Deployment": "deployments",
    "Event": "events",
    "NetworkPolicy": "networkpolicies",
    "Node": "nodes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Pod": "pods",
    "PodTemplate": "podtemplates",
    "ProvisioningRequest": "provisioningrequests",
    "Secret": "secrets",
    "Service": "services",
    "SlurmCluster": "slurmclusters",
    "StatefulSet": "statefulsets",
    "StorageClass": "storageclasses",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


_TOO_MANY: Final = 429


_LIST_HEAD: Final = re.compile(
    rb'\s*\{(?:\s*"(?:kind|apiVersion)"\s*:\s*"[^"\\]*"\s*,|\s*"metadata"\s*:\s*\{[^{}]*\}\s*,)*\s*"items"\s*:\s*\[\s*'
)
"""What a collection begins with, before its first object."""


class _Collection(msgspec.Struct, frozen=True):
    """A collection, its objects not read yet."""

    metadata: Json
    items: tuple[msgspec.Raw, ...] | None = ()


class _Event(msgspec.Struct, frozen=True):
    """One event of a watch."""

    type: str
    object: msgspec.Raw


class ApiError(Exception):
    """The API server refused or failed. ``status`` is the HTTP status, ``str()`` the server's message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NotFoundError(ApiError):
    """There is no such object."""


class ConflictError(ApiError):
    """The object exists already, has changed meanwhile, or is another one of the same name."""


class TooManyError(ApiError):
    """The API server asks to come back later; for an eviction: a PodDisruptionBudget does not allow it now."""


def path_of(api_version: str, kind: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the URL path of a collection, an object or a subresource."""
    parts = [_PATHS[api_version]]
    if namespace:
        parts.append(f"namespaces/{namespace}")
    parts += [part for part in (_PLURALS[kind], name, subresource) if part]
    return "/".join(parts)


class Listing:
    """A collection that is read object by object while it comes: iterate over it, once.

    As a whole it would need more memory than all that is kept of it. It is asked for at once all the same: in pages the
    API server needs twice as long.
    """

    def __init__(self, send: Callable[[], Awaitable[Any]], shape: Any) -> None:
        self._send = send
        self._shape = shape
        self.version = ""
        """Its resourceVersion, once it has been read to the end."""

    async def __aiter__(self) -> AsyncIterator[Json]:
        text = Records(_LIST_HEAD, _decoder(GenericAlias(list, (self._shape,))))
        try:
            async with await self._send() as response:
                if response.status != 200:  # noqa: PLR2004
                    raise _error(response.status, await response.read())
                async for chunk in response.content.iter_any():
                    for item in text.feed(chunk):
                        yield item
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _unreachable(error) from error
        rest = _decoder(_Collection).decode(text.rest())
        for raw in rest.items or ():
            yield _decoder(self._shape).decode(raw)
        self.version = rest.metadata.get("resourceVersion", "")


class Kube:
    """The API server. Close it, or use it as an async context manager."""

    def __init__(self, api: Any) -> None:
        self._api = api

    @classmethod
    async def connect(cls) -> Self:
        """Connect from inside a pod, or with ``KUBECONFIG`` outside; ``ValueError`` if neither says where."""
        configuration = kube_client.Configuration()
        if "KUBERNETES_SERVICE_HOST" in os.environ:
            kube_config.load_incluster_config(client_configuration=configuration)
        else:
            # By name: the library reads the variable only when it is imported.
            file = os.environ.get("KUBECONFIG")
            try:
                await kube_config.load_kube_config(config_file=file, client_configuration=configuration)
            except kube_config.ConfigException as error:
                where = f"KUBECONFIG={file}" if file else "KUBECONFIG is not set"
                raise ValueError(
                    f"no API server is known, neither as a pod nor otherwise ({where}): {error}"
                ) from error
        # The loop itself tries again; retries below it would only hide how long things take.
        configuration.retries = None
        return cls(kube_client.ApiClient(configuration))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._api.close()

    async def get(self, api_version: str, kind: str, namespace: str, name: str) -> Json:
        """Read one object."""
        return await self._json("GET", path_of(api_version, kind, namespace, name))

    async def serves(self, api_version: str) -> bool:
        """Tell whether the API server knows an API group and version."""
        try:
            await self._json("GET", _PATHS[api_version])
        except NotFoundError:
            return False
        return True

    def listing(self, path: str, query: Mapping[str, str], shape: Any = Json) -> Listing:
        """Read a collection, however large. ``shape`` is a TypedDict: only the fields that it names are made."""
        send = functools.partial(self._send, "GET", path, query, None, "application/json", _DEADLINE)
        return Listing(send, shape)

    async def list(self, path: str, query: Mapping[str, str]) -> list[Json]:
        """Read a small collection as it is at this moment."""
        found: Json = msgspec.json.decode(await self._bytes("GET", path, query=query))
        return list(found["items"])

    async def evict(self, eviction: Json) -> None:
        """Ask that a pod leaves. ``TooManyError`` when a PodDisruptionBudget does not allow it now."""
        metadata = eviction["metadata"]
        path = path_of("v1", "Pod", metadata["namespace"], metadata["name"], "eviction")
        await self._json("POST", path, body=eviction)

    async def create(self, manifest: Json, *, dry_run: bool = False) -> Json:
        """Create an object, or only see whether that would be let in; ``ConflictError`` if one of that name exists."""
        query = {"dryRun": "All"} if dry_run else None
        return await self._json("POST", self._path(manifest, collection=True), body=manifest, query=query)

    async def apply(self, manifest: Json) -> Json:
        """Apply the full intent for an object (server-side apply, forced: what we state is ours)."""
        query = {"fieldManager": MANAGER, "force": "true"}
        return await self._json(
            "PATCH", self._path(manifest), body=manifest, query=query, content="application/apply-patch+yaml"
        )

    async def merge(
        self, api_version: str, kind: str, namespace: str, name: str, patch: Json, *, subresource: str = ""
    ) -> Json:
        """Merge a few fields into an object."""
        path = path_of(api_version, kind, namespace, name, subresource)
        return await self._json("PATCH", path, body=patch, content="application/merge-patch+json")

    async def delete(
        self, api_version: str, kind: str, namespace: str, name: str, *, uid: str, grace: int | None = None
    ) -> None:
        """Delete exactly the object with this uid."""
        body: Json = {"preconditions": {"uid": uid}}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        await self._json("DELETE", path_of(api_version, kind, namespace, name), body=body)

    async def watch(self, path: str, query: Mapping[str, str], shape: Any = Json) -> AsyncIterator[Json]:
        """Yield watch events until the server ends the watch. ``shape`` is that of the objects."""
        seconds = int(query["timeoutSeconds"])
        response = await self._send(
            "GET", path, {**query, "watch": "true"}, None, "application/json", seconds + _DEADLINE
        )
        async with response:
            if response.status != 200:  # noqa: PLR2004
                raise _error(response.status, await response.read())
            async for line in response.content:
                event = _decoder(_Event).decode(line)
                # A bookmark is an empty object of its kind, with null where others have lists.
                read = _decoder(Json if event.type in {"ERROR", "BOOKMARK"} else shape)
                yield {"type": event.type, "object": read.decode(event.object)}

    async def _json(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        query: Mapping[str, str] | None = None,
        content: str = "application/json",
    ) -> Json:
        result: Json = msgspec.json.decode(await self._bytes(method, path, body=body, query=query, content=content))
        return result

    async def _bytes(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        query: Mapping[str, str] | None = None,
        content: str = "application/json",
    ) -> bytes:
        response = await self._send(method, path, query or {}, body, content, _DEADLINE)
        async with response:
            data = await response.read()
        if response.status >= 400:  # noqa: PLR2004
            raise _error(response.status, data)
        return bytes(data)

    async def _send(
        self, method: str, path: str, query: Mapping[str, str], body: Json | None, content: str, deadline: float
    ) -> Any:
        headers = {"Accept": "application/json", "Content-Type": content, "User-Agent": MANAGER}
        await self._api.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        url = self._api.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        try:
            sent = await self._api.rest_client.request(
                method, url, headers=headers, body=body, _request_timeout=deadline
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _unreachable(error) from error
        return sent.response

    @staticmethod
    def _path(manifest: Json, *, collection: bool = False) -> str:
        metadata = manifest["metadata"]
        name = "" if collection else metadata["name"]
        return path_of(manifest["apiVersion"], manifest["kind"], metadata.get("namespace", ""), name)


@functools.cache
def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape)


def _unreachable(error: Exception) -> ApiError:
    return ApiError(0, f"the API server cannot be reached: {error or type(error).__name__}")


def _error(status: int, data: bytes) -> ApiError:
    try:
        answer = json.loads(data)
        message = answer.get("message", "")
        if status == _TOO_MANY:
            # Which PodDisruptionBudget it is stands in the details alone.
            causes = (answer.get("details") or {}).get("causes") or ()
            message = " ".join([message, *(cause.get("message", "") for cause in causes)])
    except ValueError:
        message = data.decode(errors="replace")[:200]
    kinds = {404: NotFoundError, 409: ConflictError, _TOO_MANY: TooManyError}
    return kinds.get(status, ApiError)(status, message or f"HTTP {status}")
