"""The only module of tasks that uses `httpx2`: every connection of a request goes to an address that was
checked.

The host's name is resolved here, once, and the connection uses exactly the address that was checked: a name
server that answers differently the second time gains nothing. Proxies of the environment are not used; they
would resolve names by themselves. Redirects are followed by the caller, who checks each.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, TypeAlias

import httpcore2
import httpx2

from podium.runtime.tasks.addresses import check_address

# All errors of the communication with the server.
FAILURES = (httpx2.HTTPError, httpx2.StreamError, httpcore2.NetworkError, httpcore2.ProtocolError)
NO_ADDRESS = (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpcore2.UnsupportedProtocol)

Request = httpx2.Request
Response = httpx2.Response


# Raises an error of Podium if an address of a host may not be called.
CheckAddress: TypeAlias = Callable[[str, str], None]
# The addresses of a host at a port.
Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]


def new_client() -> httpx2.AsyncClient:
    # The attempt as a whole has a limit; individual operations have none.
    return httpx2.AsyncClient(
        transport=new_transport(), timeout=None, trust_env=False, follow_redirects=False
    )


def new_transport(
    check: CheckAddress = check_address,
    resolve: "Resolve | None" = None,
    backend: httpcore2.AsyncNetworkBackend | None = None,
) -> httpx2.AsyncBaseTransport:
    """Sends requests as they are, and evaluates no header of an answer. `backend`: connects to an address."""
    return _Transport(_CheckedConnections(check, resolve or _resolve, backend or httpcore2.AnyIOBackend()))


class _Transport(httpx2.AsyncBaseTransport):
    def __init__(self, connections: "_CheckedConnections") -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            max_connections=None,
            max_keepalive_connections=10,
            keepalive_expiry=5.0,
            network_backend=connections,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        answer = await self._pool.handle_async_request(
            httpcore2.Request(
                method=request.method,
                url=httpcore2.URL(
                    scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx2.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_Body(answer.stream),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


class _CheckedConnections(httpcore2.AsyncNetworkBackend):
    def __init__(self, check: CheckAddress, resolve: Resolve, backend: httpcore2.AsyncNetworkBackend) -> None:
        self._check = check
        self._resolve = resolve
        self._connections = backend

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._resolve(host, port)
        for address in addresses:
            self._check(host, address)
        failure: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                return await self._connections.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except httpcore2.ConnectError as error:
                failure = error
        raise failure


async def _resolve(host: str, port: int) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpcore2.ConnectError(f"the host {host!r} is not known: {error.strerror}") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
