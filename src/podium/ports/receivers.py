"""Delivery of messages to addresses that users configure: webhooks."""

from collections.abc import Mapping
from typing import Protocol

from podium.errors import PodiumError


class ReceiverRefused(PodiumError):
    """The address is not allowed, so nothing is sent to it."""

    code = "RECEIVER_REFUSED"


class ReceiverFailed(PodiumError):
    """The receiver has not accepted a message. `is_content`: because of its content; others may be accepted."""

    code = "RECEIVER_FAILED"

    def __init__(self, message: str, *, is_content: bool = False) -> None:
        super().__init__(message)
        self.is_content = is_content


class Receivers(Protocol):
    """Every connection uses an address that was checked; redirects are not followed."""

    def check(self, url: str) -> None:
        """Check what can be checked without a name server. Raises `ReceiverRefused`."""
        ...

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Returns when the receiver has accepted it. Raises `ReceiverRefused` and `ReceiverFailed`."""
        ...
