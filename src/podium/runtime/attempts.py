"""Attempts on a worker that serves many runs; the process that decides about these runs is elsewhere.

An attempt starts with one transaction: the events that precede it in the log, and its lease. Then the work is
done, and its end is appended under the lease. So a step costs two commits, and of two workers with the same
attempt only one records anything. An *engine attempt* is the execution of an attempt by one worker; the
generation of the lease counts them.

    engine_attempt  one worker's execution of an attempt    hosted_runs  what a run needs on this host
    attempt_lease   which worker owns the attempt           run_writer   appending, with retries during outages
"""

import contextlib
from collections.abc import Callable, Sequence
from datetime import timedelta

from podium.errors import PodiumError, StoreUnavailable
from podium.log.attempts import AttemptEnd, AttemptOrder, Written
from podium.log.drafts import EventDraft, LoggedEvent
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.leases import Fence, WakeUp
from podium.machine.commands import Question
from podium.runtime.attempt_lease import ATTEMPT_LEASE, RunFence, taken_over
from podium.runtime.engine_attempt import EngineAttempt, StopRequest, WorkerStopped
from podium.runtime.hosted_runs import HostedRuns
from podium.runtime.run_writer import RunWriter, WorkerParts, written

Key = tuple[str, str, int]


class AttemptNotStarted(PodiumError):
    """The run cannot be prepared on this host. Nothing was done, so the attempt can be retried here or
    elsewhere.
    """

    code = "ATTEMPT_NOT_STARTED"


class Attempts:
    """One per worker process. `lease`: how long a worker owns an attempt without renewing it.

    `replaces`: an engine that orders an attempt which is running here has given that execution up, and the
    new one replaces it. Otherwise the order was repeated, and waits until the attempt is over.
    """

    def __init__(
        self,
        parts: WorkerParts,
        runs: HostedRuns,
        *,
        lease: timedelta = ATTEMPT_LEASE,
        replaces: bool = True,
        on_outage: Callable[[StoreUnavailable], None] | None = None,
    ) -> None:
        self._parts = parts
        self._store = parts.store
        self._runs = runs
        self._lease = lease
        self._replaces = replaces
        self._writer = RunWriter(parts, on_outage)
        self._under_way: dict[Key, EngineAttempt] = {}
        self._is_closed = False

    async def perform(
        self, order: AttemptOrder, fence: Fence | RunFence, stop: StopRequest | None = None
    ) -> AttemptEnd:
        """Execute an attempt and record its end, or return the end that is in the log.

        `fence` is the run's; pass a function if it may change during the call. A stop that was requested
        before also ends the execution by another worker: its processes on this host are gone when this
        returns, and on another host it stops them when it renews its lease.

        Raises `AttemptTakenOver` if another engine attempt has it, `WorkerStopped` after `close`,
        `AttemptNotStarted` if the run cannot be prepared here, `StaleFence` if another process owns the run.
        """
        key = (order.run_id, order.path, order.attempt)
        run_fence = _fixed(fence) if isinstance(fence, Fence) else fence
        mine = EngineAttempt(self._parts, self._writer, order, run_fence, self._lease, stop or StopRequest())
        while not self._replaces and (same := self._under_way.get(key)) is not None:
            await same.ended.wait()
        before, self._under_way[key] = self._under_way.get(key), mine
        try:
            if before is not None:
                # The engine has given it up; its end may be on its way to the log.
                before.interrupt(taken_over(mine.claim))
                await before.ended.wait()
            mine.check()
            if self._is_closed:
                raise WorkerStopped("this worker is stopping; no attempt starts here")
            async with contextlib.AsyncExitStack() as used:
                try:
                    run = await used.enter_async_context(self._runs.use(RunId(order.run_id)))
                except PodiumError as error:
                    raise AttemptNotStarted(
                        f"attempt {order.attempt} of {order.path!r} did not start: run {order.run_id!r} cannot be "
                        f"prepared on this host: {error}"
                    ) from error
                return await mine.carry_out(run)
        finally:
            if self._under_way.get(key) is mine:
                del self._under_way[key]
            mine.ended.set()

    async def write(
        self,
        run_id: str,
        fence: Fence,
        drafts: Sequence[EventDraft],
        dropped: Sequence[str] = (),
        wake_ups: Sequence[WakeUp] = (),
    ) -> Written:
        """Record events that do not belong to an attempt, in one transaction."""
        writes = await self._writer.writes(RunId(run_id), drafts)
        return written(
            await self._writer.outlast(
                lambda: self._store.append(
                    RunId(run_id), writes, fence=fence, set_wake_ups=wake_ups, drop_wake_ups=dropped
                )
            )
        )

    async def read(self, run_id: str, after: int, limit: int = 1000) -> list[LoggedEvent]:
        """The events after a record, with the values that the log stores elsewhere."""
        records = await self._writer.outlast(
            lambda: self._store.read(RunId(run_id), after=after, limit=limit)
        )
        return await self.logged(records)

    async def logged(self, records: Sequence[EventRecord]) -> list[LoggedEvent]:
        """The events with the values that the log stores elsewhere."""
        return [await self._writer.logged(record) for record in records]

    async def ask(self, run_id: str, questions: Sequence[Question]) -> list[bool]:
        """Answer questions about the environment on this host."""
        async with self._runs.use(RunId(run_id)) as run:
            return [run.run_tasks.ask(question) for question in questions]

    async def kill(self, run_id: str, path: str, attempt: int) -> None:
        """Kill the processes of an attempt on this host, whichever worker started them."""
        async with self._runs.use(RunId(run_id)) as run:
            await run.run_tasks.stop_orphans_of(path, attempt, forced=lambda: True)

    def forget(self, run_id: str) -> None:
        """The run has ended: its resources on this host are released as soon as nothing uses them."""
        self._runs.close_if_idle(RunId(run_id))

    async def close(self) -> None:
        """Stop all attempts and close all runs. Other workers can start these attempts immediately."""
        self._is_closed = True
        under_way = list(self._under_way.values())
        for attempt in under_way:
            attempt.interrupt(WorkerStopped("the worker was stopped; another one may carry out the attempt"))
        for attempt in under_way:
            await attempt.ended.wait()
        await self._runs.close()


def _fixed(fence: Fence) -> RunFence:
    async def current() -> Fence:
        return fence

    return current
