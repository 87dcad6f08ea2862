"""Opens a run for an execution on another engine: its ownership, its state, and its start facts.

A run that cannot start here (its plan is not the one it was created with, or something that it needs is
missing) fails with the reason in its log. Otherwise its execution would fail and the run would stay pending
forever.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from enum import Enum
from typing import Any, TypeAlias

import msgspec

from podium.engines.hosting import PreparedRun, has_started, prepare_run
from podium.engines.parts import LocalParts
from podium.engines.start import start_facts
from podium.errors import ConcurrencyLimit, PodiumError, StoreUnavailable
from podium.log.alerts import Alert, AlertCode
from podium.log.engines import EngineRunRef
from podium.log.events import EventType, encode_payload
from podium.log.ids import RunId
from podium.log.leases import Lease
from podium.log.payloads import Signal, fields_of, payload_of
from podium.log.runs import Run
from podium.log.transitions import NOT_STARTED, TERMINAL
from podium.machine import Machine
from podium.machine.answers import failure_payload
from podium.machine.following import signal_wake_up
from podium.plan.capabilities import ValidationReport, check_capabilities
from podium.plan.plan import Plan
from podium.ports.plan_source import PlanUnavailable
from podium.ports.store import Contents
from podium.runtime import holders
from podium.runtime.alerts import Alerting
from podium.runtime.lock import RunLocked
from podium.runtime.plan_approval import rejected_end, stop_signal
from podium.runtime.reading import records_of
from podium.runtime.replaying import replayed
from podium.runtime.slots import CONCURRENCY_LIMIT, SlotWaiter
from podium.runtime.world import World
from podium.runtime.writing import new_event

PlanOf: TypeAlias = Callable[[Run, Contents], Awaitable[Plan]]


class NotItsExecution(PodiumError):
    """An execution that was not started for the run that it names."""

    code = "EXECUTION_REFUSED"


def require_provider(run: Run, provider: str) -> None:
    """Raises `NotItsExecution` for a run of another engine."""
    if run.provider != provider:
        raise NotItsExecution(
            f"run {run.identity.run_id!r} is a run of the {run.provider} engine; {provider.title()} does not carry it"
        )


class Claimant(msgspec.Struct, frozen=True):
    """The future owner of the run's lease, and for how long; None: until the run has ended."""

    owner: str
    ttl: timedelta | None = None
    # The lease may be taken over from this owner.
    takes_over: str | None = None


class Opened(msgspec.Struct, frozen=True):
    """A run as its execution receives it."""

    lease: Lease
    plan: Plan
    machine: Machine
    # Only for a run that has not started: the payload of RunStarted.
    start: dict[str, Any] | None = None


class NotOpened(Enum):
    # The run has ended, or was refused: nothing is left to do.
    OVER = "over"
    # Nothing of it may start: open it again when it is nudged.
    WAITS_FOR_APPROVAL = "waits for approval"


class Opening:
    """`plan_of`: the source of plans, which are verified again: the store, or where they were published."""

    def __init__(self, parts: LocalParts, plan_of: PlanOf, provider: str) -> None:
        self._parts = parts
        self._store = parts.store
        self._plan_of = plan_of
        self._provider = provider

    async def open(self, run: Run, claimant: Claimant) -> Opened | NotOpened:
        require_provider(run, self._provider)
        if run.status in TERMINAL:
            return NotOpened.OVER
        if run.needs_approval and run.status in NOT_STARTED:
            await self._drop_wake_ups(run)
        stop = await stop_signal(self._store, run) if run.waits_for_approval else None
        if run.waits_for_approval and stop is None:
            return NotOpened.WAITS_FOR_APPROVAL
        if stop is not None and payload_of(stop, Signal).signal_type == "REJECT":
            return await self._end(run, claimant, EventType.RUN_FAILED, rejected_end(fields_of(stop)))
        try:
            plan = await self._plan_of(run, self._store)
        except PodiumError as error:
            return await self._refuse_plan(run, claimant, error)
        try:
            lease = await self._claim(run, plan, claimant, starts=stop is None)
        except ConcurrencyLimit:
            payload = {"exitCode": 2, "reason": CONCURRENCY_LIMIT}
            return await self._end(run, claimant, EventType.RUN_CANCELLED, payload)
        start = None
        if stop is None and not await has_started(self._store, run):
            try:
                report = check_capabilities(plan, self._provider)
                prepared = await prepare_run(self._parts, run, check=True, alone=False)
                # This worker may lack something that the client had when it created the run.
                self._parts.check(plan, prepared.host.workspace).require()
            except StoreUnavailable:
                raise
            except PodiumError as error:
                return await self._fail(run, claimant, error)
            await self._record(run, lease, report)
            start = await self._start(prepared, lease, run.engine)
        run_id = run.identity.run_id
        machine = await replayed(self._store, run_id, plan, self._parts.values(run_id))
        return Opened(lease, plan, machine, start)

    async def _refuse_plan(self, run: Run, claimant: Claimant, error: PodiumError) -> NotOpened:
        if isinstance(error, StoreUnavailable) or (isinstance(error, PlanUnavailable) and error.retryable):
            raise error
        await Alerting(self._store, self._parts.clock).raise_alert(
            run.identity.run_id, Alert(AlertCode.PLAN_REFUSED, error.code, str(error))
        )
        return await self._fail(run, claimant, error)

    async def _drop_wake_ups(self, run: Run) -> None:
        """Delete the wake-ups of signals that were sent before the start: this execution has seen them, and
        needs no further nudge.

        Only up to the run as it was read: a later approval has not been seen yet, and its nudge must not be
        lost.
        """
        run_id = run.identity.run_id
        keys = [
            signal_wake_up(payload_of(record, Signal).signal_id)
            async for record in records_of(self._store, run_id)
            if record.event_type == EventType.SIGNAL_ACCEPTED and record.run_seq <= run.head
        ]
        if keys:
            await self._store.append(run_id, [], drop_wake_ups=keys)

    async def _claim(self, run: Run, plan: Plan, claimant: Claimant, *, starts: bool) -> Lease:
        """A run that ends before it `starts` needs no slot."""
        run_id, parts = run.identity.run_id, self._parts
        limit = plan.concurrency.limit if plan.concurrency is not None and starts else None

        async def claim() -> Lease | None:
            return await self._take(run_id, claimant, slots=limit)

        lease: Lease | None
        if plan.concurrency is None or run.status not in NOT_STARTED or not starts:
            lease = await claim()
        else:
            waiter = SlotWaiter(
                self._store,
                parts.clock,
                run,
                plan.concurrency,
                owner=holders.new_owner(),
                ttl=parts.lease,
                notify=None,
            )
            # If it was cancelled while it waited, it needs no slot to end.
            lease = await waiter.wait(claim, lambda: False) or await self._take(run_id, claimant)
        if lease is None:
            held = await self._store.held_lease(run_id)
            raise RunLocked(run_id, holders.describe(held.lease.owner) if held is not None else None)
        return lease

    async def _take(self, run_id: RunId, claimant: Claimant, *, slots: int | None = None) -> Lease | None:
        owner, ttl, takes_over = claimant.owner, claimant.ttl, claimant.takes_over
        return await self._store.claim(run_id, owner=owner, ttl=ttl, slots=slots, takes_over=takes_over)

    async def _start(
        self, prepared: PreparedRun, lease: Lease, engine: EngineRunRef | None
    ) -> dict[str, Any] | None:
        """The payload of RunStarted; None if a rerun has recorded it, with the events that it copies."""
        parts, run_id = self._parts, lease.run_id
        start = start_facts(
            prepared.plan,
            prepared.asked.inputs,
            prepared.facts,
            prepared.host,
            engine,
            approved_sha256=prepared.approved_sha256,
        )
        world = World(
            self._store, parts.clock, prepared.tasks, prepared.tasks.ask, payloads=parts.values(run_id)
        )
        return None if await prepared.earlier.start(start, lease, world) else start

    async def _record(self, run: Run, lease: Lease, report: ValidationReport) -> None:
        """Record this engine's support for the plan, before anything of the run starts."""
        payload = encode_payload(msgspec.to_builtins(report))
        write = new_event(run.identity, EventType.RUN_VALIDATION_REPORT, self._parts.now(), payload)
        await self._store.append(lease.run_id, [write], fence=lease.fence)

    async def _fail(self, run: Run, claimant: Claimant, error: PodiumError) -> NotOpened:
        if run.status not in NOT_STARTED:
            raise error  # it continues as soon as what is missing is available
        payload = failure_payload(1, error.code, str(error), reason="not started")
        return await self._end(run, claimant, EventType.RUN_FAILED, payload)

    async def _end(
        self, run: Run, claimant: Claimant, event_type: EventType, payload: dict[str, Any]
    ) -> NotOpened:
        """End a run that has not started, so that it does not stay open."""
        run_id = run.identity.run_id
        lease = await self._take(run_id, claimant)
        if lease is None:
            raise RunLocked(run_id, None)
        write = new_event(run.identity, event_type, self._parts.now(), encode_payload(payload))
        await self._store.append(run_id, [write], fence=lease.fence)
        await self._store.release(lease)
        return NotOpened.OVER
