"""Runs in the state of their logs, for a worker that executes attempts of runs that others decide about.

Each is folded once per process and kept up to date while attempts of it are running here.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from podium.engines.opening import require_provider
from podium.engines.parts import LocalParts
from podium.errors import StoreUnavailable
from podium.log.engines import CONDUCTOR
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.machine import Machine
from podium.machine.commands import CancelTask, RunTask
from podium.machine.owed import command
from podium.runtime.hosted_runs import HostedRuns
from podium.runtime.replaying import replayed
from podium.runtime.spilling import whole

_MAX_IDLE: Final = 100
_PAGE: Final = 1000
# Delay before an unavailable store is tried again.
_AWAY_SECONDS: Final = 2.0


class FoldedRun:
    def __init__(self, parts: LocalParts, run_id: RunId, machine: Machine) -> None:
        self._parts = parts
        self._run_id = run_id
        self._machine = machine
        self._reading = asyncio.Lock()
        self._listeners: list[Callable[[], None]] = []
        self.users = 0
        self._following: asyncio.Task[None] | None = None

    def owed(self, path: str, attempt: int) -> RunTask | CancelTask | None:
        """What a worker has to do about an attempt that has started; None if its end is not awaited."""
        visit = self._machine.waits.get((path, attempt))
        if visit is None or not self._machine.has_started(path, attempt):
            return None
        found = command((path, attempt), visit)
        return found if isinstance(found, RunTask | CancelTask) else None

    async def read_on(self) -> None:
        """Read to the end of the log."""
        async with self._reading:
            while records := await self._parts.store.read(
                self._run_id, after=self._machine.last_seq, limit=_PAGE
            ):
                await self._fold(records)
        for listener in list(self._listeners):
            listener()

    async def _fold(self, records: list[EventRecord]) -> None:
        values = self._parts.values(self._run_id)
        for record in records:
            self._machine.advance(await whole(record, values))

    @contextlib.contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """`listener` is called whenever the log has new records."""
        self._listeners.append(listener)
        if self._following is None:
            self._following = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            self._listeners.remove(listener)
            if not self._listeners and self._following is not None:
                self._following.cancel()
                self._following = None

    async def _follow(self) -> None:
        while True:
            # Without it a running step on this worker would not learn that it has to stop.
            with contextlib.suppress(StoreUnavailable):
                async for _ in self._parts.store.watch(self._run_id, after=self._machine.last_seq):
                    await self.read_on()
            await asyncio.sleep(_AWAY_SECONDS)


class FoldedRuns:
    """The runs of a worker; some idle ones are kept for their next attempt."""

    def __init__(self, parts: LocalParts, hosted: HostedRuns) -> None:
        self._parts = parts
        self._hosted = hosted
        self._runs: dict[RunId, FoldedRun] = {}
        self._opening: dict[RunId, asyncio.Lock] = {}

    @contextlib.asynccontextmanager
    async def use(self, run_id: RunId) -> AsyncIterator[FoldedRun]:
        """A run, read to the end of its log. Raises `NotItsExecution` for a run of another engine."""
        async with self._opening.setdefault(run_id, asyncio.Lock()):
            run = self._runs.get(run_id) or await self._open(run_id)
        run.users += 1
        try:
            await run.read_on()
            yield run
        finally:
            run.users -= 1
            self._forget_idle()

    async def _open(self, run_id: RunId) -> FoldedRun:
        require_provider(await self._parts.store.get_run(run_id), CONDUCTOR)
        async with self._hosted.use(run_id) as hosted:
            parts = self._parts
            machine = await replayed(parts.store, run_id, hosted.plan, parts.values(run_id))
        run = self._runs[run_id] = FoldedRun(parts, run_id, machine)
        return run

    def _forget_idle(self) -> None:
        idle = [run_id for run_id, run in self._runs.items() if not run.users]
        for run_id in idle[: max(0, len(idle) - _MAX_IDLE)]:
            del self._runs[run_id]
            self._opening.pop(run_id, None)
