"""How requests reach slurmrestd: httpx's, carried by aiohttp.

httpx's own transport copies a body four times in Python: at 10,000 nodes, whose answer has 16 MB, it takes as long as
reading that answer does. aiohttp, which the Kubernetes client uses as well, takes a fifth of that.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Final

import aiohttp
import httpx

_KEPT: Final = 20.0
"""Seconds that a connection waits for the next request: a restarted slurmrestd would be met with a dead one first."""
_BUFFER: Final = 256 * 1024


class AiohttpTransport(httpx.AsyncBaseTransport):
    """Plain HTTP, straight or through a proxy. Failures are httpx's."""

    def __init__(self, proxy: str = "") -> None:
        self._proxy = proxy or None
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the answer as soon as its head is there."""
        limits = request.extensions["timeout"]
        with _failures(request):
            response = await self._open().request(
                request.method,
                str(request.url),
                headers=request.headers.multi_items(),
                data=await request.aread() or None,
                proxy=self._proxy,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(sock_connect=limits["connect"], sock_read=limits["read"]),
            )
        return httpx.Response(response.status, headers=response.raw_headers, stream=_Body(request, response))

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        # Made with the first request: aiohttp wants to know the event loop.
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(keepalive_timeout=_KEPT, use_dns_cache=False),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                read_bufsize=_BUFFER,
            )
        return self._session


class _Body(httpx.AsyncByteStream):
    """An answer's body, in the pieces in which it comes."""

    def __init__(self, request: httpx.Request, response: aiohttp.ClientResponse) -> None:
        self._request = request
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _failures(self._request):
            async for piece in self._response.content.iter_any():
                yield piece

    async def aclose(self) -> None:
        # After the last piece this keeps the connection, before it this ends it.
        self._response.close()


@contextlib.contextmanager
def _failures(request: httpx.Request) -> Iterator[None]:
    """Turn aiohttp's failures into httpx's."""
    try:
        yield
    except TimeoutError as error:
        raise httpx.ReadTimeout(str(error), request=request) from error
    except aiohttp.ClientConnectorError as error:
        raise httpx.ConnectError(str(error), request=request) from error
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, aiohttp.ClientResponseError) as error:
        raise httpx.RemoteProtocolError(str(error), request=request) from error
    except aiohttp.ClientError as error:
        raise httpx.NetworkError(str(error), request=request) from error
