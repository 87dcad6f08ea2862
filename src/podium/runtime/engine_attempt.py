"""One worker's execution of an attempt: start it, do the work, record its end; and how it is stopped."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from podium.errors import PodiumError, StaleFence
from podium.log.attempts import AttemptEnd, AttemptOrder, Written
from podium.log.drafts import LoggedEvent
from podium.log.events import EventType, EventWrite
from podium.log.ids import RunId
from podium.log.leases import AttemptClaim
from podium.machine.answers import stopped_payload
from podium.machine.commands import RunTask
from podium.plan.changes import StepChange
from podium.plan.overrides import changed
from podium.ports.store import StartedAttempt
from podium.runtime import holders
from podium.runtime.attempt_lease import AttemptLease, RunFence, taken_over
from podium.runtime.hosted_runs import HostedRun
from podium.runtime.run_writer import RunWriter, WorkerParts, written
from podium.runtime.tasks.order import TaskResult

_LOOK_SECONDS: Final = 0.25
_RELEASE_SECONDS: Final = 1.0
_INTERRUPTED: Final = "INTERRUPTED"
_STOPPED: Final = "CANCELLED"


class WorkerStopped(PodiumError):
    """The worker ended while the attempt was running. The attempt was stopped, and another worker may execute
    it.
    """

    code = "WORKER_STOPPED"


class StopRequest:
    """A caller's request to end an attempt; it may be repeated with force.

    `waits_for_holder`: the holder of the attempt learns of the stop from the log, and is given time to answer
    it.
    """

    def __init__(self, *, waits_for_holder: bool = False) -> None:
        self.is_asked = False
        self.is_forced = False
        self.waits_for_holder = waits_for_holder
        # The reason; if set, the worker itself records the end.
        self.code: str | None = None
        self._listeners: list[Callable[[], None]] = []

    def ask(self, *, force: bool = False, code: str | None = None) -> None:
        """`force`: its processes are killed immediately, without time to end by themselves.

        `code`: the error code of the end. Without it, the caller records the end.
        """
        self.is_asked = True
        self.is_forced |= force
        self.code = self.code or code
        for listener in list(self._listeners):
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)


class EngineAttempt:
    """One execution of an attempt in this process."""

    def __init__(
        self,
        parts: WorkerParts,
        writer: RunWriter,
        order: AttemptOrder,
        fence: RunFence,
        lease: timedelta,
        stop: StopRequest,
    ) -> None:
        self._parts = parts
        self._writer = writer
        self._order = order
        self._run_id = RunId(order.run_id)
        self._key = (order.path, order.attempt)
        self._stop = stop
        self.claim = AttemptClaim(
            step_id=order.path, logical_attempt_id=order.attempt, owner=holders.new_owner(), ttl=lease
        )
        self._lease = AttemptLease(parts.store, writer, self._run_id, fence, self.claim)
        self._before = Written()
        self._run: HostedRun | None = None
        self._reason: PodiumError | None = None
        self._wake = asyncio.Event()
        self.ended = asyncio.Event()
        stop.listen(self._on_stop)

    # --- stopping ---------------------------------------------------------------------------------

    def interrupt(self, reason: PodiumError) -> None:
        """Stop executing it here. An end that is being recorded still reaches the log."""
        self._reason = self._reason or reason
        self._wake.set()
        self._stop_task(_INTERRUPTED, force=True)

    def check(self) -> None:
        if self._reason is not None:
            raise self._reason

    def _on_stop(self) -> None:
        self._wake.set()
        self._stop_task(_STOPPED, force=self._stop.is_forced)

    def _stop_task(self, code: str, *, force: bool) -> None:
        if self._run is not None:
            self._run.tasks.stop(*self._key, code, force=force)

    # --- the attempt ------------------------------------------------------------------------------

    async def carry_out(self, run: HostedRun) -> AttemptEnd:
        writes = await self._writer.writes(self._run_id, self._order.before)
        started = await self._start(writes)
        if started.is_paused:
            return AttemptEnd(Written(), is_refused=True)
        self._before = written(started.events)
        if started.end is not None:
            return AttemptEnd(self._before, await self._writer.logged(started.end))
        return await self._conclude(await self._under_lease(run, started, writes))

    async def _start(self, writes: Sequence[EventWrite]) -> StartedAttempt:
        """Wait until the holder has ended the attempt, or until its lease has expired."""
        while True:
            started = await self._lease.start(writes, self._order.dropped)
            holder = started.holder
            if holder is None:
                return started
            if self._takes_over or holders.is_gone(holder.owner):
                await self._writer.outlast(lambda: self._parts.store.release(holder))  # noqa: B023 - awaited here
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._wake.wait()
            self.check()

    @property
    def _takes_over(self) -> bool:
        """Whether to take over even from a live worker."""
        return self._stop.is_asked and not self._stop.waits_for_holder

    def _was_started_before(self, started: StartedAttempt, writes: Sequence[EventWrite]) -> bool:
        """Whether another engine attempt started it. If StepStarted is ours, none did, however often we had
        to ask.
        """
        for write, appended in zip(writes, started.events, strict=True):
            if (write.event_type, write.step_id) == (EventType.STEP_STARTED, self._order.path):
                return appended.record.event_id != write.event_id
        return self._lease.held.fence.generation > 1

    async def _under_lease(
        self, run: HostedRun, started: StartedAttempt, writes: Sequence[EventWrite]
    ) -> TaskResult | None:
        """None if it was stopped before the work started."""
        engine_attempt = self._lease.held.fence.generation
        self._lease.keep(self.interrupt)
        try:
            if engine_attempt > 1:
                await run.run_tasks.stop_orphans_of(*self._key, forced=lambda: self._stop.is_forced)
            await self._lease.prove()
            if self._reason is not None or self._stop.is_asked:
                return None
            change = self._change()
            step = changed(run.step(self._order.path), change)
            if not step.idempotent and self._was_started_before(started, writes):
                # Whether the work was done is unknown: the plan or a person has to decide.
                return TaskResult(EventType.STEP_INTERRUPTED, {}, engine_attempt)
            values = {tuple(path): value for path, value in self._order.values}
            return await self._work(run, RunTask(*self._key, step, values, change), engine_attempt)
        except asyncio.CancelledError:
            self._lease.give_up()
            await self._release()
            raise
        finally:
            await self._lease.finish()

    def _change(self) -> StepChange | None:
        change = self._order.change
        return msgspec.convert(change, StepChange) if change is not None else None

    async def _work(self, run: HostedRun, task: RunTask, engine_attempt: int) -> TaskResult:
        done: asyncio.Future[TaskResult] = asyncio.get_running_loop().create_future()
        run.run_tasks.attempt_leases[self._key] = self._lease.holds
        run.tasks.start(task, engine_attempt, done.set_result)
        self._run = run
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            self.interrupt(WorkerStopped("the worker gave the attempt up"))
            await asyncio.wait([done])
            raise
        finally:
            self._run = None
            run.run_tasks.attempt_leases.pop(self._key, None)

    async def _conclude(self, result: TaskResult | None) -> AttemptEnd:
        code = _error_code(result)
        if self._reason is not None and (result is None or code == _INTERRUPTED):
            await self._release()
            raise self._reason
        if result is None or (code == _STOPPED and self._stop.is_asked):
            payload = result.payload if result is not None else {}
            facts = {name: payload[name] for name in payload if name != "error"}
            if self._stop.code is None:
                # Its end is recorded under the lease of the run, which the store refuses while a worker holds
                # the attempt.
                await self._lease.release()
                return AttemptEnd(self._before, stopped=facts)
            result = self._stopped(self._stop.code, facts)
        return await self._record_end(result)

    def _stopped(self, code: str, facts: dict[str, Any]) -> TaskResult:
        engine_attempt = self._lease.held.fence.generation
        return TaskResult(EventType.STEP_FAILED, stopped_payload(code, facts), engine_attempt)

    async def _release(self) -> None:
        """Release the lease so that another engine attempt need not wait until it expires; no effect if it
        was taken already.
        """
        with contextlib.suppress(PodiumError, TimeoutError):
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._parts.store.release(self._lease.held)

    async def _record_end(self, result: TaskResult) -> AttemptEnd:
        order = self._order
        write, payload = await self._writer.end(
            self._run_id,
            order.path,
            order.attempt,
            result.event_type,
            result.payload,
            result.engine_attempt,
        )
        try:
            (one,) = await self._writer.outlast(
                lambda: self._parts.store.append(self._run_id, [write], fence=self._lease.held.fence)
            )
        except StaleFence:
            raise self._reason or taken_over(self.claim) from None
        if one.record.event_id != write.event_id:
            return AttemptEnd(self._before, await self._writer.logged(one.record))
        return AttemptEnd(
            self._before,
            LoggedEvent(
                one.record.run_seq,
                write.emitted_at,
                write.event_type,
                order.path,
                order.attempt,
                write.engine_attempt_id,
                payload,
            ),
        )


def _error_code(result: TaskResult | None) -> str | None:
    error = result.payload.get("error") if result is not None else None
    return error.get("code") if isinstance(error, dict) else None
