"""One run while a worker keeps its task: opened, decided about, and then returned or reported as ended.

    run_lease   ownership of the run            handed_out   attempts that other workers execute
    deciding    the loop around the follower    mirroring    what Conductor's page shows

Concurrently with the loop the worker sends heartbeats, follows the log, and checks for changes that people
make in Conductor.
"""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any, Final

import msgspec

from podium.engines.conductor.answers import IN_PROGRESS, PAUSED, Execution, Task
from podium.engines.conductor.deciding import DecidingLoop
from podium.engines.conductor.executions import is_terminated_by_hand
from podium.engines.conductor.handed_out import HandedOutAttempts
from podium.engines.conductor.mirroring import Mirror, TaskLog, patiently
from podium.engines.conductor.run_lease import RunLease
from podium.engines.conductor.site import BEAT_SECONDS, Heartbeats, Site, parked_owner, wish
from podium.engines.conductor.stepping import listen_for_stops
from podium.engines.nudging import PARKED
from podium.engines.opening import NotOpened, Opened
from podium.errors import PodiumError, StoreUnavailable
from podium.log.drafts import EventDraft
from podium.log.engines import CONDUCTOR, ConductorRunRef
from podium.log.events import EventType
from podium.log.leases import Fence, WakeUp
from podium.log.runs import Run
from podium.log.times import timestamp
from podium.log.transitions import RunStatus
from podium.machine.following import Follower
from podium.plan.capabilities import parallel_limit
from podium.ports.engine import RunEnded
from podium.ports.log_fields import about
from podium.runtime import holders
from podium.runtime.ends import ended_by, last_end
from podium.runtime.lock import RunLocked

_LOG: Final = logging.getLogger(__name__)
_FOLLOW_SECONDS: Final = 0.01
# A year, for a run that waits for a person: the server has no "never".
_LONG_SECONDS: Final = 365 * 86_400
# If a timer is overdue by this much and its run still waits, the run is woken.
_LATE: Final = timedelta(seconds=5)


class KeptRun:
    """One run, as long as this worker keeps its task."""

    def __init__(self, site: Site, run: Run, task: Task) -> None:
        self._site = site
        self._store = site.parts.store
        self._run = run
        self._run_id = run.identity.run_id
        self._task = task
        # It was ended by a person: the server accepts no more updates for it.
        self._is_task_gone = False
        # A worker returned the run: its execution had the run's status at that time.
        self._was_parked = False
        # A change made in Conductor is left as it is until its record in the log is folded.
        self._leave_status_until = 0
        self._lease = RunLease(self._store, self._run_id)
        self._handed_out = HandedOutAttempts(site, self._run_id)
        self._loop: DecidingLoop | None = None
        self._is_leaving = False
        self._heartbeats = Heartbeats(site.client)
        self._mirror = Mirror(site.client, task.workflow_instance_id)
        self._task_log = TaskLog(site.client, task.task_id)

    def leave(self) -> None:
        self._is_leaving = True
        if self._loop is not None:
            self._loop.leave()

    def deliver(self, task: Task) -> None:
        """The task was delivered again while it is kept. It is a new one if the server gave up the old one,
        or a person retried it.
        """
        is_of_execution = task.workflow_instance_id == self._task.workflow_instance_id
        if is_of_execution and task.retry_count > self._task.retry_count:
            self._task, self._is_task_gone = task, False
            self._task_log.task_id = task.task_id

    async def keep(self) -> None:
        """Raises `RunLocked` if another worker has the run, `StaleFence` if it took the run over."""
        with _beside(self._beat()):
            opened = await self._open()
        if opened is NotOpened.OVER:
            await self._report_end()
        elif isinstance(opened, NotOpened):
            await self._wait_for(self._run.head, None)
        else:
            await self._decide(opened)

    async def _decide(self, opened: Opened) -> None:
        self._lease.lease = opened.lease
        await self._adopt(opened.lease.fence)
        self._site.on_kept(self._run_id)
        loop = self._loop = self._make_loop(opened)
        try:
            is_over = await self._drive(loop, opened)
        finally:
            loop.close()
            if loop.attempts:
                # These attempts belong to this worker, even if another one decides about the run.
                self._site.beside(listen_for_stops(self._site.folded, loop.run_id, loop.left_behind()))
        if is_over:
            await self._lease.release()
            await self._report_end()
        else:
            await self._park(loop)

    async def _open(self) -> Opened | NotOpened:
        held = await self._store.held_lease(self._run_id)
        self._was_parked = held is not None and held.lease.owner == parked_owner(self._run_id)
        try:
            return await self._site.opening.open(self._run, self._lease.claimant)
        except RunLocked:
            held = await self._store.held_lease(self._run_id)
            if held is None or not holders.is_gone(held.lease.owner):
                raise
            await self._store.release(held.lease)
            return await self._site.opening.open(self._run, self._lease.claimant)

    async def _adopt(self, fence: Fence) -> None:
        """The first execution that claims the run becomes the run's execution; if that was deleted, another
        one does.
        """
        execution, known = self._task.workflow_instance_id, self._run.engine
        assert isinstance(known, ConductorRunRef)
        if known.provider_run_id != execution:
            # A newly started execution has no status yet that a person could have changed.
            self._was_parked = False
            ref = msgspec.structs.replace(known, provider_run_id=execution)
            await self._store.set_engine(self._run_id, ref, fence=fence)
            self._run = msgspec.structs.replace(self._run, engine=ref)

    def _make_loop(self, opened: Opened) -> DecidingLoop:
        site = self._site
        loop = DecidingLoop(
            self._run_id,
            site.attempts,
            site.slots,
            now=site.parts.clock.now,
            fence=self._lease.fence,
            hand_out=self._handed_out.hand_out,
            on_event=self._task_log.note,
            on_turn=self._mirror_hold,
            may_rest=lambda: self._mirror.is_true,
        )
        limit = parallel_limit(opened.plan, CONDUCTOR)
        loop.follow(Follower(opened.machine, self._run.identity, limit))
        if self._is_leaving:
            loop.leave()
        return loop

    async def _drive(self, loop: DecidingLoop, opened: Opened) -> bool:
        with contextlib.ExitStack() as beside:
            for one in (
                self._beat(),
                self._lease.keep(loop.lose),
                self._follow(loop),
                self._task_log.keep_up(),
                self._mirror.keep_up(loop.wake),
            ):
                beside.enter_context(_beside(one, loop.lose))
            await loop.read()
            follower = loop.follower
            if opened.start is not None and not follower.machine.ends_before_start:
                follower.submit(EventDraft(EventType.RUN_STARTED, payload=opened.start))
            elsewhere = await self._handed_out.under_way(loop)
            follower.restart(elsewhere)
            loop.handed_out |= elsewhere
            await self._look_at_status()
            is_over = await loop.drive()
            if not is_over:
                # A worker that ends may not have mirrored the log's status yet.
                await self._mirror.settle()
            return is_over

    def _mirror_hold(self) -> None:
        assert self._loop is not None
        machine = self._loop.follower.machine
        if machine.last_seq >= self._leave_status_until:
            self._mirror.want(bool(machine.hold.reasons))

    async def _look_at_status(self) -> None:
        """A difference from the log was made by a person, unless the worker that had the run could not mirror
        its status.
        """
        try:
            found = await self._site.client.execution(self._task.workflow_instance_id)
            if found is None or not found.is_open:
                return
            self._mirror.was_changed(is_paused=found.status == PAUSED)
            if self._was_parked and self._mirror.is_paused != await self._is_paused():
                await self._pause_or_resume(found)
        except PodiumError:
            # What it shows later was not changed by a person, either.
            self._mirror.forget()

    async def _is_paused(self) -> bool:
        """Read again now that this worker has the run: another one may have paused or resumed it before."""
        return (await self._store.get_run(self._run_id)).status is RunStatus.PAUSED

    # --- concurrent with the loop -----------------------------------------------------------------

    async def _follow(self, loop: DecidingLoop) -> None:
        """Follow the log for records of other processes."""
        while True:
            with contextlib.suppress(StoreUnavailable):
                after = loop.follower.machine.last_seq
                async for records in self._store.watch(self._run_id, after=after):
                    folded = loop.follower.machine.last_seq
                    new = [record for record in records if record.run_seq > folded]
                    loop.incoming(await self._site.attempts.logged(new))
                    # Records of this worker are read here, too: in batches, and not one by one.
                    await asyncio.sleep(_FOLLOW_SECONDS)
            await asyncio.sleep(BEAT_SECONDS)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            try:
                if not self._is_task_gone:
                    await self._look_at_execution()
                if self._loop is not None:
                    await self._handed_out.look_for_missing(self._loop)
            except PodiumError as error:
                _LOG.warning("run %s: %s", self._run_id, error, extra=about(run=self._run_id))

    async def _look_at_execution(self) -> None:
        client, execution = self._site.client, self._task.workflow_instance_id
        await self._heartbeats.send(self._task)
        before = self._mirror.changes
        found = await client.execution(execution)
        if found is not None and found.is_open:
            if self._loop is not None and self._mirror.is_true and self._mirror.changes == before:
                await self._look_at_pause(found)
        elif found is not None and is_terminated_by_hand(found) and await wish(self._site, self._run, found):
            self._is_task_gone = True
        else:
            await self._replace_execution()

    async def _look_at_pause(self, found: Execution) -> None:
        if (found.status == PAUSED) != self._mirror.is_paused:
            await self._pause_or_resume(found)

    async def _pause_or_resume(self, found: Execution) -> None:
        """Pause or resume the run as a person did in Conductor. If that is refused, the execution is reset to
        the log's status.
        """
        self._leave_status_until = sys.maxsize
        try:
            await wish(self._site, self._run, found)
            self._mirror.was_changed(is_paused=found.status == PAUSED)
            self._leave_status_until = (await self._store.get_run(self._run_id)).head
        except PodiumError:
            self._leave_status_until = 0
            raise
        if self._loop is not None:
            self._loop.nudge()

    async def _replace_execution(self) -> None:
        """The execution was deleted, or ended by a person: the run continues, and another one, or the same
        one again, shows its end.
        """
        site = self._site
        _LOG.warning(
            "the execution of run %s was removed or ended by hand; it gets another one",
            self._run_id,
            extra=about(run=self._run_id),
        )
        execution = await site.executions.revive(await self._store.get_run(self._run_id), site.domain)
        found = await site.client.execution(execution, tasks=True)
        if found is None or found.last_task is None:
            return
        self._task = found.last_task
        await self._heartbeats.send(self._task)
        self._task_log.task_id = self._task.task_id
        self._mirror.show(execution, is_paused=found.status == PAUSED)
        if self._lease.lease is not None:
            await self._adopt(self._lease.fence())

    # --- returning the run ------------------------------------------------------------------------

    async def _park(self, loop: DecidingLoop) -> None:
        await self._remember_timer(loop.next_due())
        if self._mirror.is_true:
            await self._lease.park()
        else:
            # As after a crash. Otherwise the next worker would take the status of a parked run for a change
            # by a person.
            await self._lease.release()
        seconds = 0.0 if loop.is_leaving else loop.next_due()
        await self._task_log.flush()
        await self._wait_for(loop.follower.machine.last_seq, seconds)

    async def _remember_timer(self, seconds: float | None) -> None:
        """Store the timer in the store: a person may change the server's copy, and the server may lose it."""
        if seconds is None:
            await self._store.append(self._run_id, [], fence=self._lease.fence(), drop_wake_ups=[PARKED])
            return
        due = timestamp(self._site.parts.clock.now() + timedelta(seconds=seconds) + _LATE)
        wake_up = WakeUp(run_id=self._run_id, key=PARKED, due=due)
        await self._store.append(self._run_id, [], fence=self._lease.fence(), set_wake_ups=[wake_up])

    async def _wait_for(self, seq: int, seconds: float | None) -> None:
        """The task waits; but a signal between the decision and the server's answer must not be delayed by
        that.
        """
        site = self._site
        after = _LONG_SECONDS if seconds is None else max(0, int(seconds))
        await self._heartbeats.settle()
        is_taken = not self._is_task_gone and await site.client.update(
            self._task, IN_PROGRESS, callback_after=after
        )
        run = await self._store.get_run(self._run_id)
        if not is_taken:
            await site.executions.revive(run, site.domain)
        elif run.head != seq:
            await site.executions.wake(self._task.workflow_instance_id)

    async def _report_end(self) -> None:
        site, run = self._site, await self._store.get_run(self._run_id)
        site.attempts.forget(self._run_id)
        end = await last_end(self._store, run)
        assert end is not None
        await self._task_log.flush()
        await patiently(lambda: self._show_end(run, ended_by(end)))

    async def _show_end(self, run: Run, end: RunEnded) -> None:
        executions = self._site.executions
        if not await executions.report_end(self._task, end):
            # A worker gets its new task, and ends it with the status of the run.
            await executions.revive(run, self._site.domain)


@contextlib.contextmanager
def _beside(
    work: Coroutine[Any, Any, None], on_error: Callable[[PodiumError], None] | None = None
) -> Iterator[None]:
    """Every part is necessary, otherwise a run could wait forever: if one fails, the run is returned."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: _report(done, on_error))
    try:
        yield
    finally:
        task.cancel()


def _report(done: "asyncio.Task[None]", on_error: Callable[[PodiumError], None] | None) -> None:
    error = None if done.cancelled() else done.exception()
    if error is not None:
        _LOG.error("a run cannot be kept here any longer", exc_info=error)
        if on_error is not None:
            on_error(error if isinstance(error, PodiumError) else PodiumError(f"unexpected: {error!r}"))
