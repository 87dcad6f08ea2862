"""A machine whose events are appended by other processes: what a distributed engine uses.

The process that does something records it: a worker records the start and the end of the attempt that it
executes, the host records its decisions. The follower folds what is in the log, in the log's order, and
nothing else, so it never has to undo anything. Records may reach it in any order and more than once; it folds
as far as they are complete and reports the gap.

    learn     what is in the log                       take     everything that is to be done now
    submit    something has happened: record it        performed, lost, refused    the result of an attempt

A host that restarts calls `restart` once it has read the log to its end. Attempts that an earlier host had
started and not ended are executed again; a step that must not be repeated blindly is interrupted instead,
after stopping whatever may remain of the attempt.

Obligations of a host:
- It appends what it takes in the order in which it took it, one batch after the other. A batch is appended as
  a whole.
- A worker appends the events it carries and StepStarted in one transaction, and only if the run is not paused
  at that point of the log. If it is, nothing is appended and the host calls `refused`.
- A worker of a step that must not be repeated starts the work only if no earlier worker may have started it:
  StepStarted is its own, or it is the first to hold the attempt. Otherwise it records StepInterrupted.
- The host calls `learn` with whatever a worker returns, and then `performed`.
"""

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from podium.log.drafts import EventDraft, LoggedEvent
from podium.log.events import EventType, RunIdentity
from podium.log.transitions import RUN_ENDS, TASK_ENDS
from podium.machine.answers import draft_of, stop_code, stopped_payload
from podium.machine.carried import Carried
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
    """The wake-up that is stored with a signal; it is needed until the signal is folded."""
    return _SIGNAL + signal_id


def is_signal_wake_up(key: str) -> bool:
    return key.startswith(_SIGNAL)


class Abandoned(msgspec.Struct, frozen=True):
    """An attempt that has started and is no longer executed by any worker.

    Stop what is left of it, so that nothing more can be recorded for it; then record this, unless the log has
    an end of the attempt by then. StepInterrupted is the only end that a store accepts after StepFailed.
    """

    path: str
    attempt: int
    end: EventDraft


class Work(msgspec.Struct):
    """What is to be done now; each part is handed out once."""

    # To be appended together, in this order. Nothing below may start before that.
    events: list[EventDraft] = msgspec.field(default_factory=list)
    # Wake-ups that are obsolete.
    dropped: list[str] = msgspec.field(default_factory=list)
    starts: list[RunTask] = msgspec.field(default_factory=list)
    stops: list[CancelTask] = msgspec.field(default_factory=list)
    abandoned: list[Abandoned] = msgspec.field(default_factory=list)
    timers: list[SetTimer] = msgspec.field(default_factory=list)
    cancelled_timers: list[str] = msgspec.field(default_factory=list)
    probes: list[Probe] = msgspec.field(default_factory=list)


class Follower:
    def __init__(self, machine: Machine, identity: RunIdentity, max_parallel: int | None = None) -> None:
        """`max_parallel`: the limit of a host that executes fewer concurrent tasks than the plan allows."""
        self.machine = machine
        self._identity = identity
        self._queue = TaskQueue(max_parallel or machine.plan.workflow.max_parallel)
        # In the log but not folded, because an earlier record is missing.
        self._ahead: dict[int, LoggedEvent] = {}
        self._work = Work()
        # Not handed out yet, by key.
        self._timers: dict[str, SetTimer] = {}
        self._probes: dict[str, Probe] = {}
        # Submitted by the host since the last `take`.
        self._submitted: list[EventDraft] = []
        # Why a running attempt is to be stopped.
        self._stop_codes: dict[TaskKey, str] = {}
        self._carried = Carried()
        # Attempts whose end is being appended, or is in the log but not folded.
        self._answered: set[TaskKey] = set()

    # --- what is known ----------------------------------------------------------------------------

    @property
    def running(self) -> int:
        return self._queue.running

    @property
    def has_gap(self) -> bool:
        """Whether records are missing after the last one that was folded."""
        return bool(self._ahead)

    def has_work(self, *, starts: bool = True) -> bool:
        work = self._work
        return bool(
            work.events
            or work.dropped
            or work.stops
            or work.abandoned
            or work.cancelled_timers
            or self._timers
            or self._probes
            or self._carried.is_due
            or (starts and self._may_start())
        )

    def _may_start(self) -> bool:
        queue = self._queue
        return bool(queue.waiting) and queue.has_room() and not self.machine.hold.reasons

    # --- the log ----------------------------------------------------------------------------------

    def learn(self, events: Iterable[LoggedEvent]) -> None:
        """Learn what is in the log, in any order; what was folded already changes nothing."""
        machine = self.machine
        for event in events:
            if event.run_seq > machine.last_seq:
                self._ahead[event.run_seq] = event
        while (found := self._ahead.pop(machine.last_seq + 1, None)) is not None:
            self._fold(found)

    def accept_gap(self, read_to: int) -> None:
        """The log was read up to this record and everything found was learned: what is missing before it does
        not exist.

        Later records that were learned have to wait: other processes may have appended something before them
        after the log was read.
        """
        machine = self.machine
        for run_seq in sorted(one for one in self._ahead if one <= read_to):
            if run_seq > machine.last_seq:
                self._fold(self._ahead[run_seq])
            del self._ahead[run_seq]
        self.learn(())

    def _fold(self, event: LoggedEvent) -> None:
        self._carried.folded(event)
        if event.event_type == EventType.SIGNAL_ACCEPTED:
            self._work.dropped.append(signal_wake_up(str(event.payload.get("signalId"))))
        elif event.event_type in TASK_ENDS:
            self._forget((event.path or "", event.attempt))
        self._obey(self.machine.advance(event.record(self._identity)))

    def _forget(self, key: TaskKey) -> None:
        """The end of the attempt is recorded."""
        self._queue.free((key,))
        self._stop_codes.pop(key, None)
        self._answered.discard(key)

    # --- what happens -----------------------------------------------------------------------------

    def submit(self, *drafts: EventDraft) -> None:
        """Submit events that are to be recorded."""
        self._work.events += drafts
        self._submitted += drafts

    def fired(self, timer: SetTimer) -> None:
        self.submit(EventDraft(EventType.TIMER_FIRED, None, 1, {"key": timer.key}, timer.key, timer.due))

    def answered(self, probe: Probe, answers: list[bool]) -> None:
        payload = {"key": probe.key, "answers": answers}
        self.submit(EventDraft(EventType.PROBE_ANSWERED, None, 1, payload, probe.key))

    def performed(self, task: RunTask, stopped: dict[str, object] | None = None) -> None:
        """An attempt is over. Its end is in the log, unless it was stopped: then only its facts are known."""
        key = (task.path, task.attempt)
        if stopped is None:
            self._carried.recorded(key)
        code = self._take_back(key)
        if stopped is not None and self._is_open(key):
            self._work.events.append(_stopped(key, code or "CANCELLED", stopped))
        if self._is_awaited(key):
            self._answered.add(key)

    def lost(self, task: RunTask) -> None:
        """The worker of an attempt is gone or has never started."""
        key = (task.path, task.attempt)
        code = self._take_back(key)
        if not self._is_open(key):
            return
        if code is not None:
            self._abandon(key, _stopped(key, code))
        elif task.step.idempotent or not self.machine.has_started(*key):
            # If it had started and the log was not read that far, its next worker will find StepStarted
            # there.
            self._queue.queue(task)
        else:
            self._abandon(key, EventDraft(EventType.STEP_INTERRUPTED, *key))

    def refused(self, task: RunTask) -> None:
        """The run was paused before the attempt started: nothing was done or recorded. It goes to the front
        of the queue.
        """
        key = (task.path, task.attempt)
        code = self._take_back(key)
        if not self._is_open(key):
            return
        if code is not None:
            self._answer(_stopped(key, code))
        else:
            self._queue.put_back(task)

    def _take_back(self, key: TaskKey) -> str | None:
        """No worker has the attempt any more. Returns the code with which it was to be stopped."""
        self._queue.free((key,))
        self._work.dropped += self._carried.take_back(key)
        return self._stop_codes.pop(key, None)

    def _is_awaited(self, key: TaskKey) -> bool:
        """Whether its end has not been folded."""
        return key in self.machine.waits

    def _is_open(self, key: TaskKey) -> bool:
        """Whether, as far as is known, it has no end and none is being recorded."""
        return self._is_awaited(key) and key not in self._answered

    def _answer(self, end: EventDraft) -> None:
        """Record the end of an attempt, once."""
        self._answered.add((end.path or "", end.attempt))
        self._work.events.append(end)

    def _abandon(self, key: TaskKey, end: EventDraft) -> None:
        self._answered.add(key)
        self._work.abandoned.append(Abandoned(*key, end))

    def restart(self, carried_out_elsewhere: Collection[TaskKey] | None = None) -> None:
        """The log was read to its end by a host that has done nothing yet: only what is owed now counts.

        `carried_out_elsewhere`: attempts that workers have, or will get without this host. If given, every
        other attempt that has started is ordered again, and its lease shows the worker whether another one
        may have started it.
        """
        self._work = Work(events=list(self._submitted), dropped=self._work.dropped)
        self._timers.clear()
        self._probes.clear()
        self._queue.clear_queue()
        self._answered.clear()
        for command in self.machine.outstanding():
            if not isinstance(command, RunTask | CancelTask) or not self._has_started(command):
                self._obey((command,))
            elif carried_out_elsewhere is not None:
                self._continue(command, carried_out_elsewhere)
            elif isinstance(command, CancelTask):
                key = (command.path, command.attempt)
                self._abandon(key, _stopped(key, stop_code(command)))
            elif command.step.idempotent:
                self._obey((command,))
            else:
                key = (command.path, command.attempt)
                self._abandon(key, EventDraft(EventType.STEP_INTERRUPTED, *key))

    def _has_started(self, command: RunTask | CancelTask) -> bool:
        return self.machine.has_started(command.path, command.attempt)

    def _continue(self, command: RunTask | CancelTask, elsewhere: Collection[TaskKey]) -> None:
        """Continue an attempt that has started."""
        key = (command.path, command.attempt)
        if isinstance(command, CancelTask) or key in elsewhere:
            self._queue.occupy((key,))
        if isinstance(command, CancelTask) or key not in elsewhere:
            self._obey((command,))

    # --- what is to be done -----------------------------------------------------------------------

    def take(self, *, starts: bool = True) -> Work:
        work, self._work, self._submitted = self._work, Work(), []
        work.timers, self._timers = list(self._timers.values()), {}
        work.probes, self._probes = list(self._probes.values()), {}
        while starts and not self.machine.hold.reasons and (task := self._queue.take_next()) is not None:
            key = (task.path, task.attempt)
            if not self.machine.may_start(*key):
                continue  # stopped before a slot was free, and answered by what stopped it
            self._queue.occupy((key,))
            work.starts.append(task)
            if not self.machine.has_started(*key):
                work.events.append(EventDraft(EventType.STEP_STARTED, *key, task.facts))
        work.events = self._carried.before(work.events)
        if self._has_decided_the_end():
            work.events = _to_the_end(work.events)
        return work

    def _has_decided_the_end(self) -> bool:
        machine = self.machine
        return machine.terminal or (bool(machine.records) and machine.records[-1].event_type in RUN_ENDS)

    def carry(self, task: RunTask, events: list[EventDraft], dropped: list[str] | None = None) -> None:
        """Give a task's worker events to record first, all of them in one transaction."""
        self._carried.give((task.path, task.attempt), events, dropped or [])

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
                    self._timers[command.key] = command
                case CancelTimer():
                    self._cancel_timer(command.key)
                case Probe():
                    self._probes[command.key] = command
                case _:
                    pass  # reports are for views

    def _cancel_timer(self, key: str) -> None:
        """Also cancels a probe. One that was not handed out yet is discarded."""
        if self._timers.pop(key, None) is None and self._probes.pop(key, None) is None:
            self._work.cancelled_timers.append(key)

    def _stop(self, command: CancelTask) -> None:
        """Answer every CancelTask, including those for unknown tasks."""
        key, code = (command.path, command.attempt), stop_code(command)
        if key in self._answered:
            return
        if self._queue.is_running(key):
            self._stop_codes.setdefault(key, code)
            self._work.stops.append(command)
        else:
            self._queue.drop(key)
            self._answer(_stopped(key, code))


def _to_the_end(events: list[EventDraft]) -> list[EventDraft]:
    """The events up to the end of the run: nothing is recorded after it. If it is not among these, it was
    handed out before.
    """
    for place, draft in enumerate(events):
        if draft.event_type in RUN_ENDS:
            return events[: place + 1]
    return []


def _stopped(key: TaskKey, code: str, facts: dict[str, object] | None = None) -> EventDraft:
    return EventDraft(EventType.STEP_FAILED, *key, stopped_payload(code, facts))
