"""The loop of a process that decides about a run and leaves the work to others; shared by distributed
engines.

It folds the log, takes from the follower what is to be done now, and passes that to the engine: record this,
execute that, wait until then. It uses the event loop and nothing else of the environment, so it also runs in
sandboxes that allow only that.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Coroutine, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from podium.log.attempts import AttemptEnd, AttemptOrder, Written
from podium.log.drafts import EventDraft, LoggedEvent
from podium.log.times import moment
from podium.machine.commands import CancelTask, Probe, RunTask, SetTimer
from podium.machine.following import Abandoned, Follower, Work
from podium.machine.task_queue import TaskKey


class Attempt(Protocol):
    """A running attempt: await it, or request its end."""

    def __await__(self) -> Any: ...

    def cancel(self) -> Any: ...


class RunLoop(ABC):
    """`nudged`: the log may have new records."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self.nudged = True
        self._wake = asyncio.Event()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.attempts: dict[TaskKey, Attempt] = {}
        # Probes, and attempts that are being ended.
        self.helpers: set[asyncio.Task[None]] = set()

    @property
    def follower(self) -> Follower:
        return self._follower

    def follow(self, follower: Follower) -> None:
        self._follower = follower

    def nudge(self) -> None:
        """The log has new records."""
        self.nudged = True
        self.wake()

    def wake(self) -> None:
        self._wake.set()

    # --- what an engine does ----------------------------------------------------------------------

    def turn(self) -> None:
        """Called whenever something may have changed, before anything follows from it."""
        return

    def learn(self, events: Sequence[LoggedEvent]) -> None:
        """Fold records of the log."""
        self._follower.learn(events)

    def may_start(self) -> bool:
        """Whether attempts may start now."""
        return True

    def may_carry(self) -> bool:
        """Whether the worker of a single attempt records what was decided before it."""
        return True

    def may_leave(self) -> bool:
        """Whether the loop ends here, at a moment when nothing is to be done."""
        return False

    @abstractmethod
    def now(self) -> datetime: ...

    @abstractmethod
    async def read_log(self, after: int) -> tuple[list[LoggedEvent], bool]:
        """The records after `after`, and whether there are more."""

    @abstractmethod
    async def write_log(self, events: list[EventDraft], dropped: list[str]) -> Written: ...

    @abstractmethod
    def perform(self, order: AttemptOrder, task: RunTask) -> Attempt | None:
        """Let an attempt be executed. None if its end is only visible in the log."""

    @abstractmethod
    def was_lost(self, error: BaseException) -> bool:
        """Whether an attempt's error means that no worker executes it any more."""

    @abstractmethod
    def stop(self, command: CancelTask, attempt: Attempt | None) -> None: ...

    @abstractmethod
    async def end_abandoned(self, order: AttemptOrder, abandoned: Abandoned) -> AttemptEnd:
        """Stop what is left of an attempt that no worker executes any more."""

    @abstractmethod
    async def ask(self, probe: Probe) -> list[bool]: ...

    # --- the loop ---------------------------------------------------------------------------------

    async def drive(self) -> bool:
        """Runs until the run has ended. False: the engine leaves it earlier."""
        follower = self._follower
        while not follower.machine.terminal:
            self._wake.clear()
            self.turn()
            starts = self.may_start()
            if follower.has_gap or self.nudged:
                await self.read()
            elif follower.has_work(starts=starts):
                await self._act(follower.take(starts=starts))
            elif self.may_leave():
                return False
            else:
                await self._wake.wait()
        return True

    async def _act(self, work: Work) -> None:
        for key in work.cancelled_timers:
            self._drop_timer(key)
        if len(work.starts) == 1 and not self.attempts and self.may_carry():
            self._start(work.starts[0], work.events, work.dropped)
        else:
            if work.events or work.dropped:
                self._learn(work.events, await self.write_log(work.events, work.dropped))
            for task in work.starts:
                self._start(task)
        for command in work.stops:
            self.stop(command, self.attempts.get((command.path, command.attempt)))
        for abandoned in work.abandoned:
            self.beside(self._abandon(abandoned))
        for timer in work.timers:
            self._set_timer(timer)
        for probe in work.probes:
            self.beside(self._ask(probe))

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        helper = asyncio.create_task(work)
        self.helpers.add(helper)
        helper.add_done_callback(self._helped)

    def _helped(self, helper: asyncio.Task[None]) -> None:
        self.helpers.discard(helper)
        self.wake()

    # --- the log ----------------------------------------------------------------------------------

    async def read(self) -> None:
        self.nudged = False
        follower, after = self._follower, self._follower.machine.last_seq
        events, has_more = await self.read_log(after)
        self.learn(events)
        if has_more:
            self.nudged = True
        elif follower.has_gap and follower.machine.last_seq == after:
            # Attempts that ended while the log was read may have reported later records.
            follower.accept_gap(events[-1].run_seq if events else after)

    def _learn(self, events: list[EventDraft], written: Written) -> None:
        if 0 in written.run_seqs:
            self.nudged = True  # the log has something else there
        self.learn(written.events(events))

    # --- attempts ---------------------------------------------------------------------------------

    def _start(
        self, task: RunTask, events: list[EventDraft] | None = None, dropped: list[str] | None = None
    ) -> None:
        """Start a task, with events that are to be recorded before it."""
        events = events or []
        self._follower.carry(task, events, dropped)
        attempt = self.perform(order_of(self._run_id, task, events, dropped or []), task)
        if attempt is not None:
            self.attend(task, attempt, events)

    def attend(self, task: RunTask, attempt: Attempt, events: list[EventDraft]) -> None:
        """Wait for the end of an attempt and handle its result."""
        self.attempts[task.path, task.attempt] = attempt
        attending = asyncio.create_task(self._attend(task, attempt, events))
        attending.add_done_callback(lambda _: self.wake())

    async def _attend(self, task: RunTask, attempt: Awaitable[AttemptEnd], events: list[EventDraft]) -> None:
        try:
            done = await attempt
        except BaseException as error:
            if not self.was_lost(error):
                raise
            self._follower.lost(task)
        else:
            if done.is_refused:
                self._follower.refused(task)
                return
            self._learn(events, done.before)
            if done.end is not None:
                self.learn((done.end,))
            self._follower.performed(task, done.stopped)
        finally:
            del self.attempts[task.path, task.attempt]

    async def _abandon(self, abandoned: Abandoned) -> None:
        """What is left of it is stopped first. It may have ended in the meantime."""
        order = AttemptOrder(self._run_id, abandoned.path, abandoned.attempt)
        done = await self.end_abandoned(order, abandoned)
        if done.end is not None:
            self.learn((done.end,))
        else:
            self._follower.submit(abandoned.end)

    async def _ask(self, probe: Probe) -> None:
        self._follower.answered(probe, await self.ask(probe))

    # --- timers -----------------------------------------------------------------------------------

    def _set_timer(self, timer: SetTimer) -> None:
        seconds = (moment(timer.due) - self.now()).total_seconds()
        if seconds <= 0:
            self._follower.fired(timer)
            return
        self._timers[timer.key] = asyncio.get_running_loop().call_later(seconds, self._fire, timer)

    def _fire(self, timer: SetTimer) -> None:
        self._timers.pop(timer.key, None)
        self._follower.fired(timer)
        self.wake()

    def next_timer(self) -> float | None:
        """In how many seconds the next one fires."""
        if not self._timers:
            return None
        return min(one.when() for one in self._timers.values()) - asyncio.get_running_loop().time()

    def close(self) -> None:
        """Stop everything."""
        for timer in self._timers.values():
            timer.cancel()
        for helper in self.helpers:
            helper.cancel()

    def _drop_timer(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()


def order_of(run_id: str, task: RunTask, events: list[EventDraft], dropped: list[str]) -> AttemptOrder:
    values = [(list(path), value) for path, value in (task.values or {}).items()]
    change = msgspec.to_builtins(task.change) if task.change is not None else None
    return AttemptOrder(run_id, task.path, task.attempt, values, events, dropped, change)
