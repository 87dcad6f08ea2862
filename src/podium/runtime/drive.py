"""The loop that drives a run: read, decide, record, act. It holds no rule about workflows.

Whatever happens (a task ends, a timer is due, the world answers) is folded by the machine first; then the event and all
that was decided because of it are appended in one transaction, on condition that nothing came in between; and only then
is anything performed. So a step costs one commit, and a crash repeats a command but never forgets one. If something
did come in between (a signal from another process), the log is read again and folded in its own order.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Protocol
from uuid import uuid4

from podium.core.keys import key_v1, slot_of
from podium.core.machine import Machine
from podium.errors import LogMoved, StaleFence
from podium.model.commands import CancelTask, CancelTimer, Command, Probe, Question, Record, RunTask, SetTimer
from podium.model.events import EventRecord, EventType, EventWrite, RunIdentity, encode_payload
from podium.model.leases import Fence, WakeUp
from podium.model.plan import Plan
from podium.model.times import moment, timestamp
from podium.ports.clock import Clock
from podium.ports.store import EventLog
from podium.runtime.recording import Recorder
from podium.runtime.tasks.order import TaskResult

Observer = Callable[[Sequence[EventRecord]], None]

_READ_AT_ONCE: Final = 5000
_LOOK_SECONDS: Final = 0.1
# So that one commit does not grow without end while its caller waits.
_MOST_AT_ONCE: Final = 500


class Tasks(Protocol):
    """Carries out tasks. `start` returns at once; the result is handed to `done`."""

    def start(self, task: RunTask, engine_attempt: int, done: Callable[[TaskResult], None]) -> None: ...

    def stop(self, path: str, attempt: int, code: str, *, force: bool) -> bool:
        """Ask a task to end; False if there is none."""
        ...

    async def stop_orphans(self) -> None:
        """What an earlier process of this run has left running on this host."""
        ...


@dataclass(slots=True)
class World:
    """What a driver needs."""

    log: EventLog
    clock: Clock
    tasks: Tasks
    ask: Callable[[Question], bool]
    observers: list[Observer] = field(default_factory=list)
    # Things to do with a payload before it is stored: large fields go to artifacts.
    spill: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]] | None = None


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that is to be recorded."""

    event_type: str
    path: str | None = None
    attempt: int = 1
    payload: dict[str, Any] = field(default_factory=dict)
    engine_attempt: int = 1
    # Timers, probes and signals are told apart by what they are about.
    subject: str | None = None


class Driver:
    """Drives one run, from where its log stands to its end."""

    def __init__(self, plan: Plan, identity: RunIdentity, fence: Fence, world: World) -> None:
        self._plan = plan
        self._identity = identity
        self._fence = fence
        self._world = world
        self._recorder = Recorder(world.log)
        self.machine = Machine(plan)
        self._inbox: deque[Happening] = deque()
        self._wake = asyncio.Event()
        # Ordered and not begun: there is no free slot.
        self._waiting: deque[RunTask] = deque()
        self._running: set[tuple[str, int]] = set()
        self._engine_attempts: dict[tuple[str, int], int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._lost: Exception | None = None

    @property
    def running(self) -> int:
        return len(self._running)

    def happen(self, happening: Happening) -> None:
        """Tell the driver of something; it is recorded in its turn."""
        self._inbox.append(happening)
        self._wake.set()

    def lose(self, reason: Exception) -> None:
        """The lease is gone: stop without writing anything more."""
        self._lost = reason
        self._wake.set()

    async def drive(self) -> EventRecord:
        """To the end of the run; returns its terminal event. Raises `StaleFence` if somebody else has taken over."""
        last = await self._catch_up()
        watching = asyncio.create_task(self._watch())
        try:
            if not self.machine.terminal:
                await self._begin_again()
            while not self.machine.terminal:
                if not self._inbox:
                    self._wake.clear()
                    await self._wake.wait()
                if self._lost is not None:
                    raise self._lost
                last = await self._take() or last
            assert last is not None
            return last
        finally:
            watching.cancel()
            for timer in self._timers.values():
                timer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    # --- reading ----------------------------------------------------------------------------------

    async def _catch_up(self) -> EventRecord | None:
        """Fold what is in the log; returns the last record."""
        last: EventRecord | None = None
        while True:
            records = await self._world.log.read(
                self._identity.run_id, after=self.machine.last_seq, limit=_READ_AT_ONCE
            )
            for record in records:
                self.machine.advance(record)
                if record.event_type == EventType.STEP_STARTED and record.step_id is not None:
                    self._engine_attempts[record.step_id, record.logical_attempt_id] = (
                        record.engine_attempt_id
                    )
            if not records:
                return last
            last = records[-1]

    async def _watch(self) -> None:
        """Look now and then for what others write: signals. A busy run learns of them at its next append anyway."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if await self._world.log.read(self._identity.run_id, after=self.machine.last_seq, limit=1):
                self.happen(_NUDGE)

    async def _begin_again(self) -> None:
        """After a replay: everything that is owed. What was begun before may have left processes behind."""
        owed = self.machine.outstanding()
        begun = [command for command in owed if isinstance(command, RunTask) and self._has_started(command)]
        if begun:
            await self._world.tasks.stop_orphans()
        for command in begun:
            key = (command.path, command.attempt)
            self._engine_attempts[key] = self._engine_attempts.get(key, 1) + 1
            if not command.step.idempotent:
                # Nobody knows whether it happened: that is for the plan, or a person, to decide.
                owed.remove(command)
                self.happen(Happening(EventType.STEP_INTERRUPTED, *key))
        batch = _Batch(self)
        batch.obey(owed)
        await self._commit(batch)

    def _has_started(self, task: RunTask) -> bool:
        visit = self.machine.waits.get((task.path, task.attempt))
        return visit is not None and visit.started

    async def _rebuild(self) -> EventRecord | None:
        """The log has moved on: fold it again, in its own order. What runs goes on running."""
        self.machine = Machine(self._plan, self.machine.program)
        await self._catch_up()
        owed = self.machine.outstanding()
        self._waiting.clear()
        due = {command.key for command in owed if isinstance(command, SetTimer)}
        for key in [key for key in self._timers if key not in due]:
            self._timers.pop(key).cancel()
        batch = _Batch(self)
        batch.obey(
            command
            for command in owed
            if not (isinstance(command, RunTask) and (command.path, command.attempt) in self._running)
            and not (isinstance(command, SetTimer) and command.key in self._timers)
        )
        return await self._commit(batch)

    # --- deciding and recording -------------------------------------------------------------------

    async def _take(self) -> EventRecord | None:
        """Fold what has happened, record it with all that follows from it, and act."""
        batch = _Batch(self)
        taken: list[Happening] = []
        try:
            while self._inbox and len(batch.writes) < _MOST_AT_ONCE:
                happening = self._inbox.popleft()
                if happening is _NUDGE:
                    if not taken:
                        await self._read_on(batch)
                    else:
                        self._inbox.appendleft(happening)
                        break
                    continue
                taken.append(happening)
                if happening.event_type in _ENDS_OF_TASKS:
                    self._running.discard((str(happening.path), happening.attempt))
                if self._world.spill is not None:
                    happening = await self._spilled(happening)
                batch.fold(happening)
            return await self._commit(batch)
        except LogMoved:
            self._inbox.extendleft(reversed(taken))
        while True:
            # Bounded by what others write; each time round their events are in the log and folded.
            with contextlib.suppress(LogMoved):
                return await self._rebuild()

    async def _spilled(self, happening: Happening) -> Happening:
        assert self._world.spill is not None
        return replace(happening, payload=await self._world.spill(happening.payload))

    async def _read_on(self, batch: "_Batch") -> None:
        """What others have written, in its order."""
        records = await self._world.log.read(
            self._identity.run_id, after=self.machine.last_seq, limit=_READ_AT_ONCE
        )
        for record in records:
            batch.obey(self.machine.advance(record))
        self._tell(records)

    async def _commit(self, batch: "_Batch") -> EventRecord | None:
        """Append, then act. Nothing is performed that is not in the log."""
        batch.begin_waiting()
        last: EventRecord | None = None
        if batch.writes:
            appended = await self._recorder.append(
                self._identity.run_id,
                batch.writes,
                fence=self._fence,
                after=batch.after,
                set_wake_ups=[
                    WakeUp(run_id=self._identity.run_id, key=t.key, due=t.due) for t in batch.timers
                ],
                drop_wake_ups=batch.dropped,
            )
            assert appended is not None
            records = [one.record for one in appended]
            last = records[-1]
            self._tell(records)
        for act in batch.acts:
            act()
        return last

    def _tell(self, records: Sequence[EventRecord]) -> None:
        if records:
            for observer in self._world.observers:
                observer(records)

    # --- acting -----------------------------------------------------------------------------------

    def has_room(self) -> bool:
        return len(self._running) < self._plan.workflow.max_parallel

    def start(self, task: RunTask) -> None:
        key = (task.path, task.attempt)
        engine_attempt = self._engine_attempts.get(key, 1)

        def done(result: TaskResult) -> None:
            self.happen(Happening(result.event_type, *key, result.payload, engine_attempt))

        self._world.tasks.start(task, engine_attempt, done)

    def stop(self, command: CancelTask) -> None:
        """Every CancelTask is answered, also for a task that nobody knows."""
        for task in self._waiting:
            if (task.path, task.attempt) == (command.path, command.attempt):
                self._waiting.remove(task)
                break
        if not self._world.tasks.stop(command.path, command.attempt, command.code, force=command.force):
            code = "CANCELLED" if command.code == "FORCED" else command.code
            error = {"category": "USER", "code": code, "message": "stopped", "retryable": False}
            self.happen(Happening(EventType.STEP_FAILED, command.path, command.attempt, {"error": error}))

    def set_timer(self, timer: SetTimer) -> None:
        seconds = max(0.0, (moment(timer.due) - self._world.clock.now()) / timedelta(seconds=1))
        loop = asyncio.get_running_loop()
        self._timers[timer.key] = loop.call_later(seconds, self._fire, timer)

    def _fire(self, timer: SetTimer) -> None:
        # The loop's clock and the wall clock drift: a timer is not due before its time.
        if self._world.clock.now() < moment(timer.due):
            self.set_timer(timer)
            return
        self._timers.pop(timer.key, None)
        self.happen(Happening(EventType.TIMER_FIRED, payload={"key": timer.key}, subject=timer.key))

    def drop_timer(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def probe(self, probe: Probe) -> None:
        answers = [self._world.ask(question) for question in probe.questions]
        payload = {"key": probe.key, "answers": answers}
        self.happen(Happening(EventType.PROBE_ANSWERED, payload=payload, subject=probe.key))

    def now(self) -> datetime:
        return self._world.clock.now()


_NUDGE: Final = Happening("")
_ENDS_OF_TASKS: Final = frozenset(
    {EventType.STEP_COMPLETED, EventType.STEP_FAILED, EventType.STEP_INTERRUPTED}
)


class _Batch:
    """What is appended in one transaction, and what is done once it is there."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.writes: list[EventWrite] = []
        self.acts: list[Callable[[], None]] = []
        self.timers: list[SetTimer] = []
        self.dropped: list[str] = []
        # Nothing may have come after this record.
        self.after = driver.machine.last_seq

    def fold(self, happening: Happening) -> None:
        """Record something, and learn what follows from it."""
        driver = self._driver
        if not self.writes:
            self.after = driver.machine.last_seq
        write = _write(driver._identity, happening, timestamp(driver.now()))
        self.writes.append(write)
        if happening.event_type == EventType.TIMER_FIRED and happening.subject is not None:
            self.dropped.append(happening.subject)
        record = EventRecord(
            driver._identity,
            driver.machine.last_seq + 1,
            write.event_id,
            write.event_type,
            write.step_id,
            write.logical_attempt_id,
            write.engine_attempt_id,
            write.idempotency_key,
            write.emitted_at,
            write.emitted_at,
            write.payload,
        )
        self.obey(driver.machine.advance(record))

    def obey(self, commands: Any) -> None:
        driver = self._driver
        records: list[Record] = []
        for command in commands:
            match command:
                case Record():
                    records.append(command)
                case RunTask():
                    driver._waiting.append(command)
                case CancelTask():
                    self.acts.append(partial(driver.stop, command))
                case SetTimer():
                    self.timers.append(command)
                    self.acts.append(partial(driver.set_timer, command))
                case CancelTimer():
                    self.dropped.append(command.key)
                    self.acts.append(partial(driver.drop_timer, command.key))
                case Probe():
                    self.acts.append(partial(driver.probe, command))
        for record in records:
            subject = (
                record.payload.get("signalId") if record.event_type == EventType.SIGNAL_IGNORED else None
            )
            self.fold(
                Happening(record.event_type, record.path, record.attempt, record.payload, subject=subject)
            )

    def begin_waiting(self) -> None:
        """Begin tasks for which there is room: their StepStarted stands in the same transaction."""
        driver = self._driver
        while driver._waiting and driver.has_room():
            task = driver._waiting.popleft()
            key = (task.path, task.attempt)
            if key not in driver.machine.waits:
                continue  # stopped before there was room
            driver._running.add(key)
            attempt = driver._engine_attempts.setdefault(key, 1)
            if attempt == 1:
                self.fold(Happening(EventType.STEP_STARTED, *key, engine_attempt=attempt))
            self.acts.append(partial(driver.start, task))


def _write(identity: RunIdentity, happening: Happening, at: str) -> EventWrite:
    slot = slot_of(happening.event_type, step_id=happening.path, subject=happening.subject)
    return EventWrite(
        event_id=str(uuid4()),
        event_type=happening.event_type,
        idempotency_key=key_v1(
            identity.run_id, slot, happening.attempt, happening.event_type, identity.plan_version
        ),
        emitted_at=at,
        step_id=happening.path,
        logical_attempt_id=happening.attempt,
        engine_attempt_id=happening.engine_attempt,
        payload=encode_payload(happening.payload),
    )


__all__ = ["Command", "Driver", "Happening", "Observer", "StaleFence", "Tasks", "World"]
