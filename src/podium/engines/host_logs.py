"""Copies the logs of all runs of a host to the bucket."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from podium.errors import PodiumError
from podium.runtime.log_shipping import SHIP_SECONDS, LogShipper

# Maximum number of runs whose logs are copied concurrently.
_MAX_CONCURRENT: Final = 16


class HostLogs:
    """`trouble`: called when the bucket stops answering, once per outage."""

    def __init__(self, trouble: Callable[[Exception], None]) -> None:
        self._trouble = trouble
        self._is_troubled = False

    async def keep_shipping(self, shippers: Callable[[], Iterable[LogShipper | None]]) -> None:
        while True:
            await asyncio.sleep(SHIP_SECONDS)
            room = asyncio.Semaphore(_MAX_CONCURRENT)
            await asyncio.gather(*(self._ship(one, room) for one in shippers() if one is not None))

    async def _ship(self, shipper: LogShipper, room: asyncio.Semaphore) -> None:
        async with room:
            try:
                await shipper.ship()
                self._is_troubled = False
            except (PodiumError, OSError) as error:
                if not self._is_troubled:
                    self._is_troubled = True
                    self._trouble(error)

    async def finish(self, shipper: LogShipper | None) -> None:
        """Copy the rest when a run leaves the host. What cannot be copied stays in its directory."""
        problem = await shipper.finish() if shipper is not None else None
        if problem is not None:
            self._trouble(problem)
