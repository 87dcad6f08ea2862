"""Connections: a client that sends its request slowly, or not at all, does not keep its connection.

uvicorn closes connections that are idle between two requests, but waits for ever for the first request, and for the
rest of one that has begun.
"""

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# For a whole request, head and body: at the limit of 1 MiB that is 18 kB a second.
REQUEST_SECONDS: Final = 60.0


class ImpatientProtocol(H11Protocol):
    """Closes a connection whose next request has not arrived as a whole within `REQUEST_SECONDS`."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._set_deadline()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._set_deadline()
        else:
            self._remove_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._remove_deadline()
        super().connection_lost(exc)

    def _set_deadline(self) -> None:
        """Only once for a request: a client that sends a byte every second gains no time."""
        if self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _remove_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
