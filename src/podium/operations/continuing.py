"""Resumes a run without driving it here: the workers of its pool continue it."""

from contextlib import suppress

from podium.log.leases import DRIVER_LEASE
from podium.log.runs import Run
from podium.log.transitions import RunStatus
from podium.operations.parts import Parts
from podium.operations.resume import resume_run
from podium.operations.signal_refusals import RunIsOver
from podium.operations.signals import signal_run
from podium.runtime import holders
from podium.runtime.lock import RunLocked
from podium.runtime.other_engines import OtherEngine
from podium.runtime.reopening import Reopening, RunEndedAlready


async def continue_run(parts: Parts, tenant_id: str, run_id: str) -> Run:
    """Reopen a run that has ended, or let a paused one continue; a working run is not changed.

    Raises `RunEndedAlready` for one that has completed, `OtherEngine` for one outside of pools, and what
    `resume_run` raises.
    """
    run = await parts.store.runs.find(tenant_id, run_id)
    if run.pool is None:
        raise OtherEngine(run)
    if run.status is RunStatus.COMPLETED:
        raise RunEndedAlready(run.identity.run_id)
    ready = await resume_run(parts, tenant_id, run_id)
    if ready.reopen is not None:
        await _reopen(parts, run, ready.reopen)
    elif ready.is_paused:
        with suppress(RunIsOver):
            await signal_run(parts, tenant_id, run_id, "RESUME")
    return await parts.store.runs.find(tenant_id, run_id)


async def _reopen(parts: Parts, run: Run, end_seq: int) -> None:
    """The run is then open without a driver, and a worker claims it."""
    run_id, store = run.identity.run_id, parts.store
    lease = await store.claim(run_id, owner=holders.new_owner(), ttl=DRIVER_LEASE)
    if lease is None:
        raise RunLocked(run_id, None)
    try:
        await Reopening(store, parts.clock, run, end_seq).carry_out(lease)
    finally:
        await store.release(lease)
