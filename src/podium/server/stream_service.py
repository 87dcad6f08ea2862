"""All streams of one server process: their shared state, and when they end."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Final

from podium.access.grants import Grant
from podium.errors import PodiumError, StoreUnavailable
from podium.log.ids import RunId
from podium.operations.log_watching import LogHub
from podium.operations.run_watching import RunHub
from podium.server.streams import Stream, encode_events

logger = logging.getLogger(__name__)

# How soon a removed token ends its streams, and unread data is detected.
_CHECK_SECONDS: Final = 0.5
# Removed runs are rare: checked only once in this many checks.
_CHECK_RUNS_EVERY: Final = 4
_MAX_ENCODED: Final = 256


class StreamService:
    """`is_live`: whether the authorization of a stream is still valid."""

    def __init__(self, hub: RunHub, logs: LogHub, is_live: Callable[[Grant], Awaitable[bool]]) -> None:
        self.hub = hub
        self.logs = logs
        self._is_live = is_live
        self._streams: set[Stream] = set()
        self._task: asyncio.Task[None] | None = None
        # Cache of encoded events, because most clients are at the same position.
        self._encoded: dict[tuple[RunId, int, int], tuple[bytes, int]] = {}
        self._is_closed = False

    @property
    def count(self) -> int:
        return len(self._streams)

    async def add(self, stream: Stream) -> None:
        self._streams.add(stream)
        if self._is_closed:
            stream.end("SHUTDOWN")
            return
        if self._task is None:
            # For all clients: its log lines are not about the first one's request.
            self._task = asyncio.create_task(self._check_for_ever(), context=Context())
        await self.hub.add(stream.watcher)
        self.logs.add(stream.logs)

    async def remove(self, stream: Stream) -> None:
        self._streams.discard(stream)
        await self.hub.remove(stream.watcher)
        await self.logs.remove(stream.logs)

    async def close(self) -> None:
        """Ends all streams, for which a server that shuts down would otherwise wait."""
        self._is_closed = True
        for stream in tuple(self._streams):
            stream.end("SHUTDOWN")
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def encoded_events(self, run_id: RunId, after: int, most: int) -> tuple[bytes, int]:
        """The next events of a run as JSON, and the number of the last one."""
        records = await self.hub.events(run_id, after)
        if not records:
            return b"", after
        key = (run_id, after, records[-1].run_seq)
        found = self._encoded.get(key)
        if found is None:
            if len(self._encoded) >= _MAX_ENCODED:
                self._encoded.clear()
            found = self._encoded[key] = encode_events(records, most)
        return found

    async def _check_for_ever(self) -> None:
        rounds, is_away = 0, False
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            rounds += 1
            try:
                await self._check_grants()
                if rounds % _CHECK_RUNS_EVERY == 0:
                    await self.hub.check_removed()
                is_away = False
            except PodiumError as error:
                if not is_away:
                    logger.warning("streams cannot be checked: %s", error)
                    self._report(error)
                is_away = True
            for stream in tuple(self._streams):
                stream.check_unsent()

    def _report(self, error: PodiumError) -> None:
        """Once for each time that the store is away: a stream that waits for changes would not notice it."""
        if isinstance(error, StoreUnavailable):
            for stream in self._streams:
                stream.report(error.code)

    async def _check_grants(self) -> None:
        """Once for each grant, however many streams it has."""
        by_grant: dict[Grant, list[Stream]] = {}
        for stream in self._streams:
            if stream.grant is not None:
                by_grant.setdefault(stream.grant, []).append(stream)
        for grant, streams in by_grant.items():
            if not await self._is_live(grant):
                for stream in streams:
                    stream.end("TOKEN_INVALID")
