"""The world of the store in memory, beside those of `sqlite/worlds.py` and `postgres/world.py`."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock


class MemoryWorld:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._clock = VirtualClock()
        self.store = MemoryStore(self._clock)
        self.other = self.store

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(coroutine)

    def pass_time(self, seconds: float) -> None:
        self._clock.move(seconds)
