"""One run on a host: prepared without a directory if its steps write no files, driven, and parked while it
waits.
"""

import contextlib
import math
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from podium.engines.control import Left
from podium.engines.hosted_plans import HostedPlan, HostedPlans
from podium.engines.hosting import OtherRules, first_facts, prepare_run, started_at
from podium.engines.parts import LocalParts
from podium.engines.start import run_facts, start_facts
from podium.errors import PodiumError, StaleFence, StoreUnavailable
from podium.log.events import EventRecord, EventType, encode_payload
from podium.log.ids import RunId
from podium.log.keys import RUN_SLOT, key_v1
from podium.log.leases import Lease
from podium.log.notes import RunNotes
from podium.log.payloads import fields_of
from podium.log.times import Timestamp, moment, timestamp
from podium.log.transitions import NOT_STARTED
from podium.machine.answers import failure_payload
from podium.machine.commands import SetTimer
from podium.plan.loading import PlanVersionUnknown
from podium.ports.store import Claimed
from podium.runtime import checkpoints
from podium.runtime.checkpoints import CheckpointWriter
from podium.runtime.drive import Driver
from podium.runtime.inbox import PendingEvent
from podium.runtime.lease_keeper import LeaseKeeper
from podium.runtime.log_shipping import LogShipper
from podium.runtime.plan_approval import rejected_end, require_approved_plan, stop_signal
from podium.runtime.reading import READ_BATCH
from podium.runtime.run_views import RunViews
from podium.runtime.spilling import values_of
from podium.runtime.tasks.dispatch import RunTasks
from podium.runtime.view_trouble import ViewTrouble
from podium.runtime.world import World
from podium.runtime.writing import new_event
from podium.text import typed_reason

STOPPED: Final = "the host was stopped"
# A run that has to wait longer than this leaves its slot.
_SHORT_WAIT_SECONDS: Final = 2.0
# How long hosts leave a run alone that needs a newer Podium than the one that has claimed it.
_NEWER_PAUSE: Final = timedelta(seconds=5)


class _Prepared(msgspec.Struct):
    tasks: RunTasks
    # Only for a run that has not started: the payload of RunStarted.
    start: dict[str, Any] | None = None
    views: Callable[[Driver], RunViews] | None = None


class PoolRun:
    """A run that this host has claimed."""

    def __init__(
        self, parts: LocalParts, plans: HostedPlans, claimed: Claimed, leased_until: float = math.inf
    ) -> None:
        """`leased_until`: by the clock of the loop."""
        self._parts = parts
        self._store = parts.store
        self._plans = plans
        self._run = claimed.run
        self._may_start = claimed.may_start
        self.run_id: RunId = claimed.run.identity.run_id
        self.tenant_id = claimed.run.identity.tenant_id
        self._directory = parts.directory(self.run_id)
        self._values = values_of(
            parts.store, self.run_id, self._directory, parts.artifacts, parts.bucket_of(self.run_id)
        )
        self.keeper = LeaseKeeper(parts.store, claimed.lease, parts.lease, _ignore)
        self._leased_until = leased_until
        self.driver: Driver | None = None
        # Copies the logs of its steps to the bucket, if there is one and its steps may write any.
        self.logs: LogShipper | None = None
        self._lost: Exception | None = None
        self._read_before: list[EventRecord] = []
        # The store has released its lease: with the end of the run, or when it was parked.
        self._is_free = False

    # --- for the loops of the host ----------------------------------------------------------------

    @property
    def head(self) -> int | None:
        """The newest record that its driver knows; None before it has read the log."""
        return self.driver.machine.last_seq if self.driver is not None and self.driver.is_driving else None

    def revoke(self, reason: Exception) -> None:
        """Another host owns the run: nothing more is written here."""
        self._lost = reason
        if self.driver is not None:
            self.driver.revoke(reason)

    def leave(self, reason: str) -> None:
        self._lost = Left(reason)
        if self.driver is not None:
            self.driver.leave(self._lost)

    def drain(self) -> None:
        """Let running steps end, start no other, and leave the run then. Called again until it is left."""
        driver = self.driver
        # One that only waits is parked instead.
        if driver is None or (driver.drain() and _awaited_timers(driver) is None):
            self.leave(STOPPED)

    async def renewed(self, lease: Lease | None, until: float) -> None:
        """None: it was lost, or has lapsed while the store was unavailable; then it is claimed again if it is
        still free.
        """
        driver = self.driver
        if lease is not None:
            self.keeper.lease = lease
            self._leased_until = until
            if driver is not None:
                self.keeper.renewed(lease, driver, until)
        elif driver is not None:
            await self.keeper.claim_again(driver)
        else:
            self.revoke(_taken_over(self.run_id))

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it is executed now."""
        driver = self.driver
        return driver is not None and driver.is_driving and not driver.running

    async def park_if_idle(self) -> bool:
        """Park the run if it only waits for a timer or a person."""
        driver = self.driver
        if driver is None or not self.is_idle:
            return False
        seq = driver.machine.last_seq
        timers = _awaited_timers(driver)
        if timers is None:
            return False
        until = min(timers, default=None)  # None: it waits for a person alone
        if until is not None and not self._is_long(until):
            return False
        if not await self._store.park(self.keeper.lease, after=seq, until=until):
            driver.nudge()
            return False
        self._is_free = True
        self.leave("parked")
        return True

    def _is_long(self, due: Timestamp) -> bool:
        wait = moment(due) - self._parts.clock.now()
        return wait.total_seconds() > _SHORT_WAIT_SECONDS

    # --- driving ----------------------------------------------------------------------------------

    async def drive(self) -> str | None:
        """Drive to its end, whose type is returned; None if it was left, parked or lost before."""
        try:
            if self._lost is not None:
                raise self._lost
            if not self._may_start and not await self._is_stopped():
                return None
            return await self._drive()
        except (Left, StaleFence, StoreUnavailable) as lost:
            # It was left, another host owns it, or it is claimed again when the store is back. The driver
            # keeps a reference to the reason, and a traceback would keep the driver alive.
            lost.with_traceback(None)
            return None
        except (OtherRules, PlanVersionUnknown) as error:
            if not error.is_newer:
                return await self._fail(error)
            await self._leave_to_newer_host()
            raise
        except Exception as error:
            return await self._fail(error)
        finally:
            if not self._is_free:
                await self.keeper.release()

    async def _is_stopped(self) -> bool:
        """Whether the signal that woke a run before its turn ends it. Otherwise it waits for its turn."""
        stop = await stop_signal(self._store, self._run)
        if stop is None:
            return False
        body = fields_of(stop)
        if body.get("signalType") == "REJECT":
            await self._end(EventType.RUN_FAILED, rejected_end(body))
            raise Left("rejected")
        return True

    async def _drive(self) -> str | None:
        parts, run = self._parts, self._run
        hosted = await self._plans.of(run)
        prepared = await self._prepare(hosted)
        world = World(
            parts.store,
            parts.clock,
            prepared.tasks,
            prepared.tasks.ask,
            observers=parts.observers_of(run),
            outages=parts.outages(self.run_id),
            payloads=self._values,
            artifact_ages=parts.artifact_ages,
            watches_log=False,
        )
        driver = Driver(hosted.plan, run.identity, self.keeper.lease.fence, world)
        # Also checked before the first renewal: a host that was frozen since the claim starts nothing.
        driver.leased_until(self._leased_until)
        prepared.tasks.lease_holds = driver.is_leased
        views = await self._open_views(hosted, prepared, driver, world)
        driver.prefetch(self._read_before)
        if prepared.start is not None and self._may_start:
            driver.submit(PendingEvent(EventType.RUN_STARTED, payload=prepared.start))
        self.driver = driver
        if self._lost is not None:
            raise self._lost
        try:
            end = await driver.drive()
            self._is_free = True
            return end.event_type
        finally:
            try:
                await prepared.tasks.close()
            finally:
                if views is not None:
                    views.close()

    async def _prepare(self, hosted: HostedPlan) -> _Prepared:
        parts, run = self._parts, self._run
        if hosted.needs_directory:
            return await self._prepare_directory()
        workspace = Path(msgspec.json.decode(run.metadata).get("workspace", "."))
        await self._plans.require_needs(hosted, workspace)
        if run.needs_approval:
            await require_approved_plan(self._store, run, hosted.sha256)
        directory = self._directory
        host = self._plans.host(hosted, run, directory, workspace)
        asked, started = await first_facts(self.run_id, await self._first_records(), self._values)
        facts = run_facts(run, hosted.plan, directory, workspace, started_at(started) or parts.now())
        tasks = RunTasks(self.run_id, hosted.plan, host, facts, None, None, parts.recordings)
        start = None
        if started is None:
            approved = hosted.sha256 if run.needs_approval else None
            start = start_facts(hosted.plan, asked.inputs, facts, host, approved_sha256=approved)
        return _Prepared(tasks, start)

    async def _prepare_directory(self) -> _Prepared:
        """As in the local engine: with everything that its steps may read and write."""
        parts, run = self._parts, self._run
        directory = self._directory
        directory.make()
        self.logs = self._log_shipper()
        prepared = await prepare_run(parts, run, check=True, alone=True)
        parts.check(prepared.plan, prepared.host.workspace).require()
        start = None
        if not prepared.has_started:
            start = start_facts(
                prepared.plan,
                prepared.asked.inputs,
                prepared.facts,
                prepared.host,
                approved_sha256=prepared.approved_sha256,
            )

        def views(driver: Driver) -> RunViews:
            return RunViews(
                directory, prepared.plan, self.run_id, driver, driver.is_leased, ViewTrouble(None)
            )

        return _Prepared(prepared.tasks, start, views)

    def _log_shipper(self) -> LogShipper | None:
        artifacts = self._parts.bucket_of(self.run_id)
        if artifacts is None:
            return None
        generation = self.keeper.lease.fence.generation
        is_new = self._run.status in NOT_STARTED
        return LogShipper(self._directory.steps, artifacts.log_segments, generation, is_new=is_new)

    async def _open_views(
        self, hosted: HostedPlan, prepared: _Prepared, driver: Driver, world: World
    ) -> RunViews | None:
        store, is_new = self._store, self._run.head <= 1
        if prepared.views is None:
            notes = await self._continue(hosted, driver, is_new=is_new)
            world.views.append(notes)
            world.checkpoints = CheckpointWriter(store, self.run_id, hosted.plan, {"notes": notes})
            return None
        views = prepared.views(driver)
        await views.open(store, is_new=is_new)
        world.views += views.observers
        world.state_views.append(views.state)
        world.sync_views = views.journal.sync
        world.checkpoints = CheckpointWriter(store, self.run_id, hosted.plan, views.saved)
        return views

    async def _continue(self, hosted: HostedPlan, driver: Driver, *, is_new: bool) -> RunNotes:
        """Continue from its newest checkpoint, if it has one."""
        saved = None if is_new else await checkpoints.newest_for(self._store, self.run_id, hosted.plan)
        machine = checkpoints.machine_of(hosted.plan, saved) if saved is not None else None
        if saved is not None and machine is not None:
            with contextlib.suppress(KeyError, msgspec.MsgspecError):
                notes = msgspec.json.decode(saved.views["notes"], type=RunNotes)
                if notes.run_seq == saved.run_seq:
                    driver.start_from(machine, saved)
                    return notes
        return RunNotes()

    async def _first_records(self) -> list[EventRecord]:
        run = self._run
        if run.head < READ_BATCH and run.status in NOT_STARTED:
            self._read_before = await self._store.read(self.run_id, limit=READ_BATCH)
            return self._read_before
        kinds = (EventType.RUN_QUEUED, EventType.RUN_STARTED)
        keys = [key_v1(self.run_id, RUN_SLOT, 1, one, run.identity.plan_version) for one in kinds]
        return await self._store.find(self.run_id, keys)

    # --- what cannot be driven --------------------------------------------------------------------

    async def _fail(self, error: Exception) -> str | None:
        """It would fail in the same way on every host, so it ends, and a person can resume it."""
        code = error.code if isinstance(error, PodiumError) else "INTERNAL_ERROR"
        text = str(error) if isinstance(error, PodiumError) else typed_reason(error)
        reason = "not started" if self._run.status in NOT_STARTED else "not continued"
        try:
            await self._end(EventType.RUN_FAILED, failure_payload(1, code, text, reason=reason))
        except PodiumError:
            return None  # lost, or the store is unavailable: the next host finds the same error
        return EventType.RUN_FAILED

    async def _leave_to_newer_host(self) -> None:
        """While servers are upgraded one after the other, a newer host can drive it."""
        with contextlib.suppress(PodiumError):
            head = (await self._store.get_run(self.run_id)).head
            until = timestamp(self._parts.clock.now() + _NEWER_PAUSE)
            self._is_free = await self._store.park(self.keeper.lease, after=head, until=until)

    async def _end(self, event_type: EventType, payload: dict[str, Any]) -> None:
        run = await self._store.get_run(self.run_id)
        write = new_event(run.identity, event_type, self._parts.now(), encode_payload(payload))
        await self._store.append(self.run_id, [write], fence=self.keeper.lease.fence)


def _awaited_timers(driver: Driver) -> list[Timestamp] | None:
    """When the timers of a run are due that only waits, for them or for a person; None if anything else moves."""
    if not driver.is_idle:
        return None
    owed = driver.machine.outstanding()
    timers = [command.due for command in owed if isinstance(command, SetTimer)]
    return timers if len(timers) == len(owed) else None  # otherwise a task or a question


def _taken_over(run_id: str) -> StaleFence:
    return StaleFence(f"run {run_id!r} was taken over by another host; nothing more is written here")


def _ignore(_lease: Lease) -> None:
    pass
