"""One run on the worker that decides about it, which hosts the follower while anything is in progress.

Steps for which this worker has a free slot are executed here. The others wait for one or are handed out,
whichever comes first: their start is in the log, any worker may execute them, and their end is read from the
log.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

from podium.engines.conductor.slots import Slots
from podium.engines.run_loop import Attempt, RunLoop, order_of
from podium.errors import PodiumError, StaleFence
from podium.log.attempts import AttemptEnd, AttemptOrder, Written
from podium.log.drafts import EventDraft, LoggedEvent
from podium.log.ids import RunId
from podium.log.leases import Fence
from podium.machine.answers import stop_code
from podium.machine.commands import CancelTask, Probe, RunTask
from podium.machine.following import Abandoned
from podium.machine.obligations import MOVING
from podium.machine.task_queue import TaskKey
from podium.ports.log_fields import about
from podium.runtime.attempt_lease import AttemptTakenOver
from podium.runtime.attempts import AttemptNotStarted, Attempts
from podium.runtime.engine_attempt import StopRequest, WorkerStopped

_LOG: Final = logging.getLogger(__name__)
_READ_LIMIT: Final = 1000
# Handed out and not started: enough to keep other workers busy; the rest is for the first worker that becomes
# free.
_MAX_QUEUED: Final = 64
# This worker handles timers that are due sooner itself, because the server counts whole seconds.
STAY_SECONDS: Final = 5.0
_PAUSE: Final = 0.2
_MAX_PAUSE: Final = 2.0
# While one of these is owed, something is about to happen.
_SOON: Final = MOVING | {"task"}


class DecidingLoop(RunLoop):
    """`fence` returns the run's current fence. `hand_out` returns when the server has the attempt."""

    def __init__(
        self,
        run_id: RunId,
        attempts: Attempts,
        slots: Slots,
        *,
        now: Callable[[], datetime],
        fence: Callable[[], Fence],
        hand_out: Callable[[str, int], Awaitable[None]],
        on_event: Callable[[LoggedEvent], None],
        on_turn: Callable[[], None],
        may_rest: Callable[[], bool],
    ) -> None:
        super().__init__(run_id)
        self.run_id = run_id
        self._work = attempts
        self._slots = slots
        self._now = now
        self._fence = fence
        self._hand_out = hand_out
        self._on_event = on_event
        self._on_turn = on_turn
        self._may_rest = may_rest
        self._stops: dict[TaskKey, StopRequest] = {}
        # Recorded as started, but neither running here nor handed out.
        self._backlog: dict[TaskKey, RunTask] = {}
        # Handed out and not ended; those of them that a worker holds.
        self.handed_out: set[TaskKey] = set()
        self.held: frozenset[TaskKey] = frozenset()
        # Those that the server has not accepted yet.
        self.on_the_way: set[TaskKey] = set()
        # Read by the task that follows the log.
        self._incoming: list[LoggedEvent] = []
        self._lost: PodiumError | None = None
        self.is_leaving = False
        self._due: float | None = None
        slots.wait(self._take_from_backlog)

    def close(self) -> None:
        self._due = self.next_timer()
        self._slots.leave(self._take_from_backlog)
        super().close()

    # --- ownership of the run ---------------------------------------------------------------------

    def lose(self, error: PodiumError) -> None:
        """Another worker owns the run."""
        self._lost = self._lost or error
        self.nudge()

    def leave(self) -> None:
        """Start nothing more, and end as soon as nothing is running here."""
        self.is_leaving = True
        self.wake()

    def now(self) -> datetime:
        return self._now()

    def may_start(self) -> bool:
        return not self.is_leaving

    def may_leave(self) -> bool:
        if self.attempts or self.helpers:
            return False
        if self.is_leaving:
            return True
        return self._may_rest() and not (self._backlog or self.handed_out or self.is_moving)

    def left_behind(self) -> dict[TaskKey, StopRequest]:
        """Attempts that are still running here when another worker owns the run."""
        return {key: self._stops[key] for key in self.attempts if key in self._stops}

    def next_due(self) -> float | None:
        """After how many seconds the server has to deliver the run to a worker; None: only when it is woken."""
        return self._due

    @property
    def is_moving(self) -> bool:
        """Whether the run can continue without a person or a distant timer."""
        machine = self.follower.machine
        owed = {one.kind for one in machine.obligations()}
        soon = self.next_timer()
        return (
            bool(owed & _SOON)
            or ("slot" in owed and not machine.hold.reasons)
            or (soon is not None and soon <= STAY_SECONDS)
        )

    def turn(self) -> None:
        waits = self.follower.machine.waits
        if self.handed_out:
            self.handed_out = {key for key in self.handed_out if key in waits}
        for key in [key for key in self._backlog if key not in waits]:
            del self._backlog[key]
        self._hand_out_more()
        self._on_turn()

    # --- the log ----------------------------------------------------------------------------------

    def learn(self, events: Sequence[LoggedEvent]) -> None:
        folded = self.follower.machine.last_seq
        for event in events:
            if event.run_seq > folded:
                self._on_event(event)
        super().learn(events)

    def incoming(self, events: Sequence[LoggedEvent]) -> None:
        """Called by the task that follows the log."""
        if events and events[-1].run_seq > self.follower.machine.last_seq:
            self._incoming += events
            self.nudge()

    async def read_log(self, after: int) -> tuple[list[LoggedEvent], bool]:
        if self._lost is not None:
            raise self._lost
        incoming, self._incoming = self._incoming, []
        found = [event for event in incoming if event.run_seq > after]
        if found and found[0].run_seq == after + 1:
            return found, False
        found = await self._work.read(self.run_id, after, _READ_LIMIT)
        return found, len(found) == _READ_LIMIT

    async def write_log(self, events: list[EventDraft], dropped: list[str]) -> Written:
        if self._lost is not None:
            raise self._lost
        return await self._work.write(self.run_id, self._fence(), events, dropped)

    # --- attempts ---------------------------------------------------------------------------------

    def may_carry(self) -> bool:
        return self._slots.free > 0

    def perform(self, order: AttemptOrder, task: RunTask) -> Attempt | None:
        if self._slots.take():
            return self._launch(order)
        self._backlog[task.path, task.attempt] = task
        self._hand_out_more()
        return None

    def _launch(self, order: AttemptOrder) -> Attempt:
        """Start an attempt, which takes a slot."""
        key = (order.path, order.attempt)
        stop = self._stops[key] = StopRequest(waits_for_holder=True)
        task = asyncio.create_task(self._carry_out(order, stop))
        task.add_done_callback(lambda _: self._done(key, stop))
        return task

    def _done(self, key: TaskKey, stop: StopRequest) -> None:
        if self._stops.get(key) is stop:
            del self._stops[key]
        self._slots.give()

    async def _carry_out(self, order: AttemptOrder, stop: StopRequest) -> AttemptEnd:
        pause = _PAUSE
        while True:
            try:
                return await self._work.perform(order, self._current_fence, stop)
            except WorkerStopped:
                raise
            except StaleFence as error:
                self.lose(error)
                raise
            except AttemptNotStarted as error:
                _LOG.warning("%s; another worker may carry it out", error)
                return await self._leave_to_others(order)
            except AttemptTakenOver as error:
                fields = about(run=self.run_id, step=order.path)
                shown = (order.attempt, order.path, self.run_id, error)
                _LOG.warning("attempt %s of %r of run %s: %s", *shown, extra=fields)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)

    async def _leave_to_others(self, order: AttemptOrder) -> AttemptEnd:
        """This host cannot prepare the run. The end of the attempt is read from the log."""
        key, before = (order.path, order.attempt), Written()
        if order.before or order.dropped:
            before = await self.write_log(order.before, order.dropped)
        self.hand_out(key)
        while key in self.follower.machine.waits:
            if self.is_leaving or self._lost is not None:
                raise WorkerStopped("this worker does not decide about the run any more")
            await asyncio.sleep(_PAUSE)
        return AttemptEnd(before)

    async def _current_fence(self) -> Fence:
        return self._fence()

    def was_lost(self, error: BaseException) -> bool:
        return isinstance(error, PodiumError | asyncio.CancelledError)

    def _take_from_backlog(self) -> bool:
        """Called when a slot becomes free."""
        if self.is_leaving or self._lost is not None or not self._backlog or not self._slots.take():
            return False
        key = next(iter(self._backlog))
        task = self._backlog.pop(key)
        self.attend(task, self._launch(order_of(self.run_id, task, [], [])), [])
        return True

    def _hand_out_more(self) -> None:
        while self._backlog and len(self.handed_out - self.held) < _MAX_QUEUED and not self.is_leaving:
            key = next(iter(self._backlog))
            del self._backlog[key]
            self.hand_out(key)

    def hand_out(self, key: TaskKey) -> None:
        self.handed_out.add(key)
        self.on_the_way.add(key)
        self.beside(self._bring(key))

    async def _bring(self, key: TaskKey) -> None:
        try:
            await self._hand_out(*key)
        finally:
            self.on_the_way.discard(key)

    # --- stopping ---------------------------------------------------------------------------------

    def stop(self, command: CancelTask, attempt: Attempt | None) -> None:
        key, code = (command.path, command.attempt), stop_code(command)
        stop = self._stops.get(key)
        if stop is not None:
            stop.ask(force=command.force, code=code)
            return
        self._backlog.pop(key, None)
        stop = self._stops[key] = StopRequest(waits_for_holder=True)
        stop.ask(force=command.force, code=code)
        self.beside(self._end(key, stop))

    async def _end(self, key: TaskKey, stop: StopRequest) -> None:
        """End an attempt that is not running here: its holder answers the stop, or this worker does if there
        is none.
        """
        try:
            done = await self._carry_out(AttemptOrder(self.run_id, *key), stop)
        except PodiumError as error:
            fields = about(run=self.run_id, step=key[0])
            shown = (key[1], key[0], self.run_id, error)
            _LOG.info("attempt %s of %r of run %s was not ended here: %s", *shown, extra=fields)
            return
        finally:
            if self._stops.get(key) is stop:
                del self._stops[key]
        if done.end is not None:
            self.learn((done.end,))

    async def end_abandoned(self, order: AttemptOrder, abandoned: Abandoned) -> AttemptEnd:
        stop = StopRequest(waits_for_holder=True)
        stop.ask()
        return await self._carry_out(order, stop)

    async def ask(self, probe: Probe) -> list[bool]:
        return await self._work.ask(self.run_id, probe.questions)
