"""The loop that drives a run: read, decide, record, act. It has no rule about workflows.

Whatever happens (a task ends, a timer is due, the world answers) is folded by the machine first; then the event and all
that was decided because of it are appended in one transaction, on condition that nothing came in between; and only then
is anything performed. So a step costs one commit, and a crash repeats a command but never forgets one. If something
did come in between (a signal from another process), nothing of it counts: the log is read again and folded in its own
order, and what had happened is taken up once more.

    inbox      what is to be recorded next           batch       one transaction, and what follows it
    run_log    the log under our lease               acting      tasks, probes
    timers     what is due when                      task_slots  which tasks run, which wait
    view_feed  records and reports for those who look on
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from podium.errors import LogMoved, PodiumError, StoreUnavailable
from podium.log.events import EventRecord, EventType, RunIdentity
from podium.log.leases import Fence
from podium.log.times import Timestamp, timestamp
from podium.log.transitions import TASK_ENDS
from podium.machine import Machine
from podium.machine.commands import (
    CancelTask,
    Command,
    ContextReport,
    Probe,
    Report,
    RunTask,
    ScopeReport,
    SetTimer,
)
from podium.plan.plan import Plan
from podium.ports.store import AppendedEvent
from podium.runtime.acting import Actions
from podium.runtime.batch import Batch
from podium.runtime.checkpoints import Saved
from podium.runtime.drive_clock import DriveClock
from podium.runtime.inbox import NUDGE, Inbox, PendingEvent
from podium.runtime.machine_cache import MachineCache
from podium.runtime.outages import Outages
from podium.runtime.reading import READ_BATCH
from podium.runtime.run_log import LeaseLapsed, RunLog
from podium.runtime.task_slots import TaskSlots
from podium.runtime.timers import Timers
from podium.runtime.view_feed import ViewFeed
from podium.runtime.world import World

_LOOK_SECONDS: Final = 0.1
NEVER_DUE: Final = "9999-12-31T23:59:59.999999Z"
# While the store is away.
_LOOK_AGAIN_SECONDS: Final = 0.5
# So that one commit does not grow without end while its caller waits.
_BATCH_SIZE: Final = 500


class Driver:
    """Drives one run, from the end of its log to the end of the run."""

    def __init__(self, plan: Plan, identity: RunIdentity, fence: Fence, world: World) -> None:
        self._identity = identity
        self._world = world
        self._clock = DriveClock(world.clock)
        self._outages = world.outages or Outages(identity.run_id, self.now)
        self._inbox = Inbox()
        self._log = RunLog(identity, fence, world, self._outages)
        self._slots = TaskSlots(plan.workflow.max_parallel)
        self._timers = Timers(self._clock, self._inbox.submit)
        self._feed = ViewFeed(identity.run_id, world)
        self._actions = Actions(world, self._inbox, self._slots, self._timers, self._feed)
        self.machine = Machine(plan)
        self._lost: Exception | None = None
        # The log was read to its end once; from here on it is ours.
        self._driving = False
        self._cache = MachineCache(plan, world, self._slots, self._feed)
        self._leaves = False
        # The first records of the log, if they were read before.
        self._prefetched: list[EventRecord] = []
        # Methods of its parts, not of its own: what holds on to them does not hold the driver, which is so freed at
        # the end of the run without the garbage collector.
        self.is_leased = self._slots.is_leased
        self.begin_reclaiming = self._log.begin_reclaiming
        self.end_reclaiming = self._log.end_reclaiming
        self.flush_views = self._feed.flush

    # --- for those beside it ----------------------------------------------------------------------

    @property
    def running(self) -> int:
        return self._slots.running

    @property
    def draining_since(self) -> int | None:
        """The number of the pause that running tasks finish in; None while the run is not paused or nothing runs."""
        return self.machine.pause_cycle if self.machine.hold.reasons and self.running else None

    def now(self) -> Timestamp:
        return timestamp(self._clock.now())

    def submit(self, pending: PendingEvent) -> None:
        """Something has happened; it is recorded in its turn."""
        self._inbox.submit(pending)

    def nudge(self) -> None:
        """There is something new in the log."""
        self._inbox.submit(NUDGE)

    @property
    def is_driving(self) -> bool:
        """Whether it has read the log to its end once."""
        return self._driving

    @property
    def wakes_at(self) -> Timestamp | None:
        """When the first timer of a run is due that only waits; `NEVER_DUE` if it waits for a person alone.

        None while something moves: a task, a question, or what is about to be recorded.
        """
        if self._inbox or self.running or self.machine.terminal or self.machine.root is None:
            return None
        owed = self.machine.outstanding()
        due = [command.due for command in owed if isinstance(command, SetTimer)]
        return min(due, default=NEVER_DUE) if len(due) == len(owed) else None

    def revoke(self, reason: Exception) -> None:
        """The lease is gone: stop without writing anything more."""
        self._lost = reason
        self._inbox.wake()

    def leave(self, reason: Exception) -> None:
        """Stop driving an open run, and make it cheap to resume."""
        self._leaves = True
        self.revoke(reason)

    def leased_until(self, until: float) -> None:
        """The lease was renewed, and with it the slot."""
        self._slots.leased_until = until
        self.suspend(suspended=False)

    def suspend(self, *, suspended: bool) -> None:
        """Start no task, until the run has a slot again."""
        if self._slots.suspended and not suspended:
            self.submit(NUDGE)
        self._slots.suspended = suspended

    def start_from(self, machine: Machine, saved: Saved) -> None:
        """Continue from a checkpoint instead of the start of the log. The views have done so already."""
        self.machine = machine
        self._slots.engine_attempts = dict(saved.engine_attempts)
        self._feed.shown = saved.run_seq
        self._cache.start_from(saved)

    # --- the loop ---------------------------------------------------------------------------------

    async def replay(self) -> None:
        """Fold what is new in the log and show it to the views; nothing is carried out or recorded."""
        self._feed.open()
        await self._catch_up()
        self._feed.flush()

    async def drive(self) -> EventRecord:
        """To the end of the run; returns its terminal event. Raises `StaleFence` if another driver has taken over."""
        self._feed.open()
        last = await self._catch_up()
        self._feed.open_to_observers()
        self._driving = True
        watching = asyncio.create_task(self._watch()) if self._world.watches_log else None
        try:
            if not self.machine.terminal:
                last = await self._retry_on_conflict(self._start_again) or last
            while not self.machine.terminal:
                # Not if it was stopped while the store answered: that wake-up is over, and no other may come.
                if self._lost is None:
                    await self._inbox.wait()
                self._check_lost()
                last = await self._take() or last
            assert last is not None
            return last
        finally:
            self._feed.flush()
            self._timers.keep_only(())
            if watching is not None:
                watching.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watching
            if self._world.checkpoints is not None:
                await self._world.checkpoints.close()

    def _check_lost(self) -> None:
        if self._lost is not None:
            if self._leaves:
                self._cache.keep_at_leave(self.machine)
            raise self._lost

    async def _watch(self) -> None:
        """Look periodically for what others write: signals. A busy run learns of them at its next append anyway."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                found = await self._log.has_more(self.machine.last_seq)
            except StoreUnavailable as error:
                # A run that has nothing to write is not ended by that; it is only said.
                self._outages.failed(error)
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
                continue
            except PodiumError:
                continue
            self._outages.succeeded()
            if found:
                self.submit(NUDGE)

    async def _take(self) -> EventRecord | None:
        """Fold what has happened, record it with all that follows from it, and act."""
        batch = self._batch()
        try:
            while self._inbox and len(batch.writes) < _BATCH_SIZE and not self.machine.terminal:
                pending = self._inbox.first
                if pending is NUDGE:
                    if batch.writes:
                        break
                    self._inbox.take()
                    await self._read_on(batch)
                    continue
                if pending.event_type in TASK_ENDS and pending.encoded is None:
                    await self._log.make_storable(pending)
                batch.fold(self._inbox.take())
            last = await self._commit(batch)
        except LogMoved:
            self._inbox.put_back()
            return await self._retry_on_conflict(self._rebuild)
        self._inbox.recorded()
        self._cache.keep_if_due(self.machine)
        return last

    async def _commit(self, batch: Batch) -> EventRecord | None:
        """Append, then act. Nothing is performed that is not in the log; if the append is refused, nothing counts."""
        batch.start_waiting()
        last: EventRecord | None = None
        if batch.writes:
            try:
                appended = await self._append(batch)
            except BaseException:
                batch.undo()
                raise
            records = [one.record for one in appended]
            last = records[-1]
            if last.run_seq != batch.after + len(records) or not self._log.has_written(appended):
                # Some of it was in the log before: elsewhere than where it was folded, or written by another driver,
                # which got there first with the same. The one that decided it acts on it.
                batch.undo_started()
                self._log.check_that_it_fits(appended)
                return await self._retry_on_conflict(self._rebuild)
            self._log.wrote_something()
            self._feed.show(records, batch.reports)
        elif batch.starts_tasks:
            # What an earlier process had started starts again without a new event: no append was fenced for it.
            try:
                await self._prove_lease()
            except BaseException:
                batch.undo()
                raise
        for act in batch.acts:
            act()
        return last

    def _batch(self) -> Batch:
        return Batch(self.machine, self._identity, self.now, self._slots, self._actions)

    async def _append(self, batch: Batch) -> Sequence[AppendedEvent]:
        writes = batch.writes if batch.fits else await self._log.spill_large(batch.writes)
        try:
            return await self._log.append(
                writes, batch.after, batch.timers, batch.dropped, starts_tasks=batch.starts_tasks
            )
        except LeaseLapsed:
            # Decided again, without the tasks. The lease keeper ends the suspension when it has claimed the lease.
            self._slots.suspended = True
            if batch.only_starts_tasks:
                self._outages.stop_waiting()
            raise LogMoved(self._identity.run_id, ()) from None

    async def _prove_lease(self) -> None:
        self._check_lost()
        await self._log.prove_lease()

    async def _retry_on_conflict(
        self, work: Callable[[], Awaitable[EventRecord | None]]
    ) -> EventRecord | None:
        """Whatever others write in between is folded before it is tried again: bounded by what they write."""
        while True:
            try:
                return await work()
            except LogMoved:
                work = self._rebuild

    # --- folding the log --------------------------------------------------------------------------

    def prefetch(self, records: list[EventRecord]) -> None:
        """The log as it was a moment ago, from its start; it is not read again."""
        self._prefetched = records

    async def _read_next(self) -> list[EventRecord]:
        if self._prefetched:
            records, self._prefetched = self._prefetched, []
            return [record for record in records if record.run_seq > self.machine.last_seq]
        return await self._log.read(self.machine.last_seq, self._feed.shown if self._driving else None)

    async def _fold(self, record: EventRecord) -> list[Command]:
        commands = self.machine.advance(await self._log.whole(record))
        self._slots.count(record)
        reports: list[Report] = [one for one in commands if isinstance(one, ScopeReport | ContextReport)]
        self._feed.show((record,), reports)
        return commands

    async def _catch_up(self) -> EventRecord | None:
        """Fold what is in the log; returns the last record."""
        last: EventRecord | None = None
        was_prefetched = bool(self._prefetched)
        while records := await self._read_next():
            for record in records:
                await self._fold(record)
            last = records[-1]
            if was_prefetched and len(records) < READ_BATCH:
                break
        self._clock.advance_to(self.machine.now)
        self._cache.keep_if_due(self.machine)
        return last

    async def _read_on(self, batch: Batch) -> None:
        """What others have written, in its order."""
        for record in await self._read_next():
            commands = await self._fold(record)
            self._clock.advance_to(self.machine.now)
            batch.obey(commands)

    async def _start_again(self) -> EventRecord | None:
        """After a replay: everything that is owed. What was started before may have left processes behind."""
        owed = self.machine.outstanding()
        started = [
            command
            for command in owed
            if isinstance(command, RunTask | CancelTask)
            and self.machine.has_started(command.path, command.attempt)
        ]
        if started:
            # Another driver may have taken over while the log was read: then they are not orphans but its tasks.
            await self._prove_lease()
            await self._world.tasks.stop_orphans()
        for command in started:
            key = (command.path, command.attempt)
            self._slots.start_over(key)
            if isinstance(command, RunTask) and not command.step.idempotent:
                # Whether it took effect is not known: that is for the plan, or a person, to decide.
                self.submit(PendingEvent(EventType.STEP_INTERRUPTED, *key))
        return await self._perform(owed)

    async def _rebuild(self) -> EventRecord | None:
        """The log has moved on: fold it again, in its own order. What runs continues to run."""
        self.machine = self._cache.newest(self.machine.program)
        last = await self._catch_up()
        if self.machine.terminal:
            return last
        owed = self.machine.outstanding()
        self._slots.clear_queue()
        self._timers.keep_only({command.key for command in owed if isinstance(command, SetTimer)})
        return await self._perform(owed)

    async def _perform(self, owed: Iterable[Command]) -> EventRecord | None:
        """What is owed and neither under way nor answered already."""
        batch = self._batch()
        batch.obey(command for command in owed if not self._is_under_way(command))
        return await self._commit(batch)

    def _is_under_way(self, command: Command) -> bool:
        match command:
            case RunTask():
                key = (command.path, command.attempt)
                return self._slots.is_running(key) or self._inbox.answers(key)
            case SetTimer():
                return command.key in self._timers or self._inbox.answers(command.key)
            case Probe():
                return self._inbox.answers(command.key)
            case _:
                return False
