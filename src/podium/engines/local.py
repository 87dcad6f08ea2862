"""The embedded engine: this process drives the run and carries out its tasks. Nothing has to be started for it.

    parts      what this process gives to its runs         creation   a new run, in the store and on disk
    claims     getting the run: lock, lease, slot          control    cancel, and leaving a run that only waits
    earlier    what a rerun takes over                     start      what decisions may read of the world
    hosting    what a run needs on this host

The lease is renewed while the run is driven and given up at its end.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from podium.engines.claims import Claim
from podium.engines.control import Control, Left, leave_when_idle, report_waiting
from podium.engines.creation import create_run
from podium.engines.hosting import prepare_run
from podium.engines.parts import LocalParts
from podium.engines.start import start_facts
from podium.errors import ConcurrencyLimit
from podium.log.engines import LOCAL
from podium.log.events import EventType
from podium.log.ids import RunId
from podium.log.leases import DRIVER_LEASE, Lease
from podium.log.runs import Run
from podium.log.transitions import TERMINAL, RunStatus
from podium.machine.obligations import Obligation
from podium.plan.capabilities import check_capabilities
from podium.plan.plan import Concurrency, Plan
from podium.ports.artifacts import ArtifactBucket, ArtifactStore
from podium.ports.clock import Clock
from podium.ports.engine import LEFT, RESUMABLE, Driving, Notice, Observer, RunEnded, RunRequest
from podium.ports.store import Store
from podium.ports.telemetry import SILENT, Telemetry
from podium.runtime.checkpoints import CheckpointWriter
from podium.runtime.draining import watch_draining
from podium.runtime.drive import Driver
from podium.runtime.ends import ended_by, last_end
from podium.runtime.inbox import PendingEvent
from podium.runtime.journal import Journal
from podium.runtime.lease_keeper import LeaseKeeper
from podium.runtime.lock import WAIT_SECONDS, RunLock, RunLocked
from podium.runtime.other_engines import check_local
from podium.runtime.outages import OUTAGE
from podium.runtime.plan_file import load_plan
from podium.runtime.preflight import Readiness
from podium.runtime.reopening import Reopening, RunEndedAlready
from podium.runtime.run_artifacts import OUTAGE as ARTIFACT_OUTAGE
from podium.runtime.run_artifacts import parts_of
from podium.runtime.run_views import RunViews
from podium.runtime.rundir import RunDirectory
from podium.runtime.state_file import StateFile
from podium.runtime.view_trouble import ViewTrouble
from podium.runtime.world import World

if TYPE_CHECKING:
    from podium.access.actors import Actor
    from podium.ports.provider import Providers
    from podium.runtime.alerts import Alerting
    from podium.runtime.plan_approval import Waited
    from podium.runtime.tasks.node_runtime import NodeRuntime
    from podium.runtime.tasks.recordings import Recordings

LEASE: Final = DRIVER_LEASE
LOCK_WAIT: Final = timedelta(seconds=WAIT_SECONDS)
_FLUSH_SECONDS: Final = 0.25
_NOT_STARTED: Final = (RunStatus.PENDING, RunStatus.APPROVED)


class _Session(msgspec.Struct):
    """One process at one run, from its claim on."""

    reopening: Reopening
    lock: RunLock
    keeper: LeaseKeeper
    control: Control
    observers: Sequence[Observer]
    no_wait: bool
    notify: Callable[[Notice], None] | None
    check: bool
    on_waiting: Callable[[Sequence[Obligation]], None] | None


class LocalEngine:
    """An `Engine`."""

    provider = LOCAL

    def __init__(
        self,
        store: Store,
        clock: Clock,
        runs: Path,
        *,
        secrets: Mapping[str, str] | None = None,
        inline: dict[str, Callable[..., Any]] | None = None,
        lease: timedelta = LEASE,
        lock_wait: timedelta = LOCK_WAIT,
        outage: timedelta = OUTAGE,
        artifacts: Callable[[Path], ArtifactStore] | None = None,
        bucket: ArtifactBucket | None = None,
        artifact_outage: timedelta = ARTIFACT_OUTAGE,
        providers: "Callable[[], Providers] | None" = None,
        recordings: "Recordings | None" = None,
        nodes: "Callable[[], NodeRuntime] | None" = None,
        telemetry: Telemetry = SILENT,
    ) -> None:
        self._parts = LocalParts(
            store=store,
            clock=clock,
            runs=runs,
            secrets=os.environ if secrets is None else secrets,
            inline=inline or {},
            lease=lease,
            lock_wait=lock_wait,
            outage=outage,
            artifacts=artifacts,
            bucket=bucket,
            bucket_of=parts_of(bucket, store, artifact_outage),
            providers=providers,
            recordings=recordings,
            nodes=nodes,
            telemetry=telemetry,
        )

    async def create(self, request: RunRequest, *, notify: Callable[[Notice], None] | None = None) -> RunId:
        check_capabilities(request.plan, LOCAL)
        if request.pool is not None:
            return await self._create_in_pool(request, notify)
        return await create_run(self._parts, request, notify)

    async def _create_in_pool(self, request: RunRequest, notify: Callable[[Notice], None] | None) -> RunId:
        from podium.engines.creation import exists
        from podium.engines.pool_creation import PoolCreation

        created = await PoolCreation(self._parts).create(request, notify)
        run_id = created.run.identity.run_id
        if created.duplicate and request.run_request_id is None and request.run_id is not None:
            raise exists(run_id)
        return run_id

    def check(self, plan: Plan, workspace: Path) -> Readiness:
        """What is missing for a run of the plan in this process; nothing is executed for it."""
        return self._parts.check(plan, workspace)

    async def begin(self, run_id: RunId) -> bool:
        """Hosts start a run of their pool."""
        return (await self._parts.store.get_run(run_id)).pool is not None

    async def drive(
        self,
        run_id: RunId,
        *,
        observers: Sequence[Observer] = (),
        on_driving: Callable[[Driving], None] | None = None,
        reopen: int | None = None,
        was_open: bool = False,
        no_wait: bool = False,
        lock_wait: float | None = None,
        notify: Callable[[Notice], None] | None = None,
        check: bool = True,
        on_waiting: Callable[[Sequence[Obligation]], None] | None = None,
    ) -> RunEnded:
        parts, store, directory = self._parts, self._parts.store, self._parts.directory(run_id)
        run = await store.get_run(run_id)
        reopening = Reopening(store, parts.clock, run, reopen, was_open=was_open)
        if run.pool is not None:
            from podium.engines.pool_watching import watch_pool_run

            return await watch_pool_run(
                parts,
                reopening,
                run,
                observers=observers,
                on_driving=on_driving,
                on_waiting=on_waiting,
                notify=notify,
                no_wait=no_wait,
            )
        check_local(run)
        if await reopening.is_completed():
            await self._write_views(run, directory)
            raise RunEndedAlready(run_id)
        await reopening.check(run)
        directory.make()
        lock, control = RunLock(directory.lock, run_id), Control()
        claim = Claim(parts, reopening, lock, await self._concurrency(run, directory))
        patience = lock_wait if lock_wait is not None else parts.lock_wait.total_seconds()
        lease = await claim.lock(patience)
        if lease is not None and run.waits_for_approval:
            await store.release(lease)  # while it waits, it is no process's
            lease = None
        try:
            # A new run can be cancelled while it waits for a slot; one that is resumed stays what it is.
            may_wait = run.status in _NOT_STARTED and (claim.slots is not None or run.needs_approval)
            if may_wait and on_driving is not None:
                on_driving(control)
            if run.waits_for_approval:
                waited = await self._wait_for_approval(run, control, on_waiting, notify, no_wait=no_wait)
                if waited in ("ended", "left"):
                    lock.release()
                    return await self._not_started(run_id, directory)
                if waited == "stopped":
                    control.was_queued = True
                    lease = await claim.claim_to_end()
            if lease is None:
                lease = await claim.lease(run, control, notify)
            lock.record_lease(lease)
            keeper = LeaseKeeper(store, lease, parts.lease, lock.record_lease, slots=claim.slots)
            if not may_wait and on_driving is not None:
                on_driving(control)
            try:
                return await self._drive(
                    _Session(reopening, lock, keeper, control, observers, no_wait, notify, check, on_waiting),
                    directory,
                )
            finally:
                await keeper.release()
        except ConcurrencyLimit:
            lock.release()
            await self._write_views(await store.get_run(run_id), directory)
            raise
        finally:
            lock.release()

    async def _wait_for_approval(
        self,
        run: Run,
        control: Control,
        on_waiting: Callable[[Sequence[Obligation]], None] | None,
        notify: Callable[[Notice], None] | None,
        *,
        no_wait: bool,
    ) -> "Waited":
        from podium.runtime.plan_approval import wait_for_approval

        parts, run_id = self._parts, run.identity.run_id
        look = partial(parts.patiently, run_id, partial(parts.store.get_run, run_id), notify)
        return await wait_for_approval(
            parts.store,
            look,
            on_waiting=on_waiting,
            is_cancelled=lambda: control.is_cancelled,
            no_wait=no_wait,
        )

    async def _not_started(self, run_id: RunId, directory: RunDirectory) -> RunEnded:
        """The run waits for an approval without this process, or has ended without one."""
        run = await self._parts.store.get_run(run_id)
        await self._write_views(run, directory)
        end = await last_end(self._parts.store, run)
        return ended_by(end) if end is not None else RunEnded(run_id, LEFT, RESUMABLE, "waiting", "")

    async def _concurrency(self, run: Run, directory: RunDirectory) -> Concurrency | None:
        if run.concurrency_key is None:
            return None
        return (await load_plan(self._parts.store, directory, run)).concurrency

    async def _write_views(self, run: Run, directory: RunDirectory) -> None:
        """The process that drove the run to its end may have been killed before its directory showed it."""
        from podium.runtime.restoring import write_views

        parts, lock = self._parts, RunLock(directory.lock, run.identity.run_id)
        with contextlib.suppress(RunLocked):
            await lock.take(_no_lease, wait=0)
            try:
                values = parts.values(run.identity.run_id)
                await write_views(parts.store, parts.clock, directory, run, values)
            finally:
                lock.release()

    # --- with the lease ---------------------------------------------------------------------------

    async def _drive(self, session: _Session, directory: RunDirectory) -> RunEnded:
        parts, keeper = self._parts, session.keeper
        run = await session.reopening.check()  # much may have happened while we waited for our turn
        run_id = run.identity.run_id
        prepared = await prepare_run(parts, run, check=session.check, alone=True)
        plan, tasks, earlier = prepared.plan, prepared.tasks, prepared.earlier
        outages = parts.outages(run_id, session.notify)
        outages.on_return.append(keeper.wake)
        world = World(
            parts.store,
            parts.clock,
            await earlier.with_results(tasks),
            tasks.ask,
            observers=[*session.observers, *parts.observers_of(run)],
            outages=outages,
            payloads=parts.values(run_id),
        )
        driver = Driver(plan, run.identity, keeper.lease.fence, world)
        tasks.lease_holds = driver.is_leased
        views = RunViews(directory, plan, run_id, driver, session.lock.is_held, ViewTrouble(session.notify))
        await views.open(parts.store, is_new=run.head <= 1)
        journal, state = views.journal, views.state
        world.views += views.observers
        world.state_views.append(views.state)
        world.sync_views = journal.sync
        world.checkpoints = CheckpointWriter(parts.store, run_id, plan, views.saved)
        is_open = run.status not in TERMINAL
        if not is_open and session.reopening.is_wanted:
            await session.reopening.carry_out(keeper.lease)
            is_open = True
        if is_open and not prepared.has_started and not session.control.was_queued:
            started = start_facts(
                plan,
                prepared.asked.inputs,
                prepared.facts,
                prepared.host,
                approved_sha256=prepared.approved_sha256,
            )
            if not await earlier.start(started, keeper.lease, world):
                driver.submit(PendingEvent(EventType.RUN_STARTED, payload=started))
        session.control.begin(driver, outages)
        beside = list(self._beside(session, driver, directory, state, journal))
        helpers = [asyncio.create_task(one) for one in beside]
        try:
            return ended_by(await driver.drive())
        except Left as left:
            return RunEnded(run_id, LEFT, RESUMABLE, str(left), "")
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            # Nothing of a run stays behind. If it has not ended, the ends of its tasks are not recorded any more: the
            # lease is lost, the store is away, or this process ends.
            await tasks.close()
            state.write_last()
            journal.close()

    def _beside(
        self,
        session: _Session,
        driver: Driver,
        directory: RunDirectory,
        state: StateFile,
        journal: Journal,
    ) -> Iterator[Coroutine[Any, Any, None]]:
        """What happens while the run is driven."""
        parts, run_id = self._parts, session.reopening.run_id
        yield session.keeper.keep(driver)
        yield session.lock.refresh()
        yield _keep_up(directory, session.control, driver, state, journal)
        yield watch_draining(driver, run_id, self._alerting)
        yield leave_when_idle(parts.store, run_id, driver, no_wait=session.no_wait)
        if session.on_waiting is not None:
            yield report_waiting(driver, session.on_waiting)

    def _alerting(self) -> "Alerting":
        from podium.runtime.alerts import Alerting

        return Alerting(self._parts.store, self._parts.clock)


async def _keep_up(
    directory: RunDirectory, control: Control, driver: Driver, state: StateFile, journal: Journal
) -> None:
    """Periodically flush views to the run directory and honour its `.cancel` marker."""
    while True:
        await asyncio.sleep(_FLUSH_SECONDS)
        if directory.cancel_marker.exists():
            owner = _owner_of(directory.cancel_marker)
            directory.cancel_marker.unlink(missing_ok=True)
            control.cancel("asked for by .cancel", by=owner)
        driver.flush_views()
        state.write_if_due()
        journal.keep_up()


def _owner_of(marker: Path) -> "Actor | None":
    from podium.access.actors import Actor, Method
    from podium.runtime.callers import user_name

    try:
        uid = marker.lstat().st_uid
    except OSError:
        return None
    return Actor(user_name(uid), Method.FILE, uid)


async def _no_lease() -> Lease | None:
    return None
