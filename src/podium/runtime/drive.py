"""The loop that drives a run: read, decide, record, act. It has no rules about workflows.

Whatever happens (a task ends, a timer is due, a probe is answered) is folded by the machine first; then the
event and all decisions that follow from it are appended in one transaction, on condition that nothing else
was appended before; and only then is anything performed. So a step costs one commit, and a crash repeats a
command but never loses one. If something else was appended (a signal from another process), the whole batch
is discarded: the log is read again and folded in its own order, and the pending events are processed once
more.

    inbox      what is to be recorded next           batch       one transaction, and what follows it
    run_log    the log under our lease               acting      tasks, probes
    timers     what is due when                      task_slots  which tasks run, which wait
    view_feed  records and reports for observers
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias

from podium.errors import LogMoved
from podium.log.events import EventRecord, EventType, RunIdentity
from podium.log.leases import Fence
from podium.log.times import Timestamp, timestamp
from podium.log.transitions import TASK_ENDS
from podium.machine import Machine
from podium.machine.commands import CancelTask, Command, ContextReport, Report, RunTask, ScopeReport, SetTimer
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

# Limits the size of a commit, because its callers wait for it.
_BATCH_SIZE: Final = 500
_Work: TypeAlias = "Callable[[], Awaitable[EventRecord | None]]"


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
        # The log was read to its end once; from now on this process drives the run.
        self._driving = False
        self._cache = MachineCache(plan, world, self._slots, self._feed)
        self._leaves = False
        # The first records of the log, if they were read before.
        self._prefetched: list[EventRecord] = []
        # Bound methods of its parts: references to them do not keep the driver alive, so none waits for the GC.
        self.is_leased = self._slots.is_leased
        self.begin_reclaiming = self._log.begin_reclaiming
        self.end_reclaiming = self._log.end_reclaiming
        self.flush_views = self._feed.flush

    # --- for other parts of the process -----------------------------------------------------------

    @property
    def running(self) -> int:
        return self._slots.running

    @property
    def draining_since(self) -> int | None:
        """The number of the pause that running tasks finish in; None if the run is not paused or nothing runs."""
        return self.machine.pause_cycle if self.machine.hold.reasons and self.running else None

    def now(self) -> Timestamp:
        return timestamp(self._clock.now())

    def submit(self, pending: PendingEvent) -> None:
        """Submit an event to be recorded in its turn."""
        self._inbox.submit(pending)

    def nudge(self) -> None:
        """Report that the log has new records."""
        self._inbox.submit(NUDGE)

    @property
    def is_driving(self) -> bool:
        """Whether it has read the log to its end once."""
        return self._driving

    @property
    def is_idle(self) -> bool:
        """Whether nothing moves: no task, and nothing that is about to be recorded."""
        return not (self._inbox or self.running or self.machine.terminal or self.machine.root is None)

    def revoke(self, reason: Exception) -> None:
        """The lease is lost: stop without writing anything more."""
        self._lost = reason
        self._inbox.wake()

    def leave(self, reason: Exception) -> None:
        """Stop driving an open run, and make it cheap to resume."""
        self._leaves = True
        self.revoke(reason)

    def drain(self) -> bool:
        """Start no further task. True if nothing moves: then the run can be left, and no step is repeated."""
        self._slots.draining = True
        return self._driving and not self.running and not self._inbox

    def leased_until(self, until: float) -> None:
        """The lease was renewed, and with it the slot."""
        self._slots.leased_until = until
        self.suspend(suspended=False)

    def suspend(self, *, suspended: bool) -> None:
        """Start no task until the run has a slot again."""
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
        """Fold new records and pass them to the views; nothing is executed or recorded."""
        self._feed.open()
        await self._catch_up()
        self._feed.flush()

    async def drive(self) -> EventRecord:
        """Drive the run to its end; returns its terminal event. Raises `StaleFence` after a takeover."""
        self._feed.open()
        last = await self._catch_up()
        self._feed.open_to_observers()
        self._driving = True
        watching = self._start_watching() if self._world.watches_log else None
        try:
            if not self.machine.terminal:
                last = await self._retry_on_conflict(self._start_again) or last
            while not self.machine.terminal:
                # Skipped if it was stopped while the store answered: that wake-up is gone, no other may come.
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

    def _start_watching(self) -> "asyncio.Task[None]":
        return asyncio.create_task(self._log.watch(lambda: self.machine.last_seq, self.nudge))

    def _check_lost(self) -> None:
        if self._lost is not None:
            if self._leaves:
                self._cache.keep_at_leave(self.machine)
            raise self._lost

    async def _take(self) -> EventRecord | None:
        """Fold what has happened, record it with everything that follows from it, and act."""
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
        """Append, then act: what is not in the log is not performed. A refused append discards the batch."""
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
                # Part of it was in the log, elsewhere than it was folded, or a faster driver has written it.
                # The driver that recorded a decision acts on it.
                batch.undo_started()
                self._log.check_that_it_fits(appended)
                return await self._retry_on_conflict(self._rebuild)
            self._log.wrote_something()
            self._feed.show(records, batch.reports)
        elif batch.starts_tasks:
            # What an earlier process had started starts again without an event: no append checked the fence.
            try:
                await self._prove_lease()
            except BaseException:
                batch.undo()
                raise
        for act in batch.acts:
            act()
        return last

    def _batch(self) -> Batch:
        return Batch(
            self.machine, self._identity, self.now, self._slots, self._actions, self._world.artifact_ages
        )

    async def _append(self, batch: Batch) -> Sequence[AppendedEvent]:
        writes = batch.writes if batch.fits else await self._log.spill_large(batch.writes)
        try:
            return await self._log.append(
                writes, batch.after, batch.timers, batch.dropped, starts_tasks=batch.starts_tasks
            )
        except LeaseLapsed:
            # The decision is repeated without the tasks, until the lease keeper has reclaimed the lease.
            self._slots.suspended = True
            if batch.only_starts_tasks:
                self._outages.stop_waiting()
            raise LogMoved(self._identity.run_id, ()) from None

    async def _prove_lease(self) -> None:
        self._check_lost()
        await self._log.prove_lease()

    async def _retry_on_conflict(self, work: _Work) -> EventRecord | None:
        """Fold what other processes have written, then try again: their writes bound the retries."""
        while True:
            try:
                return await work()
            except LogMoved:
                work = self._rebuild

    # --- folding the log --------------------------------------------------------------------------

    def prefetch(self, records: list[EventRecord]) -> None:
        """Use these records, read a moment ago, as the start of the log instead of reading them again."""
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
        while records := await self._read_next():
            for record in records:
                await self._fold(record)
            last = records[-1]
            if len(records) < READ_BATCH:
                break
        self._clock.advance_to(self.machine.now)
        self._cache.keep_if_due(self.machine)
        return last

    async def _read_on(self, batch: Batch) -> None:
        """Fold what other processes have written, in its order."""
        for record in await self._read_next():
            commands = await self._fold(record)
            self._clock.advance_to(self.machine.now)
            batch.obey(commands)

    async def _start_again(self) -> EventRecord | None:
        """After a replay, perform what is owed. Attempts that were started before may have left processes."""
        owed = self.machine.outstanding()
        started = [
            command
            for command in owed
            if isinstance(command, RunTask | CancelTask)
            and self.machine.has_started(command.path, command.attempt)
        ]
        if started:
            # Another driver may have taken over while the log was read: then they are its tasks, not orphans.
            await self._prove_lease()
            await self._world.tasks.stop_orphans()
        for command in started:
            key = (command.path, command.attempt)
            self._slots.start_over(key)
            if isinstance(command, RunTask) and not command.step.idempotent:
                # Whether it took effect is unknown: the plan or a person has to decide.
                self.submit(PendingEvent(EventType.STEP_INTERRUPTED, *key))
        return await self._perform(owed)

    async def _rebuild(self) -> EventRecord | None:
        """The log has new records: fold it again, in its own order. Running tasks continue."""
        self.machine = self._cache.newest(self.machine.program)
        last = await self._catch_up()
        if self.machine.terminal:
            return last
        owed = self.machine.outstanding()
        self._slots.clear_queue()
        self._timers.keep_only({command.key for command in owed if isinstance(command, SetTimer)})
        return await self._perform(owed)

    async def _perform(self, owed: Iterable[Command]) -> EventRecord | None:
        """Perform what is owed and neither in progress nor answered already."""
        batch = self._batch()
        batch.obey(command for command in owed if not self._actions.is_under_way(command))
        return await self._commit(batch)
