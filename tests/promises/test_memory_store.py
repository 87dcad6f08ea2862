"""The store in memory keeps the promises of every store."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.store_promises import StorePromises


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


class TestMemoryStore(StorePromises):
    @pytest.fixture
    def world(self) -> Iterator[MemoryWorld]:
        loop = asyncio.new_event_loop()
        yield MemoryWorld(loop)
        loop.close()
