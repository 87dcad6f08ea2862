"""A machine whose events are appended by others: what a distributed engine asks.

Whoever does something records it: a worker the start and the end of the attempt that it carries out, the host what it
decides. The follower folds what is in the log, in the log's order, and nothing else, so there is nothing to undo.
Records may reach it in any order and more than once; it folds as far as they are complete and reports the gap.

    learn     what is in the log                       take     everything that is to be done now
    submit    something has happened: record it        performed, lost    what came of an attempt

A host that starts anew calls `restart` once it has read the log to its end. What an earlier host had started and not
ended is carried out again; a step that must not be repeated blindly is interrupted instead, after whatever may be left
of the attempt was stopped.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from podium.log.drafts import EventDraft, LoggedEvent
from podium.log.events import EventType, RunIdentity
from podium.log.transitions import TASK_ENDS
from podium.machine.answers import draft_of, stop_code, stopped_payload
from podium.machine.commands import (
    CancelTask,
    CancelTimer,
    Command,
    Probe,
    Record,
    RunTask,
    SetTimer,
)
from podium.machine.machine import Machine
from podium.machine.task_queue import TaskKey, TaskQueue

_SIGNAL: Final = "signal|"


def signal_wake_up(signal_id: str) -> str:
    """The wake-up that is stored with a signal: until it is folded, someone has to see to that."""
    return _SIGNAL + signal_id


def is_signal_wake_up(key: str) -> bool:
    return key.startswith(_SIGNAL)


class Abandoned(msgspec.Struct, frozen=True):
    """An attempt that has started and that no one carries out any more: stop what is left of it, then record this."""

    path: str
    attempt: int
    end: EventDraft


class Work(msgspec.Struct):
    """What is to be done now; each of it is handed out once."""

    # To be appended together, in this order. Until then nothing below may begin.
    events: list[EventDraft] = msgspec.field(default_factory=list)
    # Wake-ups that are not needed any more.
    dropped: list[str] = msgspec.field(default_factory=list)
    starts: list[RunTask] = msgspec.field(default_factory=list)
    stops: list[CancelTask] = msgspec.field(default_factory=list)
    abandoned: list[Abandoned] = msgspec.field(default_factory=list)
    timers: list[SetTimer] = msgspec.field(default_factory=list)
    cancelled_timers: list[str] = msgspec.field(default_factory=list)
    probes: list[Probe] = msgspec.field(default_factory=list)


class Follower:
    def __init__(self, machine: Machine, identity: RunIdentity) -> None:
        self.machine = machine
        self._identity = identity
        self._queue = TaskQueue(machine.plan.workflow.max_parallel)
        # In the log, and not folded: something before them is missing.
        self._ahead: dict[int, LoggedEvent] = {}
        self._work = Work()
        # Why an attempt that is under way is to be stopped.
        self._stop_codes: dict[TaskKey, str] = {}
        # What travels with an attempt to be recorded first; whether it was is not known until the log says so.
        self._carried: dict[TaskKey, list[EventDraft]] = {}

    # --- what is known ----------------------------------------------------------------------------

    @property
    def running(self) -> int:
        return self._queue.running

    @property
    def has_gap(self) -> bool:
        """Records are missing after the last one that was folded."""
        return bool(self._ahead)

    def has_work(self, *, starts: bool = True) -> bool:
        work = self._work
        return bool(
            work.events
            or work.dropped
            or work.stops
            or work.abandoned
            or work.timers
            or work.cancelled_timers
            or work.probes
            or (starts and self._may_start())
        )

    def _may_start(self) -> bool:
        queue = self._queue
        return bool(queue.waiting) and queue.has_room() and not self.machine.hold.reasons

    # --- the log ----------------------------------------------------------------------------------

    def learn(self, events: Iterable[LoggedEvent]) -> None:
        """What is in the log, in any order; what was folded already changes nothing."""
        machine = self.machine
        for event in events:
            if event.run_seq > machine.last_seq:
                self._ahead[event.run_seq] = event
        while (found := self._ahead.pop(machine.last_seq + 1, None)) is not None:
            self._fold(found)

    def accept_gap(self) -> None:
        """The log was read and has no records in between: it is complete without them."""
        machine = self.machine
        for run_seq in sorted(self._ahead):
            if run_seq > machine.last_seq:
                self._fold(self._ahead[run_seq])
        self._ahead.clear()

    def _fold(self, event: LoggedEvent) -> None:
        if event.event_type == EventType.SIGNAL_ACCEPTED:
            self._work.dropped.append(signal_wake_up(str(event.payload.get("signalId"))))
        elif event.event_type in TASK_ENDS and event.path is not None:
            self._queue.free(((event.path, event.attempt),))
        self._obey(self.machine.advance(event.record(self._identity)))

    # --- what happens -----------------------------------------------------------------------------

    def submit(self, *drafts: EventDraft) -> None:
        """Something has happened; it is to be recorded."""
        self._work.events += drafts

    def fired(self, timer: SetTimer) -> None:
        self.submit(EventDraft(EventType.TIMER_FIRED, None, 1, {"key": timer.key}, timer.key, timer.due))

    def answered(self, probe: Probe, answers: list[bool]) -> None:
        payload = {"key": probe.key, "answers": answers}
        self.submit(EventDraft(EventType.PROBE_ANSWERED, None, 1, payload, probe.key))

    def performed(self, task: RunTask, stopped: dict[str, object] | None = None) -> None:
        """An attempt is over. Its end is in the log, unless it was stopped: then only its facts are known."""
        key = (task.path, task.attempt)
        self._carried.pop(key, None)
        self._queue.free((key,))
        code = self._stop_codes.pop(key, "CANCELLED")
        if stopped is not None:
            self.submit(_stopped(key, code, stopped))

    def lost(self, task: RunTask) -> None:
        """Whoever carried an attempt out is gone, or never began."""
        key = (task.path, task.attempt)
        # Whether these were written is not known: what is written twice is there once.
        self._work.events = self._carried.pop(key, []) + self._work.events
        self._queue.free((key,))
        code = self._stop_codes.pop(key, None)
        if code is not None:
            self._work.abandoned.append(Abandoned(*key, _stopped(key, code)))
        elif task.step.idempotent:
            self._queue.queue(task)
        else:
            self._work.abandoned.append(Abandoned(*key, EventDraft(EventType.STEP_INTERRUPTED, *key)))

    def restart(self) -> None:
        """The log was read to its end by a host that has done nothing yet."""
        for command in self.machine.outstanding():
            started = isinstance(command, RunTask | CancelTask) and self.machine.has_started(
                command.path, command.attempt
            )
            if isinstance(command, CancelTask) and started:
                key = (command.path, command.attempt)
                self._work.abandoned.append(Abandoned(*key, _stopped(key, stop_code(command))))
            elif isinstance(command, RunTask) and started and not command.step.idempotent:
                key = (command.path, command.attempt)
                self._work.abandoned.append(Abandoned(*key, EventDraft(EventType.STEP_INTERRUPTED, *key)))
            else:
                self._obey((command,))

    # --- what is to be done -----------------------------------------------------------------------

    def take(self, *, starts: bool = True) -> Work:
        work, self._work = self._work, Work()
        while starts and not self.machine.hold.reasons and (task := self._queue.take_next()) is not None:
            key = (task.path, task.attempt)
            if not self.machine.may_start(*key):
                continue  # stopped before there was room, and answered by what stopped it
            self._queue.occupy((key,))
            work.starts.append(task)
            if not self.machine.has_started(*key):
                work.events.append(EventDraft(EventType.STEP_STARTED, *key))
        return work

    def carry(self, task: RunTask, events: list[EventDraft]) -> None:
        """The worker that carries out the task records these first."""
        self._carried[task.path, task.attempt] = events

    def _obey(self, commands: Iterable[Command]) -> None:
        work = self._work
        for command in commands:
            match command:
                case Record():
                    work.events.append(draft_of(command))
                case RunTask():
                    self._queue.queue(command)
                case CancelTask():
                    self._stop(command)
                case SetTimer():
                    work.timers.append(command)
                case CancelTimer():
                    work.cancelled_timers.append(command.key)
                case Probe():
                    work.probes.append(command)
                case _:
                    pass  # reports, for views

    def _stop(self, command: CancelTask) -> None:
        """Every CancelTask is answered, also for a task that is not known here."""
        key, code = (command.path, command.attempt), stop_code(command)
        if self._queue.is_running(key):
            self._stop_codes.setdefault(key, code)
            self._work.stops.append(command)
        else:
            self._queue.drop(key)
            self.submit(_stopped(key, code))


def _stopped(key: TaskKey, code: str, facts: dict[str, object] | None = None) -> EventDraft:
    return EventDraft(EventType.STEP_FAILED, *key, stopped_payload(code, facts))
