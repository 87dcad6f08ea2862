"""Polling a server for work: frequently while there is some, and with long polls while there is none.

During a long poll, the server checks its queue every 100 ms, which costs little on both sides. A worker that
was busy a moment ago polls repeatedly instead, because further work usually follows soon.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from podium.engines.conductor.answers import Task
from podium.errors import PodiumError

_LOG: Final = logging.getLogger(__name__)
# Time since the last task.
_BUSY_SECONDS: Final = 2.0
_PAUSE: Final = 0.02
_NO_ROOM_PAUSE: Final = 0.05
_WAIT_MS: Final = 500
_TROUBLE_SECONDS: Final = 1.0

# How many tasks, and how many milliseconds the server may wait for one.
Ask = Callable[[int, int], Awaitable[Sequence[Task]]]


class Poller:
    """`room`: how many tasks the worker could take now. `launch` takes one."""

    def __init__(self, ask: Ask, room: Callable[[], int], launch: Callable[[Task], None]) -> None:
        self._ask = ask
        self._room = room
        self._launch = launch
        self._is_stopping = False
        self._last = -_BUSY_SECONDS
        self._open_polls = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def stop(self) -> None:
        """`run` returns when the open polls have returned: cancelling one would lose its task."""
        self._is_stopping = True

    async def run(self) -> None:
        while not self._is_stopping:
            if not self._room():
                await asyncio.sleep(_NO_ROOM_PAUSE)
            elif not self._is_busy:
                await self._poll(1, _WAIT_MS)
            elif not await self.look():
                await asyncio.sleep(_PAUSE)
        await self._is_idle.wait()

    @property
    def _is_busy(self) -> bool:
        return asyncio.get_running_loop().time() - self._last < _BUSY_SECONDS

    async def look(self) -> bool:
        """Take what is available now; may be called during a long poll. Returns whether there was anything."""
        room = self._room()
        return not self._is_stopping and room > 0 and await self._poll(room, 0)

    async def _poll(self, count: int, wait_ms: int) -> bool:
        self._open_polls += 1
        self._is_idle.clear()
        try:
            return await self._take(count, wait_ms)
        finally:
            self._open_polls -= 1
            if not self._open_polls:
                self._is_idle.set()

    async def _take(self, count: int, wait_ms: int) -> bool:
        try:
            tasks = await self._ask(count, wait_ms)
        except PodiumError as error:
            _LOG.warning("no work could be asked for: %s", error)
            await asyncio.sleep(_TROUBLE_SECONDS)
            return False
        except Exception:
            # A worker that no longer polls would look alive and do nothing.
            _LOG.exception("no work could be asked for")
            await asyncio.sleep(_TROUBLE_SECONDS)
            return False
        for task in tasks:
            self._last = asyncio.get_running_loop().time()
            self._launch(task)
        return bool(tasks)
