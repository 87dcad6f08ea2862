"""The loop that drives a run: read, decide, record, act. It holds no rule about workflows.

Whatever happens (a task ends, a timer is due, the world answers) is folded by the machine first; then the event and all
that was decided because of it are appended in one transaction, on condition that nothing came in between; and only then
is anything performed. So a step costs one commit, and a crash repeats a command but never forgets one. If something
did come in between (a signal from another process), nothing of it counts: the log is read again and folded in its own
order, and what had happened is taken up once more.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from podium.errors import InvalidEvent, LogMoved, PodiumError, StaleFence, StoreUnavailable
from podium.log.events import (
    MAX_PAYLOAD_BYTES,
    EventRecord,
    EventType,
    EventWrite,
    RunIdentity,
    check_payload,
    encode_payload,
)
from podium.log.leases import UNFENCED, Fence, WakeUp
from podium.log.times import Timestamp, timestamp
from podium.machine import Machine
from podium.machine.commands import (
    CancelTask,
    CancelTimer,
    Command,
    Probe,
    Question,
    Record,
    RunTask,
    SetTimer,
)
from podium.machine.tree import EndedIteration
from podium.plan.plan import Plan
from podium.ports.clock import Clock
from podium.ports.store import AppendedEvent, Store
from podium.runtime.checkpoints import CheckpointWriter, Saved, decode_machine, encode_machine
from podium.runtime.drive_clock import MAX_WAIT_SECONDS, DriveClock
from podium.runtime.outages import Outages
from podium.runtime.recording import WRITE_BUDGET, Recorder
from podium.runtime.spilling import Values, is_spilled, spill, whole
from podium.runtime.tasks.order import TaskResult, stopped
from podium.runtime.writing import foreseen, new_event

Observer = Callable[[Sequence[EventRecord]], None]

_READ_BATCH: Final = 5000
_LOOK_SECONDS: Final = 0.1
# While the store is away.
_LOOK_AGAIN_SECONDS: Final = 0.5
# So that one commit does not grow without end while its caller waits.
_BATCH_SIZE: Final = 500
# What views wait for at most: so many records, or so long. A function that blocks this process must not hide itself.
_MAX_PENDING_VIEWS: Final = 100
_MAX_VIEW_DELAY: Final = 0.25
# How many events pass before the next checkpoint: so many, and one for so many bytes that it takes.
CHECKPOINT_EVERY: Final = 5000
_BYTES_PER_EVENT: Final = 512
# A driver that leaves an open run saves one if a resume would have to read more than this.
_LONG_TAIL: Final = 1000


class LogDoesNotFit(PodiumError):
    """What is in the log is not what the plan leads to: it was replaced by hand."""

    code = "LOG_DOES_NOT_FIT"


class _LeaseLapsed(Exception):
    """While the store was away. Not an answer of the store: it may be readable and still not writable."""


class Tasks(Protocol):
    """Carries out tasks. `start` returns at once; the result is handed to `done`."""

    def start(self, task: RunTask, engine_attempt: int, done: Callable[[TaskResult], None]) -> None: ...

    def stop(self, path: str, attempt: int, code: str, *, force: bool) -> bool:
        """Ask a task to end; False if there is none."""
        ...

    async def stop_orphans(self) -> None:
        """What an earlier process of this run has left running on this host."""
        ...


class World(msgspec.Struct):
    """What a driver needs."""

    log: Store
    clock: Clock
    tasks: Tasks
    ask: Callable[[Question], bool]
    # Told of every record once and in order, from the run's first one on, many at a time: files are made from them.
    views: list[Observer] = msgspec.field(default_factory=list)
    # Puts on the disk what the views were told; before a step starts that must not be repeated blindly.
    sync_views: Callable[[], None] | None = None
    # Told of every record once and in order, from now on, at once.
    observers: list[Observer] = msgspec.field(default_factory=list)
    # What to do when the store is away; None: give up at once.
    outages: Outages | None = None
    # Where values go that are too large for an event; made when the first one comes.
    payloads: Callable[[], Values] | None = None
    # Where checkpoints are saved.
    checkpoints: CheckpointWriter | None = None


class PendingEvent(msgspec.Struct, eq=False):
    """Something that is to be recorded."""

    event_type: str
    path: str | None = None
    attempt: int = 1
    payload: dict[str, Any] = msgspec.field(default_factory=dict)
    engine_attempt: int = 1
    # Timers, probes and signals are told apart by what they are about.
    subject: str | None = None
    # The payload as it is stored, if that is known already.
    encoded: bytes | None = None
    # When it was due: it is not recorded with an earlier time.
    due: Timestamp = ""

    @property
    def answers(self) -> "_Key | None":
        """What the machine is owed and gets by this: the end of a task, a timer, an answer."""
        if self.event_type in _ENDS_OF_TASKS:
            return (str(self.path), self.attempt)
        if self.event_type in (EventType.TIMER_FIRED, EventType.PROBE_ANSWERED):
            return self.subject
        return None


_Key: TypeAlias = tuple[str, int] | str


class Driver:
    """Drives one run, from where its log stands to its end."""

    def __init__(self, plan: Plan, identity: RunIdentity, fence: Fence, world: World) -> None:
        self._plan = plan
        self._identity = identity
        self._fence = fence
        self._world = world
        self._clock = DriveClock(world.clock)
        self._recorder = Recorder(world.log)
        self._outages = world.outages or Outages(identity.run_id, self.now)
        # While the lease is claimed again: its fence is about to change.
        self._reclaiming: asyncio.Future[None] | None = None
        # No task is begun: the run has lost its slot.
        self._is_suspended = False
        # By the clock of the loop: until then the run certainly has its slot.
        self._leased_until = math.inf
        self.machine = Machine(plan)
        self.machine.ended_iterations = deque()
        self._inbox: deque[PendingEvent] = deque()
        # What the inbox answers: nobody may be asked for it a second time.
        self._answered: dict[_Key, int] = {}
        self._wake = asyncio.Event()
        # Ordered and not begun: there is no free slot.
        self._waiting: deque[RunTask] = deque()
        self._running: set[tuple[str, int]] = set()
        self._engine_attempts: dict[tuple[str, int], int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._lost: Exception | None = None
        self._views: list[Observer] = []
        self._observers: list[Observer] = []
        # What the views have not been told yet.
        self._untold: list[EventRecord] = []
        self._views_due = 0.0
        # What they may ask of these: the items of iterations, by the paths of the steps inside.
        self._items: dict[str, Any] = {}
        # The same of how they ended.
        self._ended_iterations: deque[EndedIteration] = deque()
        # The log was read to its end once; from here on it is ours.
        self._driving = False
        # What we wrote last, whether or not that was answered.
        self._ours: frozenset[str] = frozenset()
        # The newest record they know of.
        self._told = 0
        # What was to be recorded and was there already, if nothing was recorded since.
        self._found_again: EventRecord | None = None
        self._context: dict[str, Any] | None = None
        # The machine as it stood at some record: a log that has moved on is folded again from there.
        self._kept: bytes | None = None
        self._kept_seq = 0
        self._next_kept = CHECKPOINT_EVERY
        # The run stays open, and this process ends.
        self._leaves = False

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def draining_since(self) -> int | None:
        """The number of the pause that running tasks finish in; None while the run is not paused or nothing runs."""
        return self.machine.pause_cycle if self.machine.hold.reasons and self._running else None

    def submit(self, pending: PendingEvent) -> None:
        """Tell the driver of something; it is recorded in its turn."""
        self._inbox.append(pending)
        self._expect(pending, +1)
        self._wake.set()

    def _expect(self, pending: PendingEvent, number: int) -> None:
        key = pending.answers
        if key is not None:
            left = self._answered.get(key, 0) + number
            if left > 0:
                self._answered[key] = left
            else:
                self._answered.pop(key, None)

    def revoke(self, reason: Exception) -> None:
        """The lease is gone: stop without writing anything more."""
        self._lost = reason
        self._wake.set()

    def leave(self, reason: Exception) -> None:
        """Stop driving an open run, and make it cheap to resume."""
        self._leaves = True
        self.revoke(reason)

    def start_from(self, machine: Machine, saved: Saved) -> None:
        """Continue from a checkpoint instead of the beginning of the log. The views have done so already."""
        self.machine = machine
        self.machine.ended_iterations = deque()
        self._engine_attempts = dict(saved.engine_attempts)
        self._told = self._kept_seq = saved.run_seq
        self._kept = saved.machine
        self._next_kept = saved.run_seq + CHECKPOINT_EVERY

    async def replay(self) -> None:
        """Fold the log and tell the views; nothing is carried out or recorded."""
        self._views = list(self._world.views)
        await self._catch_up()
        self.tell_views()

    async def drive(self) -> EventRecord:
        """To the end of the run; returns its terminal event. Raises `StaleFence` if somebody else has taken over."""
        self._views = list(self._world.views)
        last = await self._catch_up()
        self.tell_views()
        self._driving = True
        self._observers = list(self._world.observers)
        watching = asyncio.create_task(self._watch())
        try:
            if not self.machine.terminal:
                last = await self._retry_on_conflict(self._begin_again) or last
            while not self.machine.terminal:
                # Not if it was stopped while the store answered: that wake-up is over, and no other may come.
                if not self._inbox and self._lost is None:
                    self._wake.clear()
                    await self._wake.wait()
                if self._lost is not None:
                    if self._leaves and self.machine.last_seq > self._kept_seq + _LONG_TAIL:
                        self._checkpoint()
                    raise self._lost
                last = await self._take() or last
            assert last is not None
            return last
        finally:
            self.tell_views()
            watching.cancel()
            for timer in self._timers.values():
                timer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
            if self._world.checkpoints is not None:
                await self._world.checkpoints.close()

    # --- reading ----------------------------------------------------------------------------------

    async def _catch_up(self) -> EventRecord | None:
        """Fold what is in the log; returns the last record."""
        last: EventRecord | None = None
        while True:
            records = await self._read_next()
            for record in records:
                self._check_owner(record)
                self._keep_context(record.event_type)
                self.machine.advance(await whole(record, self._world.payloads))
                self._count_attempt(record)
                # One by one: what is known of this moment only is kept.
                self._tell((record,))
            if not records:
                self._clock.advance_to(self.machine.now)
                self._keep_machine()
                return last
            last = records[-1]

    async def _read_next(self) -> list[EventRecord]:
        """What is in the log and not folded yet; however long the store is away."""
        read = partial(
            self._world.log.read, self._identity.run_id, after=self.machine.last_seq, limit=_READ_BATCH
        )
        try:
            return await read()
        except StoreUnavailable as error:
            return await self._outages.outlast(error, read)

    def _check_owner(self, record: EventRecord) -> None:
        """While we drive, others may only signal. Whoever writes more has taken over: nothing follows from it here."""
        if (
            self._driving
            and record.run_seq > self._told
            and record.event_type not in UNFENCED
            and record.event_id not in self._ours
        ):
            raise StaleFence(
                f"run {self._identity.run_id!r} was taken over by another process; this one writes nothing more"
            )

    def _count_attempt(self, record: EventRecord) -> None:
        """Which engine attempt of a task is under way; forgotten with its end."""
        if record.step_id is None:
            return
        key = (record.step_id, record.logical_attempt_id)
        if record.event_type == EventType.STEP_STARTED:
            # What this process has counted already stands: the log has the first of them only.
            self._engine_attempts.setdefault(key, record.engine_attempt_id)
        elif record.event_type in _ENDS_OF_TASKS:
            self._engine_attempts.pop(key, None)

    async def _watch(self) -> None:
        """Look now and then for what others write: signals. A busy run learns of them at its next append anyway."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                found = await self._world.log.read(
                    self._identity.run_id, after=self.machine.last_seq, limit=1
                )
            except StoreUnavailable as error:
                # A run that has nothing to write is not ended by that; it is only said.
                self._outages.failed(error)
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
                continue
            except PodiumError:
                continue
            self._outages.succeeded()
            if found:
                self.submit(_NUDGE)

    async def _begin_again(self) -> EventRecord | None:
        """After a replay: everything that is owed. What was begun before may have left processes behind."""
        owed = self.machine.outstanding()
        begun = [
            command
            for command in owed
            if isinstance(command, RunTask | CancelTask) and self._has_started(command.path, command.attempt)
        ]
        if begun:
            # Another driver may have taken over while the log was read: then they are not orphans but its tasks.
            await self._prove_lease()
            await self._world.tasks.stop_orphans()
        for command in begun:
            key = (command.path, command.attempt)
            self._engine_attempts[key] = self._engine_attempts.get(key, 1) + 1
            if isinstance(command, RunTask) and not command.step.idempotent:
                # Nobody knows whether it happened: that is for the plan, or a person, to decide.
                self.submit(PendingEvent(EventType.STEP_INTERRUPTED, *key))
        return await self._perform(owed)

    def _has_started(self, path: str, attempt: int) -> bool:
        visit = self.machine.waits.get((path, attempt))
        return visit is not None and visit.started

    async def _rebuild(self) -> EventRecord | None:
        """The log has moved on: fold it again, in its own order. What runs goes on running."""
        program = self.machine.program
        if self._kept is None:
            self.machine = Machine(self._plan, program)
        else:
            self.machine = decode_machine(self._plan, self._kept, program)
        self.machine.ended_iterations = deque()
        last = await self._catch_up()
        if self.machine.terminal:
            return last
        owed = self.machine.outstanding()
        self._waiting.clear()
        due = {command.key for command in owed if isinstance(command, SetTimer)}
        for key in [key for key in self._timers if key not in due]:
            self._timers.pop(key).cancel()
        return await self._perform(owed)

    def _keep_machine(self) -> None:
        """Periodically, when everything that was folded is in the log: one signal must not cost a whole replay."""
        if self.machine.last_seq >= self._next_kept and not self.machine.terminal:
            self._checkpoint()

    def _checkpoint(self) -> None:
        self._kept, self._kept_seq = encode_machine(self.machine), self.machine.last_seq
        size = len(self._kept)
        if self._world.checkpoints is not None:
            self.tell_views()
            size = max(size, self._world.checkpoints.save(self._kept_seq, self._kept, self._engine_attempts))
        self._next_kept = self._kept_seq + max(CHECKPOINT_EVERY, size // _BYTES_PER_EVENT)

    async def _perform(self, owed: Iterable[Command]) -> EventRecord | None:
        """What is owed and neither under way nor answered already."""
        batch = _Batch(self)
        batch.obey(command for command in owed if not self._is_under_way(command))
        return await self._commit(batch)

    def _is_under_way(self, command: Command) -> bool:
        match command:
            case RunTask():
                key = (command.path, command.attempt)
                return key in self._running or key in self._answered
            case SetTimer():
                return command.key in self._timers or command.key in self._answered
            case Probe():
                return command.key in self._answered
            case _:
                return False

    async def _retry_on_conflict(
        self, work: Callable[[], Awaitable[EventRecord | None]]
    ) -> EventRecord | None:
        """Whatever others write in between, is folded before it is tried again: bounded by what they write."""
        while True:
            try:
                return await work()
            except LogMoved:
                work = self._rebuild

    # --- deciding and recording -------------------------------------------------------------------

    async def _take(self) -> EventRecord | None:
        """Fold what has happened, record it with all that follows from it, and act."""
        batch = _Batch(self)
        taken: list[PendingEvent] = []
        try:
            while self._inbox and len(batch.writes) < _BATCH_SIZE and not self.machine.terminal:
                pending = self._inbox[0]
                if pending is _NUDGE:
                    if taken:
                        break
                    self._inbox.popleft()
                    await self._read_on(batch)
                    continue
                if pending.event_type in _ENDS_OF_TASKS and pending.encoded is None:
                    await self._make_storable(pending)
                taken.append(self._inbox.popleft())
                batch.fold(pending)
            last = await self._commit(batch)
        except LogMoved:
            self._inbox.extendleft(reversed(taken))
            return await self._retry_on_conflict(self._rebuild)
        for pending in taken:
            self._expect(pending, -1)
        self._keep_machine()
        return last

    async def _make_storable(self, pending: PendingEvent) -> None:
        """Give it a payload that a store keeps. What cannot be kept is an end too: the step has failed."""
        try:
            encoded = encode_payload(pending.payload)
            if len(encoded) > MAX_PAYLOAD_BYTES and self._world.payloads is not None:
                encoded = await spill(pending.payload, self._world.payloads())
            check_payload(encoded)
            pending.encoded = encoded
        except InvalidEvent as error:
            told = {"category": "USER", "code": error.code, "message": str(error), "retryable": False}
            pending.event_type = EventType.STEP_FAILED
            pending.payload = {"exitCode": _NOT_KEPT, "error": told}

    async def _read_on(self, batch: "_Batch") -> None:
        """What others have written, in its order."""
        records = await self._read_next()
        for record in records:
            self._check_owner(record)
            commands = self.machine.advance(await whole(record, self._world.payloads))
            self._clock.advance_to(self.machine.now)
            batch.obey(commands)
            self._count_attempt(record)
            self._tell((record,))

    async def _commit(self, batch: "_Batch") -> EventRecord | None:
        """Append, then act. Nothing is performed that is not in the log; if the append is refused, nothing counts."""
        batch.begin_waiting()
        last: EventRecord | None = None
        if batch.writes:
            self._ours = frozenset(write.event_id for write in batch.writes)
            try:
                writes = batch.writes if batch.fits else await self._all_storable(batch.writes)
                appended = await self._append(writes, batch)
            except BaseException:
                batch.undo()
                raise
            records = [one.record for one in appended]
            last = records[-1]
            if last.run_seq != batch.after + len(records) or not self._wrote(appended):
                # Some of it was in the log before: elsewhere than where it was folded, or written by another driver,
                # which got there first with the same. Who decided it acts on it.
                batch.undo_begun()
                self._check_that_it_fits(appended)
                return await self._retry_on_conflict(self._rebuild)
            self._found_again = None
            self._tell(records)
        elif batch.starts_tasks:
            await self._prove_lease_for(batch)
        for act in batch.acts:
            act()
        return last

    def _wrote(self, appended: Sequence[AppendedEvent]) -> bool:
        """Whether all of it is ours; what is there already may be, if an append was not answered and repeated."""
        return all(not one.duplicate or one.record.event_id in self._ours for one in appended)

    async def _prove_lease_for(self, batch: "_Batch") -> None:
        """What an earlier process had started is started again without a new event: no append was fenced for it."""
        try:
            await self._prove_lease()
        except BaseException:
            batch.undo()
            raise

    async def _prove_lease(self) -> None:
        """Raises `StaleFence` if the run is not ours any more.

        No check can rule out that the lease is lost right after it; only an append can. So a task that may run twice
        may still run beside that of the next driver, if this process is stopped between here and its start.
        """
        while True:
            if self._lost is not None:
                raise self._lost
            fence = self._fence
            if await self._is_current(fence):
                return
            if self._reclaiming is not None:
                await asyncio.wait((self._reclaiming,))
            if fence == self._fence:
                raise StaleFence(
                    f"run {self._identity.run_id!r} was taken over by another driver; nothing more is started here"
                )

    async def _is_current(self, fence: Fence) -> bool:
        ask = partial(self._world.log.held_lease, self._identity.run_id)
        try:
            held = await ask()
        except StoreUnavailable as error:
            held = await self._outages.outlast(error, ask)
        return held is not None and held.is_live and held.lease.fence == fence

    async def _append(self, writes: list[EventWrite], batch: "_Batch") -> Sequence[AppendedEvent]:
        try:
            appended = await self._append_under(self._fence, writes, batch)
            self._outages.stored()  # the watcher may have found the store away meanwhile
            return appended
        except StoreUnavailable as error:
            again = partial(self._append_again, writes, batch)
            try:
                return await self._outages.outlast(error, again, tried=WRITE_BUDGET)
            except _LeaseLapsed:
                # Decided again, without the tasks. The lease keeper ends the suspension when it has claimed the lease.
                self._is_suspended = True
                if batch.only_starts_tasks:
                    self._outages.stop_waiting()
                raise LogMoved(self._identity.run_id, ()) from None

    async def _append_again(self, writes: list[EventWrite], batch: "_Batch") -> Sequence[AppendedEvent]:
        """After an outage. The lease may have lapsed, and another run may work in the slot: then no task starts."""
        if batch.starts_tasks and await self._has_lapsed():
            raise _LeaseLapsed
        return await self._append_under(self._fence, writes, batch)

    async def _has_lapsed(self) -> bool:
        fence = self._fence
        held = await self._world.log.held_lease(self._identity.run_id)
        # If it was claimed again while the store was asked, the fence is another one.
        return fence == self._fence and (held is None or not held.is_live)

    async def _append_under(
        self, fence: Fence, writes: list[EventWrite], batch: "_Batch"
    ) -> Sequence[AppendedEvent]:
        try:
            return await self._recorder.append(
                self._identity.run_id,
                writes,
                fence=fence,
                after=batch.after,
                set_wake_ups=[
                    WakeUp(run_id=self._identity.run_id, key=t.key, due=t.due) for t in batch.timers
                ],
                drop_wake_ups=batch.dropped,
            )
        except StaleFence:
            if self._reclaiming is not None:
                await asyncio.wait((self._reclaiming,))
            if fence == self._fence:
                raise
        # The lease had lapsed, and this process has claimed it again.
        return await self._append_under(self._fence, writes, batch)

    def begin_reclaiming(self) -> None:
        """The lease has lapsed and is about to be claimed again: what is refused meanwhile is tried once more."""
        self._reclaiming = asyncio.get_running_loop().create_future()

    def end_reclaiming(self, fence: Fence) -> None:
        """With the old fence if it was not claimed."""
        self._fence = fence
        if self._reclaiming is not None:
            self._reclaiming.set_result(None)
            self._reclaiming = None

    def leased_until(self, until: float) -> None:
        """The lease was renewed, and with it the slot."""
        self._leased_until = until
        self.suspend(suspended=False)

    def suspend(self, *, suspended: bool) -> None:
        """Begin no task, until the run has a slot again."""
        if self._is_suspended and not suspended:
            self.submit(_NUDGE)
        self._is_suspended = suspended

    def _check_that_it_fits(self, appended: Sequence[AppendedEvent]) -> None:
        """Folding the log again helps once. If then the same is there already, it would be for ever."""
        found = appended[-1].record if all(one.duplicate for one in appended) else None
        if found is not None and found == self._found_again:
            of_what = f" of {found.step_id!r}" if found.step_id is not None else ""
            raise LogDoesNotFit(
                f"by its plan run {self._identity.run_id!r} would have to record {found.event_type}{of_what}, which "
                f"its log has already as event {found.run_seq}: the plan is not the one that the log was written with; "
                f"restore it, or start a new run with `podium rerun {self._identity.run_id}`"
            )
        self._found_again = found

    async def _all_storable(self, writes: list[EventWrite]) -> list[EventWrite]:
        """Decisions can be large too: the outputs of a run."""
        kept = self._world.payloads
        if kept is None:
            return writes
        return [
            write
            if len(write.payload) <= MAX_PAYLOAD_BYTES
            else msgspec.structs.replace(
                write, payload=await spill(msgspec.json.decode(write.payload), kept())
            )
            for write in writes
        ]

    def _tell(self, records: Sequence[EventRecord]) -> None:
        told, ended = self._told, self.machine.ended_iterations
        records = [record for record in records if record.run_seq > told]
        if ended:
            # After a rebuild some are found again that were told.
            self._ended_iterations += [one for one in ended if one.run_seq > told]
            ended.clear()
        if not records:
            return
        self._told = records[-1].run_seq
        self._untold += records
        for record in records:
            path = record.step_id
            if path is not None and "[" in path and path not in self._items:
                # Once the iteration has ended nobody knows it any more.
                self._items[path] = self._item_now(path)
        if len(self._untold) >= _MAX_PENDING_VIEWS or time.monotonic() >= self._views_due:
            self.tell_views()
        self._show(self._observers, records)

    def tell_views(self) -> None:
        """What they have not been told; now and then, since many records at a time take less than half as long."""
        self._views_due = time.monotonic() + _MAX_VIEW_DELAY
        if self._untold:
            self._show(self._views, self._untold)
            self._untold = []
            self._items.clear()

    def _sync_views(self) -> None:
        """If the store is lost, its copy in the run directory has to know what has started."""
        self.tell_views()
        if self._world.sync_views is not None:
            try:
                self._world.sync_views()
            except OSError as error:
                # The store has it: that is what decides.
                _LOG.warning(
                    "the log in the directory of run %s is not synced: %s", self._identity.run_id, error
                )

    def _show(self, observers: list[Observer], records: Sequence[EventRecord]) -> None:
        for observer in list(observers):
            try:
                observer(records)
            except Exception as error:
                # Who only looks on must not stop the run: it is left out from here on, and that is said once.
                observers.remove(observer)
                if not isinstance(error, BrokenPipeError):
                    _LOG.warning(
                        "a view of run %s has failed and is left out", self._identity.run_id, exc_info=True
                    )

    # --- what views ask ---------------------------------------------------------------------------

    def context(self) -> dict[str, Any] | None:
        """The variables of the workflow as they stand; after its end, as they stood."""
        root = self.machine.root
        return root.call.context if root is not None and root.call is not None else self._context

    def item(self, path: str) -> Any:
        return self._items[path] if path in self._items else self._item_now(path)

    def iterations_ended_by(self, run_seq: int) -> list[EndedIteration]:
        ended = []
        while self._ended_iterations and self._ended_iterations[0].run_seq <= run_seq:
            ended.append(self._ended_iterations.popleft())
        return ended

    def _item_now(self, path: str) -> Any:
        found = self.machine.find_scope(path)
        return found[0].item if found is not None else None

    def _keep_context(self, event_type: str) -> None:
        if event_type in _ENDS_OF_RUNS:
            self._context = self.context()

    # --- acting -----------------------------------------------------------------------------------

    def has_room(self) -> bool:
        if asyncio.get_running_loop().time() > self._leased_until:
            # This process was frozen: another run may work in the slot. The lease keeper finds out.
            self._is_suspended = True
        return len(self._running) < self._plan.workflow.max_parallel and not self._is_suspended

    def start(self, task: RunTask) -> None:
        key = (task.path, task.attempt)
        engine_attempt = self._engine_attempts.get(key, 1)
        if not task.step.idempotent:
            self._sync_views()

        def done(result: TaskResult) -> None:
            self.submit(PendingEvent(result.event_type, *key, result.payload, engine_attempt))

        self._world.tasks.start(task, engine_attempt, done)

    def stop(self, command: CancelTask) -> None:
        """Every CancelTask is answered, also for a task that nobody knows."""
        for task in self._waiting:
            if (task.path, task.attempt) == (command.path, command.attempt):
                self._waiting.remove(task)
                break
        if (command.path, command.attempt) in self._answered:
            return  # its end is on its way
        if not self._world.tasks.stop(command.path, command.attempt, command.code, force=command.force):
            ended = stopped("CANCELLED" if command.code == "FORCED" else command.code)
            engine_attempt = self._engine_attempts.get((command.path, command.attempt), 1)
            self.submit(
                PendingEvent(ended.event_type, command.path, command.attempt, ended.payload, engine_attempt)
            )

    def set_timer(self, timer: SetTimer) -> None:
        self._wait_for(timer, self._clock.deadline(timer.due))

    def _wait_for(self, timer: SetTimer, deadline: float) -> None:
        seconds = max(0.0, deadline - self._clock.elapsed())
        loop = asyncio.get_running_loop()
        self._timers[timer.key] = loop.call_later(min(seconds, MAX_WAIT_SECONDS), self._fire, timer, deadline)

    def _fire(self, timer: SetTimer, deadline: float) -> None:
        # The loop's clock drifts, and stands while the machine sleeps: a timer is not due before its time.
        if self._clock.elapsed() < deadline:
            self._wait_for(timer, deadline)
            return
        self._timers.pop(timer.key, None)
        payload = {"key": timer.key}
        self.submit(PendingEvent(EventType.TIMER_FIRED, payload=payload, subject=timer.key, due=timer.due))

    def drop_timer(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def probe(self, probe: Probe) -> None:
        answers = [self._world.ask(question) for question in probe.questions]
        payload = {"key": probe.key, "answers": answers}
        self.submit(PendingEvent(EventType.PROBE_ANSWERED, payload=payload, subject=probe.key))

    def now(self) -> Timestamp:
        return timestamp(self._clock.now())


# The exit code of a step whose result cannot be kept.
_NOT_KEPT: Final = 125
_ENDS_OF_RUNS: Final = frozenset({EventType.RUN_COMPLETED, EventType.RUN_FAILED, EventType.RUN_CANCELLED})
# Decisions that are about something other than a step's attempt, and where their payload names it.
_SUBJECTS: Final[dict[str, str]] = {
    EventType.SIGNAL_IGNORED: "signalId",
    EventType.BUDGET_CHARGED: "stepId",
}
_LOG: Final = logging.getLogger(__name__)
_NUDGE: Final = PendingEvent("")
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
        # Slots given and taken, to be put back if nothing of this counts.
        self._begun: list[tuple[str, int]] = []
        self._ended: list[tuple[str, int]] = []
        # No payload is larger than an event may be.
        self.fits = True

    def fold(self, pending: PendingEvent) -> None:
        """Record something, and learn what follows from it."""
        driver = self._driver
        if not self.writes:
            self.after = driver.machine.last_seq
        write = new_event(
            driver._identity,
            pending.event_type,
            max(driver.now(), pending.due),
            pending.encoded if pending.encoded is not None else encode_payload(pending.payload),
            step_id=pending.path,
            attempt=pending.attempt,
            engine_attempt=pending.engine_attempt,
            subject=pending.subject,
        )
        self.fits &= len(write.payload) <= MAX_PAYLOAD_BYTES
        self.writes.append(write)
        if pending.event_type == EventType.TIMER_FIRED and pending.subject is not None:
            self.dropped.append(pending.subject)
        whole_payload = encode_payload(pending.payload) if is_spilled(write.payload) else write.payload
        record = foreseen(driver._identity, write, driver.machine.last_seq + 1, whole_payload)
        driver._keep_context(pending.event_type)
        self.obey(driver.machine.advance(record))
        if pending.event_type in _ENDS_OF_TASKS:
            key = (str(pending.path), pending.attempt)
            if key in driver._running:
                driver._running.discard(key)
                self._ended.append(key)

    @property
    def starts_tasks(self) -> bool:
        return bool(self._begun)

    @property
    def only_starts_tasks(self) -> bool:
        """Nothing is left to be stored if the tasks do not start."""
        return all(write.event_type == EventType.STEP_STARTED for write in self.writes)

    def undo(self) -> None:
        """It was refused: what was to begin has not begun, and what has ended is not recorded."""
        self.undo_begun()
        self._driver._running.update(self._ended)

    def undo_begun(self) -> None:
        self._driver._running.difference_update(self._begun)

    def obey(self, commands: Iterable[Command]) -> None:
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
            distinguished_by = _SUBJECTS.get(record.event_type)
            subject = record.payload[distinguished_by] if distinguished_by is not None else None
            self.fold(
                PendingEvent(record.event_type, record.path, record.attempt, record.payload, subject=subject)
            )

    def begin_waiting(self) -> None:
        """Start tasks for which there is room: their StepStarted is in the same transaction.

        While the run is held they keep waiting, also those that an earlier process had started: after RunPaused
        nothing starts.
        """
        driver = self._driver
        while driver._waiting and driver.has_room() and not driver.machine.hold.reasons:
            task = driver._waiting.popleft()
            key = (task.path, task.attempt)
            if not driver.machine.may_start(*key):
                continue  # stopped before there was room; whoever stops it answers for it
            driver._running.add(key)
            self._begun.append(key)
            attempt = driver._engine_attempts.get(key, 1)
            if not driver._has_started(*key):
                self.fold(PendingEvent(EventType.STEP_STARTED, *key, engine_attempt=attempt))
            self.acts.append(partial(driver.start, task))
