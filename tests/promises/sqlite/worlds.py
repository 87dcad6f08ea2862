"""A SQLite store for tests: a file, a clock that is moved, and a second handle as another process would have it."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from podium.stores.sqlite import SqliteStore
from podium.testing.clock import VirtualClock


class SqliteWorld:
    def __init__(self, folder: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self.clock = VirtualClock()
        self.path = folder / "podium.db"
        self.store = self.open()
        self.other = self.open()

    def open(self, **options: Any) -> SqliteStore:
        opened: SqliteStore = self.run(SqliteStore.open(self.path, **{"clock": self.clock, **options}))
        return opened

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(coroutine)

    def pass_time(self, seconds: float) -> None:
        self.clock.move(seconds)

    def close(self) -> None:
        self.run(self.store.close())
        self.run(self.other.close())
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.close()
