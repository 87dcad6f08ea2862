"""What a driver appends in one transaction, and what it does once that is in the log."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from podium.log.events import MAX_PAYLOAD_BYTES, EventType, EventWrite, RunIdentity, encode_payload
from podium.log.times import Timestamp
from podium.log.transitions import TASK_ENDS
from podium.machine import Machine
from podium.machine.answers import subject_of
from podium.machine.commands import (
    CancelTask,
    CancelTimer,
    Command,
    Probe,
    Record,
    Report,
    RunTask,
    SetTimer,
)
from podium.machine.task_queue import TaskKey
from podium.runtime.acting import Actions
from podium.runtime.expiring import ArtifactAges, encoded_with_expiry, with_expiry
from podium.runtime.inbox import PendingEvent
from podium.runtime.spilling import is_spilled
from podium.runtime.task_slots import TaskSlots
from podium.runtime.writing import foreseen, new_event

_STEP_STARTED: Final = EventType.STEP_STARTED.value


class Batch:
    def __init__(
        self,
        machine: Machine,
        identity: RunIdentity,
        now: Callable[[], Timestamp],
        slots: TaskSlots,
        actions: Actions,
        artifact_ages: ArtifactAges,
    ) -> None:
        self._machine = machine
        self._identity = identity
        self._now = now
        self._slots = slots
        self._actions = actions
        self._artifact_ages = artifact_ages
        self.writes: list[EventWrite] = []
        self.reports: list[Report] = []
        self.acts: list[Callable[[], None]] = []
        self.timers: list[SetTimer] = []
        self.dropped: list[str] = []
        # The append fails if the log has a record after this one.
        self.after = machine.last_seq
        # Slots taken and released, to be restored if the batch is discarded.
        self._started: list[TaskKey] = []
        self._ended: list[TaskKey] = []
        # False if a payload is larger than an event may be.
        self.fits = True
        # Time of the newest event: what follows from it has the same time. None: not known yet.
        self._at: Timestamp | None = None

    def fold(self, pending: PendingEvent) -> None:
        """Record an event, and fold what follows from it."""
        self._at = max(self._now(), pending.due)
        self._fold(pending)

    def obey(self, commands: Iterable[Command]) -> None:
        """Perform what was ordered before, or because of what another process has recorded."""
        self._at = None
        self._obey(commands)

    def _fold(self, pending: PendingEvent) -> None:
        machine = self._machine
        if self._at is None:
            self._at = self._now()
        if not self.writes:
            self.after = machine.last_seq
        payload, encoded = pending.payload, pending.encoded
        if pending.event_type in TASK_ENDS and "artifacts" in payload:
            payload = with_expiry(payload, self._at, self._artifact_ages)
            if encoded is not None:
                encoded = encoded_with_expiry(encoded, self._at, self._artifact_ages)
        write = new_event(
            self._identity,
            pending.event_type,
            self._at,
            encoded if encoded is not None else encode_payload(payload),
            step_id=pending.path,
            attempt=pending.attempt,
            engine_attempt=pending.engine_attempt,
            subject=pending.subject,
        )
        self.fits &= len(write.payload) <= MAX_PAYLOAD_BYTES
        self.writes.append(write)
        if pending.subject is not None and pending.event_type == EventType.TIMER_FIRED:
            self.dropped.append(pending.subject)
        whole_payload = encode_payload(payload) if is_spilled(write.payload) else write.payload
        self._obey(machine.advance(foreseen(self._identity, write, machine.last_seq + 1, whole_payload)))
        if pending.event_type in TASK_ENDS:
            key = (str(pending.path), pending.attempt)
            if self._slots.is_running(key):
                self._slots.free((key,))
                self._ended.append(key)

    def _obey(self, commands: Iterable[Command]) -> None:
        records: list[Record] = []
        for command in commands:
            match command:
                case Record():
                    records.append(command)
                case RunTask():
                    self._slots.queue(command)
                case CancelTask():
                    self.acts.append(partial(self._actions.stop, command))
                case SetTimer():
                    self.timers.append(command)
                    self.acts.append(partial(self._actions.timers.set, command))
                case CancelTimer():
                    self.dropped.append(command.key)
                    self.acts.append(partial(self._actions.timers.drop, command.key))
                case Probe():
                    self.acts.append(partial(self._actions.probe, command))
                case _:
                    self.reports.append(command)
        for record in records:
            subject = subject_of(record)
            self._fold(
                PendingEvent(record.event_type, record.path, record.attempt, record.payload, subject=subject)
            )

    def start_waiting(self) -> None:
        """Start tasks for which there are free slots: their StepStarted is in the same transaction.

        While the run is held they keep waiting, including those that an earlier process had started: after
        RunPaused nothing starts.
        """
        machine, slots = self._machine, self._slots
        while not machine.hold.reasons and (task := slots.take_next()) is not None:
            key = (task.path, task.attempt)
            if not machine.may_start(*key):
                continue  # stopped before a slot was free, and answered by what stopped it
            slots.occupy((key,))
            self._started.append(key)
            if not machine.has_started(*key):
                engine_attempt = slots.engine_attempt(key)
                facts = task.facts if task.change is not None else {}
                self._fold(PendingEvent(_STEP_STARTED, *key, facts, engine_attempt))
            self.acts.append(partial(self._actions.start, task))

    @property
    def starts_tasks(self) -> bool:
        return bool(self._started)

    @property
    def only_starts_tasks(self) -> bool:
        """Whether nothing remains to be stored if the tasks do not start."""
        return all(write.event_type == EventType.STEP_STARTED for write in self.writes)

    def undo(self) -> None:
        """The append was refused: restore the slots of tasks that were to start or have ended."""
        self.undo_started()
        self._slots.occupy(self._ended)

    def undo_started(self) -> None:
        self._slots.free(self._started)
