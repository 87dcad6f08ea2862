"""`state.json` and the logs of runs that are driven elsewhere, written on the host where their directories
are.

A driver feeds the views of its run itself. A run of a distributed engine has no driver: here its log is
followed, folded and passed to the same views, and checkpoints are saved on the way. Of several workers that
see a run's directory, the one that holds its lock does that.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final, Protocol

from podium.errors import PodiumError, StoreUnavailable
from podium.log.ids import RunId
from podium.log.leases import Fence, Lease
from podium.log.runs import Run
from podium.ports.clock import Clock
from podium.ports.log_fields import about
from podium.ports.store import Store
from podium.runtime.checkpoints import CheckpointWriter
from podium.runtime.drive import Driver
from podium.runtime.lock import RunLock, RunLocked
from podium.runtime.plan_file import load_plan
from podium.runtime.restoring import NoTasks
from podium.runtime.run_views import RunViews
from podium.runtime.run_writer import WorkerParts
from podium.runtime.rundir import RunDirectory
from podium.runtime.view_trouble import ViewTrouble
from podium.runtime.world import World

# Minimum interval between writes of files: what happens within it is written together.
_PAUSE: Final = 0.25
_LOCKED_SECONDS: Final = 1.0
_AWAY_SECONDS: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


class ViewParts(WorkerParts, Protocol):
    """The parts of a worker that are used here."""

    @property
    def clock(self) -> Clock: ...

    def directory(self, run_id: str) -> RunDirectory: ...


class FollowedViews:
    """The views of all runs that a worker sees. `on_end` is called with each run that has ended."""

    def __init__(self, parts: ViewParts, on_end: Callable[[RunId], None] = lambda _run_id: None) -> None:
        self._parts = parts
        self._on_end = on_end
        self._following: dict[RunId, asyncio.Task[None]] = {}

    def follow(self, run_id: RunId) -> None:
        """Write the views of a run from now on, until it has ended; further calls have no effect."""
        if run_id not in self._following:
            task = self._following[run_id] = asyncio.create_task(self._follow(run_id))
            task.add_done_callback(lambda _: self._following.pop(run_id, None))

    async def finish(self, run_id: RunId) -> None:
        """Wait until the views of a run that has ended show its end."""
        task = self._following.get(run_id)
        if task is not None:
            await asyncio.wait([task])

    async def close(self) -> None:
        following = list(self._following.values())
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)

    async def _follow(self, run_id: RunId) -> None:
        while True:
            try:
                if await self._write(run_id):
                    return self._on_end(run_id)
                await asyncio.sleep(_LOCKED_SECONDS)
            except RunLocked:
                await asyncio.sleep(_LOCKED_SECONDS)
            except StoreUnavailable:
                await asyncio.sleep(_AWAY_SECONDS)
            except (PodiumError, OSError) as error:
                # The store has everything; only these files are out of date.
                _LOG.warning(
                    "the files of run %s are not written: %s", run_id, error, extra=about(run=run_id)
                )
                return None

    async def _write(self, run_id: RunId) -> bool:
        """False if another process has taken the directory before the run ended."""
        directory = self._parts.directory(run_id)
        run = await self._parts.store.get_run(run_id)
        directory.make()
        lock = RunLock(directory.lock, run_id)
        await lock.take(_no_lease, wait=0)
        try:
            return await _RunFollower(self._parts, directory, run, lock).follow()
        finally:
            lock.release()


class _RunFollower:
    """Follows one run, with the lock of its directory."""

    def __init__(self, parts: ViewParts, directory: RunDirectory, run: Run, lock: RunLock) -> None:
        self._parts = parts
        self._store: Store = parts.store
        self._directory = directory
        self._run = run
        self._lock = lock

    async def follow(self) -> bool:
        """Whether the run has ended."""
        run_id = self._run.identity.run_id
        plan = await load_plan(self._store, self._directory, self._run)
        world = World(
            self._store,
            self._parts.clock,
            NoTasks(),
            lambda _question: False,
            payloads=self._parts.values(run_id),
        )
        driver = Driver(plan, self._run.identity, Fence(generation=0), world)
        views = RunViews(self._directory, plan, run_id, driver, self._lock.is_held, ViewTrouble())
        await views.open(self._store, is_new=False)
        world.views += views.observers
        world.state_views.append(views.state)
        world.checkpoints = CheckpointWriter(self._store, run_id, plan, views.saved)
        try:
            await self._keep_up(driver, views)
            return driver.machine.terminal
        finally:
            try:
                await world.checkpoints.close()
            finally:
                views.close()

    async def _keep_up(self, driver: Driver, views: RunViews) -> None:
        await driver.replay()
        changes = self._store.watch(self._run.identity.run_id, after=driver.machine.last_seq)
        async with contextlib.aclosing(changes):  # type: ignore[type-var]
            while not driver.machine.terminal and self._lock.is_held():
                views.state.write_if_due()
                views.journal.keep_up()
                if not await anext(changes, None):
                    return
                await asyncio.sleep(_PAUSE)
                await driver.replay()


async def _no_lease() -> Lease | None:
    return None
