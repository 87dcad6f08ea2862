"""One topic of the service: receive, handle, commit, until stopped.

The next messages are received while the last ones are committed, because a bus may take a while to answer.
Commits stay in order, one after the other.

Unavailable services (the bus, the store, a catalog) are awaited without a limit, and reported once. A handler
may be called again with the same messages, and must not change anything twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from podium.errors import PodiumError
from podium.nodes.sanitising import safe_code
from podium.operations.registration.view import ServeView
from podium.ports.events_in import EventSource, Incoming

MAX_BATCH: Final = 500
FIRST_PAUSE: Final = 0.2
MAX_PAUSE: Final = 10.0

Handle = Callable[[Sequence[Incoming]], Awaitable[None]]


class Patience:
    """Growing delays while a service is unavailable; the start and the end are each reported once."""

    def __init__(self, subject: str, stopping: asyncio.Event, view: ServeView) -> None:
        self._subject = subject
        self._stopping = stopping
        self._view = view
        self._failures = 0

    async def after(self, error: Exception) -> None:
        if not self._failures:
            self._view.trouble(self._subject, reason_of(error))
        pause = min(MAX_PAUSE, FIRST_PAUSE * 2 ** min(self._failures, 10))
        self._failures += 1
        await wait_for_stop(self._stopping, pause)

    def over(self) -> None:
        if self._failures:
            self._failures = 0
            self._view.back(self._subject)


def reason_of(error: Exception) -> str:
    """A code, never a text, because services quote what they were sent."""
    return safe_code(error) if isinstance(error, PodiumError) else type(error).__name__


async def wait_for_stop(stopping: asyncio.Event, seconds: float) -> None:
    """Wait until it is stopped, or for this long."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stopping.wait(), seconds)


class TopicConsumer:
    """`room`: how many messages may be taken now; waits until at least one may. `done`: called with how many
    were taken.
    """

    def __init__(
        self,
        source: EventSource,
        handle: Handle,
        stopping: asyncio.Event,
        view: ServeView,
        *,
        topic: str,
        room: Callable[[], Awaitable[int]] | None = None,
        done: Callable[[int], None] = lambda _count: None,
    ) -> None:
        self._source = source
        self._handle = handle
        self._stopping = stopping
        self._room = room
        self._done = done
        self._patience = Patience(topic, stopping, view)
        self._committing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        while not self._stopping.is_set():
            taken = await self._room() if self._room is not None else MAX_BATCH
            try:
                if taken and not self._stopping.is_set():
                    await self._take(taken)
            finally:
                self._done(taken)
        await self._committed()

    async def _take(self, limit: int) -> None:
        try:
            messages = await self._source.receive(limit)
        except Exception as error:
            await self._patience.after(error)
            return
        if messages and await self._handled(messages):
            await self._committed()
            self._committing = asyncio.create_task(self._commit(messages))

    async def _committed(self) -> None:
        """Commit what was handled before."""
        if self._committing is not None:
            await self._committing
            self._committing = None

    async def _handled(self, messages: Sequence[Incoming]) -> bool:
        """False if it was stopped before: then they are delivered again."""
        while not self._stopping.is_set():
            try:
                await self._handle(messages)
            except Exception as error:
                await self._patience.after(error)
            else:
                self._patience.over()
                return True
        return False

    async def _commit(self, messages: Sequence[Incoming]) -> None:
        try:
            await self._source.commit(messages)
        except (PodiumError, OSError) as error:
            # They are delivered again, and find their effects.
            await self._patience.after(error)
