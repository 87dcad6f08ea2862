"""What an opened store and its runs share, and how runs are driven concurrently with the program."""

import asyncio
import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from podium.log.ids import RunId
from podium.log.transitions import TERMINAL
from podium.operations.drive import LOOK_SECONDS, OnDriving, ReadyRun, Watch, drive
from podium.operations.parts import Parts
from podium.operations.results import Event, Result, events_from, read_result
from podium.ports.engine import LEFT, Driving, Notice, RunEnded
from podium.wiring.stores import open_store

log: Final = logging.getLogger("podium")


class Drive:
    """One run as the program sees it: driven here in a task of its own, or only observed."""

    def __init__(self, session: "Session", run_id: RunId) -> None:
        self.run_id = run_id
        # Set, and replaced by a new one, whenever the log may have new records.
        self.changed = asyncio.Event()
        self._session = session
        self.task: asyncio.Task[RunEnded] | None = None
        self._driving: Driving | None = None
        # How often the tasks that wait for it were cancelled.
        self._interrupts = 0
        # Whether the program was informed how it ended.
        self._is_known = False

    @property
    def is_here(self) -> bool:
        return self.task is not None

    @property
    def is_open(self) -> bool:
        """Whether it is driven here and has not ended."""
        return self.task is not None and not self.task.done()

    def begin(self, ready: ReadyRun, *, no_wait: bool = False) -> None:
        watch = Watch(
            observers=[self._has_changed],
            interrupts=self._interruptible,
            no_wait=no_wait,
            notify=log_notice,
        )
        self.task = asyncio.create_task(
            drive(self._session.parts, ready, watch), name=f"podium-{self.run_id}"
        )
        self._session.drives.append(self)
        self.task.add_done_callback(self._has_changed)
        self.task.add_done_callback(self._forget)

    async def started(self) -> None:
        """Wait until this process drives the run. Raises the error that prevents that."""
        assert self.task is not None
        try:
            while self._driving is None and not self.task.done():
                await self.changed.wait()
        except asyncio.CancelledError:
            # It was waiting for another process: there is nothing to be cancelled in the run.
            self.task.cancel()
            raise
        if self._driving is None:
            self._is_known = True
            self.task.result()

    async def ended(self) -> RunEnded:
        """How it ended. Cancelling the wait cancels the run; a second time kills it."""
        assert self.task is not None
        was_cancelled = False
        while not self.task.done():
            try:
                await asyncio.wait({self.task})
            except asyncio.CancelledError:
                was_cancelled = True
                self.interrupt()
        self._is_known = True
        if was_cancelled:
            raise asyncio.CancelledError
        return self.task.result()

    def raise_unknown_error(self) -> None:
        """Raise the error that ended the drive, if the program was not informed of it."""
        if self.task is not None and not self._is_known:
            self.task.result()

    def _interruptible(self) -> AbstractContextManager[OnDriving | None]:
        def on_driving(driving: Driving) -> None:
            self._driving = driving
            self._has_changed()
            if self._interrupts:
                driving.cancel("interrupted", force=self._interrupts > 1)

        return nullcontext(on_driving)

    def interrupt(self) -> None:
        self._interrupts += 1
        if self._driving is not None:
            self._driving.cancel("interrupted", force=self._interrupts > 1)

    async def is_over(self) -> bool:
        if self.task is not None:
            return self.task.done()
        run = await self._session.parts.store.get_run(self.run_id)
        return run.status in TERMINAL

    def _forget(self, task: "asyncio.Task[RunEnded]") -> None:
        """A program may start any number of runs before it closes the store: only errors are kept until then."""
        if not task.cancelled() and task.exception() is None:
            self._session.drives.remove(self)

    def _has_changed(self, _what: object = None) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    async def next_change(self, changed: asyncio.Event) -> None:
        if self.task is not None:
            await changed.wait()
        else:
            await asyncio.sleep(LOOK_SECONDS)


@dataclass(frozen=True, slots=True)
class Session:
    """An opened store, shared by `Podium` and its runs."""

    parts: Parts
    store_url: str
    tenant: str
    # Those that have not ended, or have ended with an error.
    drives: list[Drive] = field(default_factory=list)

    async def begin(self, ready: ReadyRun) -> None:
        """Start driving without waiting; here, unless it is driven elsewhere."""
        is_here = any(one.run_id == ready.run_id and one.is_open for one in self.drives)
        if not is_here and not await self.parts.engine().begin(ready.run_id):
            Drive(self, ready.run_id).begin(ready)

    async def result(self, run_id: RunId, ended: RunEnded | None) -> Result:
        left = ended.reason if ended is not None and ended.event_type == LEFT else None
        return await read_result(self.parts, run_id, partial(_read_log, self.store_url, run_id), left=left)

    async def end(self, *, interrupt: bool) -> None:
        """Waits for the runs that are driven here; `interrupt`: cancels them first."""
        was_cancelled = False
        while open_runs := [one for one in self.drives if one.is_open]:
            if interrupt:
                for one in open_runs:
                    one.interrupt()
            try:
                await asyncio.wait([one.task for one in open_runs if one.task is not None])
            except asyncio.CancelledError:
                was_cancelled = interrupt = True
        if was_cancelled:
            raise asyncio.CancelledError


async def _read_log(url: str, run_id: RunId) -> list[Event]:
    store = await open_store(url)
    try:
        return [event async for event in events_from(store, run_id)]
    finally:
        await store.close()


def log_notice(notice: Notice) -> None:
    log.warning(notice.text)
