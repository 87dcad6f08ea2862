"""An attempt that was handed out: what is to be done is read from the log, and its end is appended there.

The task names the attempt, and nothing else. So a forged or repeated task can only name an attempt that is
owed, and of several workers with the same one only the holder of its lease executes it.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from podium.engines.conductor.folding import FoldedRun, FoldedRuns
from podium.engines.run_loop import order_of
from podium.errors import StaleFence
from podium.log.attempts import AttemptOrder
from podium.log.ids import RunId
from podium.log.leases import Fence
from podium.machine.answers import stop_code
from podium.machine.commands import CancelTask, RunTask
from podium.machine.task_queue import TaskKey
from podium.ports.log_fields import about
from podium.ports.store import Store
from podium.runtime.attempt_lease import AttemptTakenOver
from podium.runtime.attempts import Attempts
from podium.runtime.engine_attempt import StopRequest

_LOG: Final = logging.getLogger(__name__)
_PAUSE: Final = 0.1


class HandedOut:
    """Attempts on this worker that belong to runs another worker decides about."""

    def __init__(self, store: Store, attempts: Attempts, runs: FoldedRuns) -> None:
        self._store = store
        self._attempts = attempts
        self._runs = runs

    async def perform(self, run_id: RunId, path: str, attempt: int) -> None:
        """Returns when the attempt is not awaited any more. Raises `WorkerStopped`, `AttemptNotStarted`."""
        async with self._runs.use(run_id) as run:
            while (owed := run.owed(path, attempt)) is not None:
                try:
                    await self._carry_out(run_id, run, owed)
                except (StaleFence, AttemptTakenOver) as error:
                    # Another worker decides about the run now, or has the attempt: the log says how it
                    # continues.
                    fields = about(run=run_id, step=path)
                    _LOG.info("attempt %s of %r of run %s: %s", attempt, path, run_id, error, extra=fields)
                    await asyncio.sleep(_PAUSE)
                await run.read_on()

    async def _carry_out(self, run_id: RunId, run: FoldedRun, owed: RunTask | CancelTask) -> None:
        stop, key = StopRequest(waits_for_holder=True), (owed.path, owed.attempt)

        def look() -> None:
            now = run.owed(*key)
            if isinstance(now, CancelTask):
                stop.ask(force=now.force, code=stop_code(now))

        with run.listening(look):
            look()
            order = (
                order_of(run_id, owed, [], []) if isinstance(owed, RunTask) else AttemptOrder(run_id, *key)
            )
            await self._attempts.perform(order, lambda: self._fence_of(run_id), stop)

    async def _fence_of(self, run_id: RunId) -> Fence:
        """The fence of the worker that decides about the run; it may be replaced while the attempt is
        running.
        """
        held = await self._store.held_lease(run_id)
        return held.lease.fence if held is not None else Fence(0)


async def listen_for_stops(runs: FoldedRuns, run_id: RunId, attempts: Mapping[TaskKey, StopRequest]) -> None:
    """For attempts that are running in this process although another worker decides about the run now."""
    is_new = asyncio.Event()
    async with runs.use(run_id) as run:
        with run.listening(is_new.set):
            is_new.set()
            waiting = dict(attempts)
            while waiting:
                await is_new.wait()
                is_new.clear()
                for key, stop in list(waiting.items()):
                    owed = run.owed(*key)
                    if owed is None:
                        del waiting[key]
                    elif isinstance(owed, CancelTask):
                        stop.ask(force=owed.force, code=stop_code(owed))
