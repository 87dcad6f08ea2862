"""A worker keeps the task of a run, and the run's lease, while anything in the run is in progress.

It gives both back when only a person, or a distant timer, can let the run continue. The lease is parked then: the run
keeps its slot and belongs to no process. The task waits in the server's queue until it is due, or is woken.
"""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any, Final

import msgspec

from podium.engines.conductor.answers import (
    FAILED_FOR_GOOD,
    IN_PROGRESS,
    PAUSED,
    RUNNING,
    TERMINATED,
    Execution,
    Summary,
    Task,
)
from podium.engines.conductor.client import ConductorClient
from podium.engines.conductor.deciding import DecidingLoop
from podium.engines.conductor.executions import Executions, is_terminated_by_hand, run_of
from podium.engines.conductor.folding import FoldedRuns
from podium.engines.conductor.mirroring import Mirror, TaskLog, patiently, wish_id
from podium.engines.conductor.names import Domain, workflow_id
from podium.engines.conductor.slots import Slots
from podium.engines.conductor.stepping import listen_for_stops
from podium.engines.opening import Claimant, NotItsExecution, NotOpened, Opened, Opening
from podium.engines.parts import LocalParts
from podium.errors import PodiumError, RunNotFound, StaleFence, StoreUnavailable
from podium.log.drafts import EventDraft
from podium.log.engines import CONDUCTOR, ConductorRunRef
from podium.log.events import EventType
from podium.log.ids import RunId
from podium.log.leases import Fence, Lease
from podium.log.runs import Run
from podium.log.transitions import TERMINAL, RunStatus
from podium.machine.following import Follower
from podium.machine.task_queue import TaskKey
from podium.plan.capabilities import parallel_limit
from podium.ports.engine import RunEnded
from podium.runtime import holders
from podium.runtime.attempts import Attempts
from podium.runtime.ends import ended_by, last_end
from podium.runtime.lock import RunLocked

_LOG: Final = logging.getLogger(__name__)
# No longer than the server waits for a worker that does not answer.
RUN_LEASE: Final = timedelta(seconds=8)
# For how long a task is a worker's after its last heartbeat.
HELD_SECONDS: Final = 8
_BEAT_SECONDS: Final = 2.0
_FOLLOW_SECONDS: Final = 0.01
_SETTLED_SECONDS: Final = 0.3
# How long a task waits that cannot be kept here: the run is unknown to this store, needs another worker, or is held.
_UNKNOWN_SECONDS: Final = 30
_TROUBLE_SECONDS: Final = 5
_HELD_SECONDS: Final = 1
# For a person: the server has no "never".
_LONG_SECONDS: Final = 365 * 86_400

# Run, type, id, reason: a change that was made in Conductor is an operator's wish. False: it was refused.
SendSignal = Callable[[Run, str, str, str], Awaitable[bool]]
_WISHES: Final = {
    PAUSED: ("PAUSE", "paused"),
    RUNNING: ("RESUME", "resumed"),
    TERMINATED: ("CANCEL", "terminated"),
}


class Site(msgspec.Struct, frozen=True):
    """What a worker has for all of its runs."""

    parts: LocalParts
    client: ConductorClient
    executions: Executions
    domain: Domain
    opening: Opening
    attempts: Attempts
    folded: FoldedRuns
    slots: Slots
    signal: SendSignal
    on_kept: Callable[[RunId], None]
    # Something that is under way until it ends, whatever becomes of the run here.
    beside: Callable[[Coroutine[Any, Any, None]], None]


def parked_owner(run_id: str) -> str:
    """Who holds the lease of a run that waits."""
    return holders.workflow_owner(CONDUCTOR, workflow_id(run_id))


class KeptRuns:
    """The runs that this worker decides about."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._kept: dict[RunId, KeptRun] = {}
        self._unknown: set[RunId] = set()
        self._is_closed = False

    def __contains__(self, run_id: RunId) -> bool:
        return run_id in self._kept

    async def keep(self, task: Task) -> None:
        """Until the run has ended, waits, or is another worker's. Raises nothing."""
        try:
            await self._keep(task)
        except PodiumError as error:
            _LOG.warning("a task of Conductor is given back: %s", error)
            await self._give_back(task, _TROUBLE_SECONDS)

    async def _keep(self, task: Task) -> None:
        client, run_id = self._site.client, run_of(task.order)
        if run_id is None:
            await client.update(task, FAILED_FOR_GOOD, reason="MALFORMED_TASK: its input does not name a run")
            return None
        try:
            run = await self._site.parts.store.get_run(run_id)
        except RunNotFound as error:
            if run_id not in self._unknown:
                _LOG.warning("%s; its task is given back, for a worker with another store", error)
                self._unknown.add(run_id)
            return await self._give_back(task, _UNKNOWN_SECONDS)
        if run.status in TERMINAL:
            return await self._report_end(run, task)
        if not await self._is_its_execution(run, task):
            await client.terminate(task.workflow_instance_id, f"run {run_id} has another execution")
            return None
        # The server may deliver a task twice, also at the same time: nothing is awaited between these two lines.
        if run_id in self._kept:
            return self._kept[run_id].deliver(task)
        kept = self._kept[run_id] = KeptRun(self._site, run, task)
        if self._is_closed:
            kept.leave()
        try:
            await kept.keep()
        except NotItsExecution as error:
            await client.update(task, FAILED_FOR_GOOD, reason=f"{error.code}: {error}")
        except RunLocked:
            await self._give_back(task, _HELD_SECONDS)
        except StaleFence as error:
            _LOG.info("run %s is another worker's now: %s", run_id, error)
        finally:
            del self._kept[run_id]

    async def _is_its_execution(self, run: Run, task: Task) -> bool:
        known = run.engine.provider_run_id if run.engine is not None else ""
        if known in ("", task.workflow_instance_id):
            return True
        found = await self._site.client.execution(known)
        return found is None or not found.is_open

    async def _report_end(self, run: Run, task: Task) -> None:
        end = await last_end(self._site.parts.store, run)
        assert end is not None
        await self._site.executions.report_end(task, ended_by(end))

    async def _give_back(self, task: Task, seconds: int) -> None:
        """If the server is away, it gives the task to another worker when it is back."""
        with contextlib.suppress(PodiumError):
            await self._site.client.update(task, IN_PROGRESS, callback_after=seconds)

    def leave(self) -> None:
        """The worker ends: nothing more starts, and runs are given back as soon as nothing is under way here."""
        self._is_closed = True
        for kept in self._kept.values():
            kept.leave()


class KeptRun:
    """One run, as long as this worker keeps its task."""

    def __init__(self, site: Site, run: Run, task: Task) -> None:
        self._site = site
        self._store = site.parts.store
        self._run = run
        self._run_id = run.identity.run_id
        self._task = task
        # It was ended by hand: nothing can be said to the server about it.
        self._is_task_gone = False
        # A worker gave the run back: its execution had the run's status then.
        self._was_parked = False
        # What someone changed in Conductor is left as it is until the record of it in the log is folded.
        self._leave_status_until = 0
        self._owner = holders.new_owner()
        self._lease: Lease | None = None
        self._loop: DecidingLoop | None = None
        self._is_leaving = False
        self._mirror = Mirror(site.client, task.workflow_instance_id)
        self._task_log = TaskLog(site.client, task.task_id)

    def leave(self) -> None:
        self._is_leaving = True
        if self._loop is not None:
            self._loop.leave()

    def deliver(self, task: Task) -> None:
        """Once more, while it is kept. It is a new one if the server gave the old one up, or it was retried by hand."""
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
        self._lease = opened.lease
        await self._adopt(opened.lease.fence)
        self._site.on_kept(self._run_id)
        loop = self._loop = self._make_loop(opened)
        try:
            is_over = await self._drive(loop, opened)
        finally:
            loop.close()
            if loop.attempts:
                # They are this worker's, also if another one decides about the run.
                self._site.beside(listen_for_stops(self._site.folded, loop.run_id, loop.left_behind()))
        if is_over:
            await self._store.release(self._lease)
            await self._report_end()
        else:
            await self._park(loop)

    async def _open(self) -> Opened | NotOpened:
        held = await self._store.held_lease(self._run_id)
        self._was_parked = held is not None and held.lease.owner == parked_owner(self._run_id)
        claimant = Claimant(self._owner, RUN_LEASE, parked_owner(self._run_id))
        try:
            return await self._site.opening.open(self._run, claimant)
        except RunLocked:
            held = await self._store.held_lease(self._run_id)
            if held is None or not holders.is_gone(held.lease.owner):
                raise
            await self._store.release(held.lease)
            return await self._site.opening.open(self._run, claimant)

    async def _adopt(self, fence: Fence) -> None:
        """The first execution that claims the run is the run's; another one is, if that was deleted."""
        execution, known = self._task.workflow_instance_id, self._run.engine
        assert isinstance(known, ConductorRunRef)
        if known.provider_run_id != execution:
            # One that was started anew has no status yet that someone could have changed.
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
            fence=self._fence,
            hand_out=self._hand_out,
            on_event=self._task_log.note,
            on_turn=self._mirror_hold,
            may_rest=lambda: self._mirror.is_true,
        )
        limit = parallel_limit(opened.plan, CONDUCTOR)
        loop.follow(Follower(opened.machine, self._run.identity, limit))
        if self._is_leaving:
            loop.leave()
        return loop

    def _fence(self) -> Fence:
        assert self._lease is not None
        return self._lease.fence

    async def _drive(self, loop: DecidingLoop, opened: Opened) -> bool:
        with contextlib.ExitStack() as beside:
            for one in (
                self._beat(),
                self._keep_lease(loop),
                self._follow(loop),
                self._task_log.keep_up(),
                self._mirror.keep_up(loop.wake),
            ):
                beside.enter_context(_beside(one, loop.lose))
            await loop.read()
            follower = loop.follower
            if opened.start is not None and not follower.machine.cancelled_before_start:
                follower.submit(EventDraft(EventType.RUN_STARTED, payload=opened.start))
            elsewhere = await self._carried_out_elsewhere(loop)
            follower.restart(elsewhere)
            loop.handed_out |= elsewhere
            await self._look_at_status()
            return await loop.drive()

    def _mirror_hold(self) -> None:
        assert self._loop is not None
        machine = self._loop.follower.machine
        if machine.last_seq >= self._leave_status_until:
            self._mirror.want(bool(machine.hold.reasons))

    async def _look_at_status(self) -> None:
        """What differs from the log was changed by hand, unless the worker that had the run could not mirror it."""
        with contextlib.suppress(PodiumError):
            found = await self._site.client.execution(self._task.workflow_instance_id)
            if found is None or not found.is_open:
                return
            self._mirror.was_changed(is_paused=found.status == PAUSED)
            if self._was_parked and self._mirror.is_paused != await self._is_paused():
                await self._pause_or_resume(found)

    async def _is_paused(self) -> bool:
        """Now that the run is this worker's: while it was read first, another one may have paused or resumed it."""
        return (await self._store.get_run(self._run_id)).status is RunStatus.PAUSED

    # --- what is carried out elsewhere ------------------------------------------------------------

    async def _hand_out(self, path: str, attempt: int) -> None:
        site = self._site
        await patiently(lambda: site.executions.hand_out(self._run_id, site.domain, path, attempt))

    async def _carried_out_elsewhere(self, loop: DecidingLoop) -> set[TaskKey]:
        """Started attempts that a worker holds, or will get from the server."""
        machine = loop.follower.machine
        started = {key for key in machine.waits if isinstance(key, tuple) and len(key) == 2}
        started = {key for key in started if machine.has_started(*key)}
        if not started:
            return set()
        held = await self._held()
        with contextlib.suppress(PodiumError):
            return started & (held | await self._site.executions.open_steps(self._run_id))
        return started & held

    async def _held(self) -> set[TaskKey]:
        names = [one.lease.fence.attempt for one in await self._store.held_attempts(self._run_id)]
        return {(path, int(attempt)) for path, _, attempt in (name.rpartition("|") for name in names)}

    async def _look_for_handed_out(self, loop: DecidingLoop) -> None:
        """An execution that was terminated or deleted by hand is handed out again."""
        if not loop.handed_out:
            return
        missing = await self._missing(loop)
        if missing:
            # They may have ended while they were looked for.
            await asyncio.sleep(_SETTLED_SECONDS)
            missing &= await self._missing(loop)
        for key in missing:
            _LOG.warning("attempt %s of %r of run %s is handed out again", key[1], key[0], self._run_id)
            loop.hand_out(key)
        loop.wake()

    async def _missing(self, loop: DecidingLoop) -> set[TaskKey]:
        """Handed out, neither open nor held, and not ended."""
        held = await self._held()
        loop.held = frozenset(held)
        missing = loop.handed_out - held - await self._site.executions.open_steps(self._run_id)
        return (missing & loop.handed_out) - loop.on_the_way

    # --- beside the loop --------------------------------------------------------------------------

    async def _keep_lease(self, loop: DecidingLoop) -> None:
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            with contextlib.suppress(StoreUnavailable, TimeoutError):
                async with asyncio.timeout(RUN_LEASE.total_seconds()):
                    if not await self._renew():
                        loop.lose(StaleFence(f"run {self._run_id!r} was taken over by another worker"))
                        return

    async def _renew(self) -> bool:
        """If it had lapsed and no one had it since, it is still ours."""
        assert self._lease is not None
        before = self._lease.fence.generation
        lease = await self._store.renew(self._lease, ttl=RUN_LEASE)
        if lease is None:
            lease = await self._store.claim(self._run_id, owner=self._owner, ttl=RUN_LEASE)
            if lease is None:
                return False
            if lease.fence.generation > before + 1:
                await self._store.release(
                    lease
                )  # another worker had it since: the run has to be opened again
                return False
        self._lease = lease
        return True

    async def _follow(self, loop: DecidingLoop) -> None:
        """The log, for what others append to it."""
        while True:
            with contextlib.suppress(StoreUnavailable):
                after = loop.follower.machine.last_seq
                async for records in self._store.watch(self._run_id, after=after):
                    folded = loop.follower.machine.last_seq
                    new = [record for record in records if record.run_seq > folded]
                    loop.incoming(await self._site.attempts.logged(new))
                    # What this worker appends itself is read here, too: together, and not one by one.
                    await asyncio.sleep(_FOLLOW_SECONDS)
            await asyncio.sleep(_BEAT_SECONDS)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            try:
                if not self._is_task_gone:
                    await self._look_at_execution()
                if self._loop is not None:
                    await self._look_for_handed_out(self._loop)
            except PodiumError as error:
                _LOG.warning("run %s: %s", self._run_id, error)

    async def _look_at_execution(self) -> None:
        client, execution = self._site.client, self._task.workflow_instance_id
        await beat(client, self._task)
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
        """As someone has in Conductor. If that is refused, the execution is set back to what the log says."""
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
        """It was deleted, or ended by hand: the run continues, and another one, or that one again, shows its end."""
        site = self._site
        _LOG.warning(
            "the execution of run %s was removed or ended by hand; it gets another one", self._run_id
        )
        execution = await site.executions.revive(await self._store.get_run(self._run_id), site.domain)
        found = await site.client.execution(execution, tasks=True)
        if found is None or found.last_task is None:
            return
        self._task = found.last_task
        await beat(site.client, self._task)
        self._task_log.task_id = self._task.task_id
        self._mirror.show(execution, is_paused=found.status == PAUSED)
        if self._lease is not None:
            await self._adopt(self._lease.fence)

    # --- giving the run back ----------------------------------------------------------------------

    async def _park(self, loop: DecidingLoop) -> None:
        parked = await self._store.claim(
            self._run_id, owner=parked_owner(self._run_id), ttl=None, takes_over=self._owner
        )
        if parked is None:
            raise StaleFence(f"run {self._run_id!r} was taken over by another worker")
        seconds = 0.0 if loop.is_leaving else loop.next_due()
        await self._task_log.flush()
        await self._wait_for(loop.follower.machine.last_seq, seconds)

    async def _wait_for(self, seq: int, seconds: float | None) -> None:
        """The task waits; a signal between the decision and the server's answer must not wait with it."""
        site = self._site
        after = _LONG_SECONDS if seconds is None else max(0, int(seconds))
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
            # A worker gets its new task, and ends it as the run has ended.
            await executions.revive(run, self._site.domain)


async def wish(site: Site, run: Run, found: Execution | Summary) -> bool:
    """What someone changed in Conductor, sent as a signal. False if it was refused."""
    kind, done = _WISHES[found.status]
    return await site.signal(run, kind, wish_id(found, kind), f"{done} in Conductor")


async def beat(client: ConductorClient, task: Task) -> None:
    """The task is this worker's for some more time; then the server hands it out again.

    By a callback that is put off: a worker that dies after a heartbeat by `extendLease` is noticed a minute later, and
    never while the execution is paused. Whether a worker has the task, its status does not say: the run's lease does.
    """
    await client.update(task, IN_PROGRESS, callback_after=HELD_SECONDS)


@contextlib.contextmanager
def _beside(
    work: Coroutine[Any, Any, None], on_error: Callable[[PodiumError], None] | None = None
) -> Iterator[None]:
    """Without any part of it a run would wait for ever: if one fails, the run is given back."""
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
