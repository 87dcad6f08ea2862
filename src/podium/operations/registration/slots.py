"""Limits how many messages may become runs: never more than there are free slots, whichever topic they come
from.
"""

import asyncio
from typing import Final

from podium.operations.registration.consuming import wait_for_stop
from podium.operations.registration.runs import Runs

_LOOK_SECONDS: Final = 0.02
# Prevents one topic from taking all slots.
_MAX_TAKEN: Final = 100


class Slots:
    def __init__(self, runs: Runs, stopping: asyncio.Event) -> None:
        self._runs = runs
        self._stopping = stopping
        # Held by consumers that wait for messages or create their runs.
        self._reserved = 0
        # First come, first served: with few slots, topics without messages would take them again and again.
        self._turns = asyncio.Lock()

    async def reserve(self) -> int:
        """Waits for the first; 0 if it is stopped."""
        async with self._turns:
            return await self._reserve()

    async def _reserve(self) -> int:
        while (free := self._runs.free - self._reserved) <= 0:
            await wait_for_stop(self._stopping, _LOOK_SECONDS)
            if self._stopping.is_set():
                return 0
        taken = min(_MAX_TAKEN, (free + 1) // 2)
        self._reserved += taken
        return taken

    def release(self, count: int) -> None:
        self._reserved -= count
