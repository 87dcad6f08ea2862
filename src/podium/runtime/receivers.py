"""Messages to receivers on the web. A user who configures an address makes this process call it, from inside
its network; so the rules for hosts and addresses are those of plans (`podium.plan.locations`), for every
connection.

The host is resolved once, each address is checked, and the connection uses exactly that address. A redirect
counts as a failure: only the receiver that the user has configured gets the message.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from podium.plan.locations import Location, PlanPlaces, PlanUriNotAllowed, check_address, locate_receiver
from podium.ports.receivers import ReceiverFailed, ReceiverRefused
from podium.runtime.tasks.http_client import FAILURES, NO_ADDRESS, Request, Resolve, new_transport
from podium.text import reason_of, shortened

_SECONDS: Final = 10.0
# Statuses that refer to the message itself: bad request, too large, cannot be processed.
_ABOUT_CONTENT: Final = (400, 413, 422)


class WebReceivers:
    """`allow_loopback`: addresses of this machine are allowed, for a laptop and for tests."""

    def __init__(
        self,
        *,
        allow_loopback: bool = False,
        seconds: float = _SECONDS,
        resolve: Resolve | None = None,
        backend: Any = None,
    ) -> None:
        self._places = PlanPlaces(allow_loopback=allow_loopback)
        self._seconds = seconds
        self._resolve = resolve
        self._backend = backend

    def check(self, url: str) -> None:
        self._located(url)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        location = self._located(url)
        try:
            async with asyncio.timeout(self._seconds):
                status = await self._status(location, headers, body)
        except PlanUriNotAllowed as refused:
            raise _refused(url, refused) from refused
        except TimeoutError as error:
            raise ReceiverFailed(
                f"{_shown(url)} has not answered within {self._seconds:.0f} seconds"
            ) from error
        except (*FAILURES, *NO_ADDRESS, OSError) as error:
            raise ReceiverFailed(f"{_shown(url)} does not answer: {reason_of(error)}") from error
        if not 200 <= status < 300:
            raise ReceiverFailed(f"{_shown(url)} answered {status}", is_content=status in _ABOUT_CONTENT)

    async def _status(self, location: Location, headers: Mapping[str, str], body: bytes) -> int:
        def check(_host: str, address: str) -> None:
            check_address(location, address, self._places)

        request = Request("POST", location.uri, headers=dict(headers), content=body)
        async with new_transport(check, self._resolve, self._backend) as transport:
            answer = await transport.handle_async_request(request)
            # The body of the answer is not read.
            await answer.aclose()
            return answer.status_code

    def _located(self, url: str) -> Location:
        try:
            return locate_receiver(url, allow_loopback=self._places.allow_loopback)
        except PlanUriNotAllowed as refused:
            raise _refused(url, refused) from refused


def _refused(url: str, refused: PlanUriNotAllowed) -> ReceiverRefused:
    return ReceiverRefused(f"nothing is sent to {_shown(url)}: {refused.reason}")


def _shown(url: str) -> str:
    """Omits the query, which may contain a key."""
    return shortened(ascii(url.partition("?")[0]), 200)
