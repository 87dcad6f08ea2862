"""Many watchers of runs, one reader of the store: the feed is read once, and wakes the watchers of each run.

A watcher holds no events. It knows the last event that it has of each run, and reads the next ones when it
can use them; the newest events are cached here for all of them. So a waiting watcher costs next to nothing,
and a slow one does not delay others.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Final

from podium.errors import PodiumError, RunNotFound
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.ports.changes import RunChanges
from podium.ports.store import Store

logger = logging.getLogger(__name__)

# Changes within this time are passed to watchers together.
_MERGE_SECONDS: Final = 0.05
_RETRY_SECONDS: Final = 1.0
# The newest events of a watched run that are cached for its watchers.
_MAX_TAIL: Final = 500
_READ_EVENTS: Final = 200
# Approximate size of a run in a list.
_RUN_BYTES: Final = 500


class RunWatcher:
    """What one client watches, and what of it has changed since its last read."""

    def __init__(self, runs: dict[RunId, int], lists: Callable[[Run], bool] | None) -> None:
        # The last event that it has of each run.
        self.seen = runs
        self.lists = lists
        self.listed: dict[str, Run] = {}
        # Where it has more to read; initially, possibly everywhere.
        self.moved: set[RunId] = set(runs)
        self.woken = asyncio.Event()
        # Approximate size of what has arrived and was not sent.
        self.waiting_bytes = 0
        # Runs that were removed.
        self.gone: set[RunId] = set()

    def note(self, run: Run, new_bytes: int) -> None:
        if run.identity.run_id in self.seen:
            self.moved.add(run.identity.run_id)
            self.waiting_bytes += new_bytes
            self.woken.set()
        if self.lists is not None and self.lists(run):
            self.listed[run.identity.run_id] = run
            self.waiting_bytes += _RUN_BYTES
            self.woken.set()

    def take(self) -> tuple[list[Run], list[RunId]]:
        """The runs of its list that have changed, and those with more events."""
        self.woken.clear()
        runs, moved = list(self.listed.values()), sorted(self.moved)
        self.listed.clear()
        self.moved.clear()
        return runs, moved

    def sent(self, size: int) -> None:
        has_more = bool(self.listed or self.moved)
        self.waiting_bytes = max(0, self.waiting_bytes - size) if has_more else 0


class RunHub:
    """Reads the feed while there are watchers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watchers: set[RunWatcher] = set()
        self._by_run: dict[RunId, set[RunWatcher]] = {}
        self._listing: set[RunWatcher] = set()
        self._tails: dict[RunId, list[EventRecord]] = {}
        self._task: asyncio.Task[None] | None = None
        self._cursor: str | None = None
        self._has_started = asyncio.Event()

    @property
    def cursor(self) -> str:
        """All watchers have received everything up to this position."""
        assert self._cursor is not None
        return self._cursor

    async def add(self, watcher: RunWatcher) -> None:
        """When it returns, no later change is missed."""
        self._watchers.add(watcher)
        if watcher.lists is not None:
            self._listing.add(watcher)
        for run_id in watcher.seen:
            self._by_run.setdefault(run_id, set()).add(watcher)
        if self._task is None:
            self._has_started.clear()
            # For all clients: its log lines are not about the first one's request.
            self._task = asyncio.create_task(self._read_for_ever(), context=Context())
        await self._has_started.wait()

    async def remove(self, watcher: RunWatcher) -> None:
        self._watchers.discard(watcher)
        self._listing.discard(watcher)
        for run_id in watcher.seen:
            of_run = self._by_run.get(run_id, set())
            of_run.discard(watcher)
            if not of_run:
                self._by_run.pop(run_id, None)
                self._tails.pop(run_id, None)
        if not self._watchers:
            await self.close()

    async def close(self) -> None:
        # The next watcher starts at the current position and asks for what it missed.
        task, self._task, self._cursor = self._task, None, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def events(self, run_id: RunId, after: int) -> Sequence[EventRecord]:
        """The next events of a run: those of a watched run are read once for all. Raises `RunNotFound`."""
        tail = self._tails.get(run_id, [])
        if tail and tail[0].run_seq <= after + 1 and after <= tail[-1].run_seq:
            start = after + 1 - tail[0].run_seq
            if tail[0].run_seq + len(tail) - 1 == tail[-1].run_seq:
                return tail[start : start + _READ_EVENTS]
        return await self._store.read(run_id, after=after, limit=_READ_EVENTS)

    async def catch_up(self, watcher: RunWatcher, after: str, most: int = 20) -> bool:
        """Note what a watcher has missed since a cursor; False if that is too much, or unknown."""
        feed = self._store.changes(after=after)
        try:
            for number in range(most):
                try:
                    batch = await asyncio.wait_for(anext(feed), 0.05 if number else None)
                except TimeoutError:
                    return True
                if batch.is_reset:
                    return False
                for run in batch.runs:
                    watcher.note(run, 0)
                if not batch.runs:
                    return True
        finally:
            await feed.aclose()  # type: ignore[attr-defined]  # all stores have generators
        return False

    async def check_removed(self) -> None:
        """Wake the watchers of runs that no longer exist."""
        for run_id, watchers in list(self._by_run.items()):
            try:
                await self._store.get_run(run_id)
            except RunNotFound:
                for watcher in watchers:
                    watcher.gone.add(run_id)
                    watcher.woken.set()

    async def _read_for_ever(self) -> None:
        while True:
            try:
                async for batch in self._store.changes(after=self._cursor):
                    await self._give(batch)
                    self._has_started.set()
                    await asyncio.sleep(_MERGE_SECONDS)
            except PodiumError as error:
                logger.warning("streams wait for the store: %s", error)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _give(self, batch: RunChanges) -> None:
        sizes = {run.identity.run_id: await self._read_tail(run) for run in batch.runs}
        for run in batch.runs:
            run_id = run.identity.run_id
            for watcher in self._by_run.get(run_id, set()) | self._listing:
                watcher.note(run, sizes[run_id])
        self._cursor = batch.cursor

    async def _read_tail(self, run: Run) -> int:
        """How many bytes of payloads are new in a watched run."""
        run_id = run.identity.run_id
        if run_id not in self._by_run:
            return 0
        tail = self._tails.setdefault(run_id, [])
        after = tail[-1].run_seq if tail else max(0, run.head - _READ_EVENTS)
        try:
            new = await self._store.read(run_id, after=after, limit=_MAX_TAIL)
        except RunNotFound:
            return 0
        tail += new
        del tail[:-_MAX_TAIL]
        return sum(len(record.payload) for record in new)
