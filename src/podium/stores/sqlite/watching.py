"""Notifies watchers that there may be something to read.

Changes by this process are notified immediately. Changes by others are detected by SQLite's `data_version`,
which changes with every commit of another connection: it is checked often while there is activity, and ten
times a second otherwise. No read transaction stays open in between, so watchers never prevent checkpoints of
the write-ahead log.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final

_SOON_SECONDS: Final = 0.005
_IDLE_SECONDS: Final = 0.1
_SLOWING_DOWN: Final = 1.2


# Key of the watchers of all runs.
EVERY_RUN: Final = ""


class Watching:
    def __init__(self, data_version: Callable[[], int]) -> None:
        self._data_version = data_version
        self._watchers: dict[str, set[asyncio.Event]] = {}
        self._looking: asyncio.Task[None] | None = None
        self.closed = False

    @contextlib.contextmanager
    def on(self, run_id: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever the run may have changed. Its owner clears it before it reads."""
        changed = asyncio.Event()
        self._watchers.setdefault(run_id, set()).add(changed)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(self._data_version()))
        try:
            yield changed
        finally:
            of_run = self._watchers[run_id]
            of_run.discard(changed)
            if not of_run:
                del self._watchers[run_id]

    def notify(self, run_ids: Iterable[str]) -> None:
        if not self._watchers:
            return
        for run_id in (EVERY_RUN, *run_ids):
            for changed in self._watchers.get(run_id, ()):
                changed.set()

    async def close(self) -> None:
        """Wakes all watchers; their next read reports that the store is closed."""
        self.closed = True
        self._notify_all()
        if self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking

    async def _look(self, version: int) -> None:
        wait = _SOON_SECONDS
        while self._watchers:
            await asyncio.sleep(wait)
            try:
                seen = self._data_version()
            except Exception:
                # Any error of the file is reported by the watchers' next read.
                self._notify_all()
                wait = _IDLE_SECONDS
                continue
            if seen != version:
                version, wait = seen, _SOON_SECONDS
                self._notify_all()
            else:
                wait = min(wait * _SLOWING_DOWN, _IDLE_SECONDS)

    def _notify_all(self) -> None:
        self.notify(tuple(self._watchers))
