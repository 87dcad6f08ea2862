"""How many messages may become runs: never more than there are free slots, whichever topic they come from."""

import asyncio
from typing import Final

from podium.operations.registration.consuming import wait_for_stop
from podium.operations.registration.runs import Runs

_LOOK_SECONDS: Final = 0.02
# So that one topic does not take all that others wait for.
_MAX_TAKEN: Final = 100


class Slots:
    def __init__(self, runs: Runs, stopping: asyncio.Event) -> None:
        self._runs = runs
        self._stopping = stopping
        # By consumers that wait for messages or create their runs.
        self._reserved = 0

    async def reserve(self) -> int:
        """Waits for the first; 0 if it is stopped."""
        while (free := self._runs.free - self._reserved) <= 0:
            await wait_for_stop(self._stopping, _LOOK_SECONDS)
            if self._stopping.is_set():
                return 0
        taken = min(_MAX_TAKEN, (free + 1) // 2)
        self._reserved += taken
        return taken

    def release(self, count: int) -> None:
        self._reserved -= count
