"""A SQLite store in virtual time: while one of its threads is at work, the loop waits for it and time stands still."""

import asyncio
import inspect
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from podium.stores.sqlite.store import SqliteStore
from podium.testing.virtual_time import VirtualTimeLoop, _NoWaiting

_START = datetime(2026, 1, 1, 12, tzinfo=UTC)


class _WaitsForThreads(_NoWaiting):
    """Moves the clock only when no call to the store is under way."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not self.calls:
            return super().select(timeout)
        # Not `super()`: that one moves the clock.
        return selectors.DefaultSelector.select(self, 0.05 if timeout is None or timeout > 0 else 0)


class _Loop(VirtualTimeLoop):
    def __init__(self) -> None:
        self._no_waiting = self.waiting = _WaitsForThreads()
        asyncio.SelectorEventLoop.__init__(self, self._no_waiting)


class _LoopClock:
    """As the writer's thread sees it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        return _START + timedelta(seconds=self.elapsed())

    def elapsed(self) -> float:
        return self._loop.time()


class CountedStore:
    """Every call is counted while it is under way."""

    def __init__(self, store: SqliteStore, waiting: _WaitsForThreads) -> None:
        self._store = store
        self._waiting = waiting

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._counted(found) if inspect.iscoroutinefunction(found) else found

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def counted(*arguments: Any, **options: Any) -> Any:
            self._waiting.calls += 1
            try:
                return await call(*arguments, **options)
            finally:
                self._waiting.calls -= 1

        return counted


def run_on_sqlite(folder: Path, work: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    """Run `work` with a new store in `folder`."""

    async def with_store() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, _Loop)
        loop.waiting.calls += 1
        store = await SqliteStore.open(folder / "podium.db", clock=_LoopClock(loop), synchronous="OFF")
        loop.waiting.calls -= 1
        try:
            await work(CountedStore(store, loop.waiting))
        finally:
            loop.waiting.calls += 1
            await store.close()

    with asyncio.Runner(loop_factory=_Loop) as runner:
        runner.run(with_store())
