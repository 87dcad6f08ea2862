"""The store in memory keeps the promises of every store."""

import asyncio
from collections.abc import Iterator

import pytest

from podium.testing.store_promises import StorePromises
from tests.promises.worlds import MemoryWorld


class TestMemoryStore(StorePromises):
    @pytest.fixture
    def world(self) -> Iterator[MemoryWorld]:
        loop = asyncio.new_event_loop()
        yield MemoryWorld(loop)
        loop.close()
