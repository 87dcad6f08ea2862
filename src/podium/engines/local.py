"""The embedded engine: this process drives the run and executes its tasks. It needs no other service.

    parts      what this process gives to its runs         creation   a new run, in the store and on disk
    claims     getting the run: lock, lease, slot          control    cancel, and leaving a run that only waits
    driving    a run that was claimed                      earlier    what a rerun takes over
    hosting    what a run needs on this host               start      what decisions may read of the world

The lease is renewed while the run is driven and released at its end.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from podium.engines.claims import Claim
from podium.engines.control import Control
from podium.engines.creation import create_run
from podium.engines.delivering import Delivering
from podium.engines.driving import Caller, ClaimedRun, drive_claimed
from podium.engines.parts import LocalParts
from podium.errors import ConcurrencyLimit, PodiumError, StaleFence
from podium.log.engines import LOCAL
from podium.log.ids import RunId
from podium.log.leases import DRIVER_LEASE
from podium.log.runs import Run
from podium.log.transitions import NOT_STARTED, TERMINAL
from podium.machine.progress import Progress
from podium.plan.capabilities import check_capabilities
from podium.plan.plan import Concurrency, Plan
from podium.ports.artifacts import ArtifactBucket, ArtifactStore
from podium.ports.clock import Clock
from podium.ports.engine import LEFT, RESUMABLE, Driving, Notice, Observer, RunEnded, RunRequest
from podium.ports.store import Store
from podium.ports.telemetry import SILENT, Telemetry
from podium.runtime.ends import ended_by, last_end
from podium.runtime.expiring import ArtifactAges
from podium.runtime.lease_keeper import LeaseKeeper
from podium.runtime.lock import WAIT_SECONDS, RunLock, RunLocked, no_lease
from podium.runtime.other_engines import check_local
from podium.runtime.outages import OUTAGE
from podium.runtime.plan_file import load_plan
from podium.runtime.preflight import Readiness
from podium.runtime.reopening import Reopening, RunEndedAlready
from podium.runtime.run_artifacts import OUTAGE as ARTIFACT_OUTAGE
from podium.runtime.run_artifacts import parts_of
from podium.runtime.rundir import RunDirectory

if TYPE_CHECKING:
    from podium.ports.provider import Providers
    from podium.runtime.plan_approval import Waited
    from podium.runtime.tasks.node_runtime import NodeRuntime
    from podium.runtime.tasks.recordings import Recordings

LEASE: Final = DRIVER_LEASE
LOCK_WAIT: Final = timedelta(seconds=WAIT_SECONDS)
_LOOK_SECONDS: Final = 0.1


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
        artifact_ages: ArtifactAges | None = None,
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
            artifact_ages=artifact_ages or {},
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
        """What is missing for a run of the plan in this process; nothing is executed for the check."""
        return self._parts.check(plan, workspace)

    async def begin(self, run_id: RunId) -> bool:
        """Workers start a run of their pool."""
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
        on_waiting: Callable[[Progress], None] | None = None,
    ) -> RunEnded:
        store = self._parts.store
        run = await self._parts.patiently(run_id, partial(store.get_run, run_id), notify)
        reopening = Reopening(store, self._parts.clock, run, reopen, was_open=was_open)
        delivering = Delivering(self._parts, frozenset({run.identity.tenant_id}))
        caller = Caller(
            observers=(*observers, delivering.observe),
            on_driving=on_driving,
            on_waiting=on_waiting,
            notify=notify,
            no_wait=no_wait,
            check=check,
        )
        patience = lock_wait if lock_wait is not None else self._parts.lock_wait.total_seconds()
        try:
            if run.pool is None:
                return await self._drive_here(run, reopening, caller, patience)
            from podium.engines.pool_watching import watch_pool_run

            return await watch_pool_run(
                self._parts,
                reopening,
                run,
                observers=caller.observers,
                on_driving=on_driving,
                on_waiting=on_waiting,
                notify=notify,
                no_wait=no_wait,
            )
        finally:
            with contextlib.suppress(PodiumError):
                await delivering.finish()

    async def _drive_here(self, run: Run, reopening: Reopening, caller: Caller, patience: float) -> RunEnded:
        parts, store, run_id = self._parts, self._parts.store, run.identity.run_id
        directory = parts.directory(run_id)
        check_local(run)
        patiently = partial(parts.patiently, run_id, notify=caller.notify)
        if await patiently(reopening.is_completed):
            await self._write_views(run, directory)
            raise RunEndedAlready(run_id)
        await patiently(partial(reopening.check, run))
        directory.make()
        lock, control = RunLock(directory.lock, run_id), Control()
        concurrency = await patiently(partial(self._concurrency, run, directory))
        claim = Claim(parts, reopening, lock, concurrency, caller.notify)
        ends_unstarted = False
        try:
            lease = await claim.lock(patience)
            if lease is not None and run.waits_for_approval:
                await store.release(lease)  # while it waits, it belongs to no process
                lease = None
            # A new run can be cancelled while it waits for a slot; a resumed one keeps its status.
            may_wait = run.status in NOT_STARTED and (claim.slots is not None or run.needs_approval)
            if may_wait and caller.on_driving is not None:
                caller.on_driving(control)
            if run.waits_for_approval:
                waited = await self._wait_for_approval(run, control, caller)
                if waited in ("ended", "left"):
                    lock.release()
                    return await self._not_started(run_id, directory)
                if waited == "stopped":
                    ends_unstarted = control.was_queued = True
                    lease = await claim.claim_to_end()
            if lease is None:
                lease = await claim.lease(run, control)
            lock.record_lease(lease)
            keeper = LeaseKeeper(store, lease, parts.lease, lock.record_lease, slots=claim.slots)
            if not may_wait and caller.on_driving is not None:
                caller.on_driving(control)
            try:
                return await drive_claimed(parts, ClaimedRun(reopening, lock, keeper, control), caller)
            finally:
                await keeper.release()
        except ConcurrencyLimit:
            lock.release()
            await self._write_views(await store.get_run(run_id), directory)
            raise
        except (StaleFence, RunLocked):
            if not ends_unstarted or not await self._is_ended_elsewhere(run_id):
                raise
            lock.release()
            return await self._not_started(run_id, directory)
        except asyncio.CancelledError:
            await claim.give_back()
            raise
        finally:
            lock.release()

    async def _wait_for_approval(self, run: Run, control: Control, caller: Caller) -> "Waited":
        from podium.runtime.plan_approval import wait_for_approval

        parts, run_id = self._parts, run.identity.run_id
        look = partial(parts.patiently, run_id, partial(parts.store.get_run, run_id), caller.notify)
        return await wait_for_approval(
            parts.store,
            look,
            on_waiting=caller.on_waiting,
            is_cancelled=lambda: control.is_cancelled,
            no_wait=caller.no_wait,
        )

    async def _is_ended_elsewhere(self, run_id: RunId) -> bool:
        """Every process that waits for an approval is asked to end the run, and so is the one that cancels it: one of
        them does. Whether it has, within the time of a lease.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._parts.lease.total_seconds()):
                while (await self._parts.store.get_run(run_id)).status not in TERMINAL:
                    await asyncio.sleep(_LOOK_SECONDS)
                return True
        return False

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
        """The process that drove the run to its end may have been killed before updating the run's directory."""
        from podium.runtime.restoring import write_views

        parts, lock = self._parts, RunLock(directory.lock, run.identity.run_id)
        with contextlib.suppress(RunLocked):
            await lock.take(no_lease, wait=0)
            try:
                values = parts.values(run.identity.run_id)
                await write_views(parts.store, parts.clock, directory, run, values)
            finally:
                lock.release()
