"""The runs that a worker serves: each is prepared for its first attempt here, and closed when it has been
idle.

Preparing means everything that tasks of the run need on this host: its directory, secrets, providers. It is
done once, however many attempts request it at the same time. A run is never closed while an attempt of it is
running, and is not prepared again before it has been closed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from podium.log.ids import RunId
from podium.plan.loading import plan_path, walk
from podium.plan.plan import Plan, Step
from podium.runtime.tasks.dispatch import RunTasks
from podium.runtime.world import Tasks

IDLE: Final = timedelta(seconds=60)
MAX_IDLE_RUNS: Final = 100


@dataclass(slots=True)
class HostedRun:
    """A run on this host."""

    run_id: RunId
    plan: Plan
    # Attempts started and stopped here; for a rerun, some of them ended in an earlier run.
    tasks: Tasks
    # The same without those: the processes of this host.
    run_tasks: RunTasks
    _steps: dict[str, Step] = field(default_factory=dict)

    def step(self, path: str) -> Step:
        if not self._steps:
            self._steps.update(walk(self.plan.workflow))
        return self._steps[plan_path(path)]


PrepareRun = Callable[[RunId], Awaitable[HostedRun]]


@dataclass(slots=True)
class _Entry:
    preparing: "asyncio.Future[HostedRun]"
    users: int = 0
    # Since when it has been unused, by the loop's clock.
    idle_since: float = 0.0


class HostedRuns:
    """`idle`: how long a run without attempts is kept; `max_idle`: how many of them."""

    def __init__(self, prepare: PrepareRun, *, idle: timedelta = IDLE, max_idle: int = MAX_IDLE_RUNS) -> None:
        # Called with every run that is prepared.
        self.on_open: Callable[[RunId], None] = lambda _run_id: None
        self._prepare = prepare
        self._idle = idle.total_seconds()
        self._max_idle = max_idle
        self._entries: dict[RunId, _Entry] = {}
        self._closing: dict[RunId, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def use(self, run_id: RunId) -> AsyncIterator[HostedRun]:
        """The prepared run; it is not closed while it is in use."""
        while (closing := self._closing.get(run_id)) is not None:
            await asyncio.wait([closing])
        entry = self._entries.get(run_id)
        if entry is None:
            entry = self._entries[run_id] = _Entry(asyncio.ensure_future(self._prepare(run_id)))
            self.on_open(run_id)
        entry.users += 1
        try:
            # A caller that stops waiting must not cancel it for the others.
            yield await asyncio.shield(entry.preparing)
        finally:
            entry.users -= 1
            if not entry.users:
                self._left(run_id, entry)

    def _left(self, run_id: RunId, entry: _Entry) -> None:
        if entry.preparing.done() and (entry.preparing.cancelled() or entry.preparing.exception()):
            # The next attempt tries again.
            del self._entries[run_id]
            return
        loop = asyncio.get_running_loop()
        entry.idle_since = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._idle, self._close_idle)
        idle = self._idle_runs()
        for oldest in idle[: max(0, len(idle) - self._max_idle)]:
            self._start_closing(oldest)

    def _idle_runs(self) -> list[RunId]:
        """The runs without attempts, longest idle first."""
        idle = [run_id for run_id, entry in self._entries.items() if not entry.users]
        return sorted(idle, key=lambda run_id: self._entries[run_id].idle_since)

    def _close_idle(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        idle = self._idle_runs()
        due = [one for one in idle if self._entries[one].idle_since + self._idle <= loop.time()]
        for run_id in due:
            self._start_closing(run_id)
        if len(idle) > len(due):
            next_due = self._entries[idle[len(due)]].idle_since + self._idle
            self._timer = loop.call_at(next_due, self._close_idle)

    def close_if_idle(self, run_id: RunId) -> None:
        """Close the run if it is idle: it has ended and need not be kept."""
        entry = self._entries.get(run_id)
        if entry is not None and not entry.users:
            self._start_closing(run_id)

    def _start_closing(self, run_id: RunId) -> None:
        entry = self._entries.pop(run_id)
        closing = self._closing[run_id] = asyncio.ensure_future(_close(entry))
        closing.add_done_callback(lambda _: self._closing.pop(run_id, None))

    @property
    def open_runs(self) -> list[RunId]:
        return list(self._entries)

    async def close(self) -> None:
        """Close all runs because the worker ends. The caller has stopped all attempts."""
        if self._timer is not None:
            self._timer.cancel()
        for run_id in list(self._entries):
            self._start_closing(run_id)
        await asyncio.gather(*self._closing.values(), return_exceptions=True)


async def _close(entry: _Entry) -> None:
    with contextlib.suppress(Exception):
        hosted = await entry.preparing
        await hosted.run_tasks.close()
