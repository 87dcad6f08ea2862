"""Notification of watchers about new events: one connection listens for all watchers of a store.

A notification only says that a run has something new; the watcher then reads. So if one is lost, watchers are
only delayed: they also check periodically, and whenever the connection had to be opened again.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import psycopg
from psycopg import sql

from podium.errors import StoreUnavailable
from podium.stores.postgres.connections import Connections

_RECONNECT_SECONDS: Final = 0.2


# Key of the watchers of all runs.
EVERY_RUN: Final = ""


class Listener:
    def __init__(self, connections: Connections, *, look_again_every: float) -> None:
        self._connections = connections
        self._pause = look_again_every
        self._watchers: dict[str, set[asyncio.Event]] = {}
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def watching(self, run_id: str) -> AsyncIterator[asyncio.Event]:
        """An event that is set whenever the run may have something new; the watcher clears it."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._listen())
        news = asyncio.Event()
        self._watchers.setdefault(run_id, set()).add(news)
        try:
            yield news
        finally:
            self._watchers[run_id].discard(news)
            if not self._watchers[run_id]:
                del self._watchers[run_id]

    async def wait(self, news: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pause):
                await news.wait()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        for news in self._all():
            news.set()

    async def _listen(self) -> None:
        while True:
            with suppress(StoreUnavailable, psycopg.Error):
                await self._listen_once()
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen_once(self) -> None:
        connection = await self._connections.connect()
        try:
            channel = sql.Identifier(self._connections.channel)
            await connection.execute(sql.SQL("LISTEN {}").format(channel))
            # Notifications from before we listened were missed.
            for news in self._all():
                news.set()
            async for notification in connection.notifies():
                for run_id in (EVERY_RUN, notification.payload):
                    for news in self._watchers.get(run_id, ()):
                        news.set()
        finally:
            connection.pgconn.finish()

    def _all(self) -> list[asyncio.Event]:
        return [news for watchers in self._watchers.values() for news in watchers]
