"""RETRY_RUN: a new run of the same plan and inputs as one that has ended, which is not changed.

Nothing is recorded in the log of the old run, because it has ended: the decision is in RunQueued of the new
run, whose id is derived from the signal's, and in the audit log, written together. So sending the same signal
again creates nothing.
"""

from uuid import NAMESPACE_URL, uuid5

import msgspec

from podium.engines.creation import RunExists
from podium.errors import RunNotFound
from podium.log.ids import RunId
from podium.log.payloads import RetriedBy
from podium.log.runs import Run
from podium.log.transitions import TERMINAL, RunStatus
from podium.operations.parts import Parts
from podium.operations.rerunning import rerun_request
from podium.operations.signal_checks import find_run, read_signal
from podium.operations.signal_decisions import (
    Signal,
    SignalDuplicate,
    earlier_decision,
    repeat_decision,
)
from podium.operations.signal_recording import recording_refusals
from podium.operations.signal_refusals import RunNotOver, SignalWouldBeIgnored
from podium.operations.signals import SentSignal
from podium.operations.start import start_run
from podium.ports.engine import SignalRequest
from podium.runtime.other_engines import OtherEngine
from podium.runtime.reading import queued_of


async def retry_run(parts: Parts, tenant_id: str, run_id: str, request: SignalRequest) -> SentSignal:
    """Create the new run, or find the one that this signal created before. The caller has to drive it."""
    access = parts.access()
    signal, malformed = read_signal(request.signal_type, request.payload, access, {}, None, request.signal_id)
    run = await find_run(parts.store, parts.clock, tenant_id, run_id, signal, malformed)
    async with recording_refusals(parts.store, parts.clock, run, signal, malformed):
        return await _retried(parts, run, signal)


async def _retried(parts: Parts, run: Run, signal: Signal) -> SentSignal:
    new_id = _new_id(run, signal)
    if await _is_there(parts, signal, new_id):
        return SentSignal(run, signal.signal_id, duplicate=True, new_run=new_id)
    earlier = await earlier_decision(parts.store, run, signal)
    if earlier is not None:
        repeat_decision(run, signal, earlier)
    _check_state(run, force=bool(signal.payload.get("force")))
    parts = _on_its_engine(parts, run)
    request = await rerun_request(parts, run.identity.tenant_id, run.identity.run_id, None, new_id)
    audit = (signal.draft(parts.clock, run),)
    try:
        await start_run(parts, msgspec.structs.replace(request, retried_by=_retried_by(signal), audit=audit))
    except RunExists:
        if not await _is_there(parts, signal, new_id):
            raise
        return SentSignal(run, signal.signal_id, duplicate=True, new_run=new_id)
    is_started = await parts.engine().begin(new_id)
    return SentSignal(run, signal.signal_id, new_run=new_id, to_drive=not is_started)


def _on_its_engine(parts: Parts, run: Run) -> Parts:
    """The new run belongs to the engine of the old one. Raises `OtherEngine`."""
    if parts.engine().provider == run.provider:
        return parts
    engine = parts.engine_of(run) if parts.engine_of is not None else None
    if engine is None:
        raise OtherEngine(run)
    return msgspec.structs.replace(parts, engine=lambda: engine)


def _retried_by(signal: Signal) -> RetriedBy:
    return RetriedBy(
        signal_id=signal.signal_id,
        request_sha256=signal.request_sha256,
        by=signal.access.actor.name,
        by_method=signal.access.actor.method.value,
        by_uid=signal.caller.uid,
        reason=signal.reason,
    )


def _new_id(run: Run, signal: Signal) -> RunId:
    identity = run.identity
    name = f"podium:retry|{identity.tenant_id}|{identity.run_id}|{signal.signal_id}"
    return RunId(str(uuid5(NAMESPACE_URL, name)))


async def _is_there(parts: Parts, signal: Signal, new_id: RunId) -> bool:
    """Raises `SignalDuplicate` if another signal with this id created it."""
    try:
        queued = await queued_of(parts.store, new_id, parts.values(new_id))
    except RunNotFound:
        return False
    if queued.retried_by is None or queued.retried_by.request_sha256 != signal.request_sha256:
        raise SignalDuplicate(
            f"the signal {signal.signal_id!r} with other content created run {new_id!r}; use a new id for each signal"
        )
    return True


def _check_state(run: Run, *, force: bool) -> None:
    run_id = run.identity.run_id
    if run.status not in TERMINAL:
        raise RunNotOver(
            f"run {run_id!r} has not ended ({run.status.value.lower()}); cancel it first with `podium cancel {run_id}`"
        )
    if run.status is RunStatus.COMPLETED and not force:
        raise SignalWouldBeIgnored(
            f"run {run_id!r} has completed; set `force` to run it again all the same, as a new run"
        )
