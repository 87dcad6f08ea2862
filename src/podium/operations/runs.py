"""Reads runs and their events, on behalf of a tenant."""

from collections.abc import AsyncIterator
from typing import NamedTuple

from podium.errors import RunNotFound
from podium.log.events import EventRecord
from podium.log.fold import RunSnapshot
from podium.log.ids import RunId
from podium.log.payloads import SignedBy
from podium.log.runs import Run
from podium.log.snapshots import RunSummary, StepSnapshot
from podium.log.transitions import TERMINAL
from podium.operations.parts import Parts
from podium.ports.clock import Clock
from podium.ports.store import Store
from podium.runtime.alerts import Alerting
from podium.runtime.plan_file import signers_of
from podium.runtime.projecting import Projecting
from podium.runtime.reading import queued_of


class RunView(NamedTuple):
    """A run as it is displayed: its row, its location, and a page of its steps."""

    run: Run
    summary: RunSummary
    steps: list[StepSnapshot]
    # Who has signed its plan.
    signed_by: tuple[SignedBy, ...] = ()
    # Who approved its plan, how the person was identified, and when.
    approval: str | None = None


async def read_events(
    store: Store, tenant_id: str, run_id: str, *, after: int = 0, limit: int = 1000
) -> list[EventRecord]:
    """Raises `RunNotFound`, also for another tenant's run."""
    run = await store.runs.find(tenant_id, run_id)
    return await store.read(run.identity.run_id, after=after, limit=limit)


async def follow_events(
    store: Store, tenant_id: str, run_id: str, *, after: int = 0
) -> AsyncIterator[list[EventRecord]]:
    """New events of a run, until it has ended."""
    run = await store.runs.find(tenant_id, run_id)
    if run.status in TERMINAL and after >= run.head:
        return
    async for records in store.watch(run.identity.run_id, after=after):
        yield records
        run = await store.get_run(run.identity.run_id)
        if run.status in TERMINAL and records[-1].run_seq >= run.head:
            return


async def show_run(
    store: Store, clock: Clock, tenant_id: str, run_id: str, *, after_step: str = "", limit: int = 100
) -> RunView:
    """Raises `RunNotFound`, also for another tenant's run."""
    run = await store.runs.find(tenant_id, run_id)
    projecting = Projecting(store, clock, Alerting(store, clock), on_demand=True)
    snapshot: RunSnapshot = await projecting.catch_up(run.identity.run_id)
    steps = await store.load_steps(run.identity.run_id, after=after_step, limit=limit)
    signed_by = await signers_of(store, run, await queued_of(store, run.identity.run_id))
    return RunView(run, snapshot.summary, steps, signed_by, await _approval_of(store, run))


async def _approval_of(store: Store, run: Run) -> str | None:
    if not run.needs_approval:
        return None
    from podium.operations.run_approval import describe_approval

    return await describe_approval(store, run)


async def known_run(parts: Parts, tenant_id: str, run_id: str) -> Run | None:
    """A run of the tenant, for use cases that may create it: a missing run is not recorded."""
    try:
        run = await parts.store.get_run(RunId(run_id))
    except RunNotFound:
        return None
    return run if run.identity.tenant_id == tenant_id else None
