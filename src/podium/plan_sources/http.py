"""Plans on web servers: GET to fetch, PUT with `If-None-Match: *` to publish. No credentials are sent.

A host is resolved once for each connection, the address is checked, and the connection uses exactly that
address, with the host's own name in its TLS handshake. Every redirect is checked like the URI itself.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urljoin

from podium.plan.locations import (
    Location,
    PlanPlaces,
    PlanUriNotAllowed,
    check_address,
    check_redirect,
    locate,
)
from podium.plan_sources.decoding import ACCEPTED, decoded
from podium.ports.plan_source import PlanNotFound, PlanUnavailable
from podium.runtime.tasks.http_client import FAILURES, NO_ADDRESS, Request, Resolve, Response, new_transport
from podium.text import reason_of, shortened

_MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_OK: Final = 200
_EXISTS: Final = (409, 412)
_MISSING: Final = (404, 410)
# Too early, too many requests.
_LATER: Final = (408, 425, 429)


class HttpPlans:
    def __init__(self, max_bytes: int, resolve: Resolve | None = None, backend: Any = None) -> None:
        self._max_bytes = max_bytes
        self._resolve = resolve
        self._backend = backend

    async def fetch(self, location: Location, places: PlanPlaces) -> bytes:
        for _ in range(_MAX_REDIRECTS + 1):
            found = await self._get(location, places)
            if isinstance(found, bytes):
                return found
            after = locate(found, places, redirected=True)
            check_redirect(location, after)
            location = after
        raise PlanUriNotAllowed(location.uri, f"it is the end of more than {_MAX_REDIRECTS} redirects")

    async def write_new(self, location: Location, places: PlanPlaces, content: bytes) -> bool:
        """False if something exists there. Checked first, for servers that ignore `If-None-Match`."""
        if await self._is_there(location, places):
            return False
        headers = {"If-None-Match": "*", "Content-Type": "application/json"}
        request = Request("PUT", location.uri, content=content, headers=headers)
        async with self._answer(location, places, request) as answer:
            if answer.status_code in _EXISTS:
                return False
            if not 200 <= answer.status_code < 300:
                raise _refused("PUT", location, answer.status_code)
            return True

    async def _is_there(self, location: Location, places: PlanPlaces) -> bool:
        try:
            await self.fetch(location, places)
        except PlanNotFound:
            return False
        return True

    async def _get(self, location: Location, places: PlanPlaces) -> bytes | str:
        """The plan, or the URI of a redirect."""
        request = Request("GET", location.uri, headers={"Accept-Encoding": ACCEPTED})
        async with self._answer(location, places, request) as answer:
            return await self._read(location, answer)

    async def _read(self, location: Location, answer: Response) -> bytes | str:
        status = answer.status_code
        if status in _REDIRECTS and "location" in answer.headers:
            return urljoin(location.uri, answer.headers["location"])
        if status in _MISSING:
            raise PlanNotFound(location.uri.partition("?")[0])
        if status != _OK:
            raise _refused("GET", location, status)
        encoding = answer.headers.get("content-encoding", "")
        return await decoded(answer.aiter_raw(), encoding, self._max_bytes, _shown(location))

    @asynccontextmanager
    async def _answer(
        self, location: Location, places: PlanPlaces, request: Request
    ) -> AsyncIterator[Response]:
        def check(_host: str, address: str) -> None:
            check_address(location, address, places)

        # Without a client, which would resolve the target of a redirect before we can check it.
        try:
            async with new_transport(check, self._resolve, self._backend) as transport:
                answer = await transport.handle_async_request(request)
                try:
                    yield answer
                finally:
                    await answer.aclose()
        except (*FAILURES, *NO_ADDRESS, OSError) as error:
            raise _failed(location, error) from error


def _refused(method: str, location: Location, status: int) -> PlanUnavailable:
    retryable = status >= 500 or status in _LATER
    hint = "try again later" if retryable else "the server refuses it; ask its operator"
    return PlanUnavailable(f"{method} {_shown(location)} answered {status}; {hint}", retryable=retryable)


def _failed(location: Location, error: Exception) -> PlanUnavailable:
    return PlanUnavailable(f"{_shown(location)} does not answer: {reason_of(error)}; try again later")


def _shown(location: Location) -> str:
    """Omits the query, which may be a signature."""
    return repr(shortened(location.uri.partition("?")[0], 200))
