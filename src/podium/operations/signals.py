"""Signals: requests by a person or a program to a run. Stored first, so none is lost while a run is busy or
down.

Checked in this order: the content of the signal, whether the actor may see the run, role and reason (and that
no step decides about its own run), whether the id had a decision before, and whether the signal would have an
effect now. Then the decision, its audit record and the wake-up of the run's engine are recorded in one
transaction. Refusals are recorded, too: always in the audit log, and up to a limit in the log of the run
(`SignalRejected`).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias
from uuid import uuid4

import msgspec

from podium.errors import LogMoved, StoreUnavailable
from podium.log.events import EventType, EventWrite
from podium.log.ids import RunId
from podium.log.leases import Fence
from podium.log.runs import Run
from podium.log.times import timestamp
from podium.log.transitions import NOT_STARTED, TERMINAL
from podium.operations.access import Access, NotAllowed
from podium.operations.alerts import escalation
from podium.operations.parts import Parts
from podium.operations.run_approval import answer_plan, is_about_plan
from podium.operations.signal_checks import authorise, find_run, read_signal
from podium.operations.signal_decisions import (
    Signal,
    earlier_decision,
    record_refusal,
    repeat_decision,
    seconds_until_room,
    signal_event,
)
from podium.operations.signal_recording import recording_refusals
from podium.operations.signal_refusals import RunIsOver, SignalWouldBeIgnored, TooManySignals
from podium.operations.signal_trials import read_fields, try_out, with_form
from podium.plan.plan import Plan
from podium.ports.clock import Clock
from podium.ports.engine import SignalRequest
from podium.ports.store import AppendedEvent, Store
from podium.runtime.callers import Caller, this_caller
from podium.runtime.replaying import MachineOf, replayed
from podium.runtime.signalling import append_signal
from podium.runtime.spilling import Values

PlanOf: TypeAlias = Callable[[Run], Awaitable[Plan]]
# Signals that may have nothing to act on; that is reported immediately.
ABOUT_A_STEP: Final = frozenset(
    {"APPROVE", "REJECT", "RETRY_STEP", "SKIP_STEP", "INJECT_OVERRIDE", "UPDATE_TARGET", "UPDATE_PARAMS"}
)
# A run can always be stopped, however many signals it was sent.
_NEVER_TOO_MANY: Final = frozenset({"CANCEL", "EMERGENCY_STOP"})
# Signals without an effect before the start. A run in progress always accepts them, however fast it moves.
_UNDER_WAY: Final = frozenset({"PAUSE", "RESUME"})
# If the log grows faster than a signal can be checked, it is only made sure that its id is new,
_MAX_RECHECKS: Final = 5
# and finally not even that.
_MAX_TRIES: Final = 100


class SentSignal(msgspec.Struct, frozen=True):
    """An accepted signal. `run` is the run at the time of the acceptance."""

    run: Run
    signal_id: str
    # It had been accepted before: nothing was done now.
    duplicate: bool = False
    # RETRY_RUN only: the run that was created, and whether the caller has to drive it.
    new_run: RunId | None = None
    to_drive: bool = False


async def send_signal(
    store: Store,
    clock: Clock,
    tenant_id: str,
    run_id: str,
    signal_type: str,
    payload: dict[str, Any],
    *,
    access: Access,
    plan: Plan | PlanOf | None = None,
    payloads: Callable[[], Values] | None = None,
    fields: Mapping[str, str] | None = None,
    caller: Caller | None = None,
    after: int | None = None,
    signal_id: str | None = None,
    machine_of: MachineOf = replayed,
) -> SentSignal:
    """Raises `RunNotFound`, also for another tenant's run, and the errors above.

    With the `plan`, or a function that loads it, it is also refused if it would have no effect on the run's
    current state, and recorded only if nothing has happened since: of two answers to one question the second
    is refused. If the run moves on faster than it can be checked, that is given up after some tries. `after`:
    only if that is the run's newest record, else `LogMoved`.
    """
    signal, malformed = read_signal(signal_type, payload, access, fields or {}, caller, signal_id)
    run = await find_run(store, clock, tenant_id, run_id, signal, malformed)
    async with recording_refusals(store, clock, run, signal, malformed):
        return await _accepted(store, clock, run, signal, plan, payloads, after, machine_of)


async def signal_run(
    parts: Parts,
    tenant_id: str,
    run_id: str,
    signal_type: str,
    fields: Mapping[str, str] | None = None,
    signal_id: str | None = None,
    **payload: Any,
) -> SentSignal:
    """The same with fields of the payload by name; those that are None are omitted."""
    body = {name: value for name, value in payload.items() if value is not None}
    request = SignalRequest(signal_id=signal_id or str(uuid4()), signal_type=signal_type, payload=body)
    return await request_signal(parts, tenant_id, run_id, request, fields)


async def request_signal(
    parts: Parts,
    tenant_id: str,
    run_id: str,
    request: SignalRequest,
    fields: Mapping[str, str] | None = None,
) -> SentSignal:
    """Send a signal to a run, whichever process drives it, or will.

    A signal about a step is checked against the plan of the run, which the store has: no run directory is
    needed.
    """
    if request.signal_type == "RETRY_RUN":
        from podium.operations.retrying import retry_run

        return await retry_run(parts, tenant_id, run_id, request)
    return await send_signal(
        parts.store,
        parts.clock,
        tenant_id,
        run_id,
        request.signal_type,
        request.payload,
        access=parts.access(),
        # Only read if necessary: a sender without permission learns nothing about the run.
        plan=parts.plan_of if request.signal_type in ABOUT_A_STEP else None,
        payloads=parts.values(run_id),
        fields=fields,
        signal_id=request.signal_id,
        machine_of=parts.machine_copy,
    )


async def check_may_drive(
    store: Store,
    clock: Clock,
    run: Run,
    access: Access,
    caller: Caller | None = None,
    *,
    signal_type: str = "RESUME",
) -> None:
    """Raises `NotAllowed` if the actor may not resume the run or drive it to its end, or is a process of the
    run.
    """
    signal = Signal(signal_type, {}, caller or this_caller(), access)
    try:
        await authorise(store, run, signal)
    except NotAllowed as refusal:
        await record_refusal(store, clock, run, signal, refusal)
        raise


async def check_signal(
    store: Store,
    run: Run,
    plan: Plan,
    signal_type: str,
    payload: dict[str, Any],
    access: Access,
    payloads: Callable[[], Values] | None = None,
) -> None:
    """Raises `SignalWouldBeIgnored` with the machine's reason, for the run's current state."""
    machine = await replayed(store, run.identity.run_id, plan, payloads)
    try_out(run, machine, Signal(signal_type, payload, this_caller(), access))


# --- the decision ----------------------------------------------------------------------------------


class _Ready(msgspec.Struct, frozen=True):
    """A signal in the form to be recorded: the texts of a form have become values."""

    signal: Signal
    # The record at which it was checked.
    head: int
    # Events that are the effect of the signal, and the lease that they need.
    then: Sequence[EventWrite] = ()
    fence: Fence | None = None


async def _accepted(
    store: Store,
    clock: Clock,
    run: Run,
    signal: Signal,
    plan: Plan | PlanOf | None,
    payloads: Callable[[], Values] | None,
    after: int | None,
    machine_of: MachineOf,
) -> SentSignal:
    """Decide, and record it on condition that the basis of the decision has not changed."""
    # A signal about the plan remains one, even if the run starts during the decision.
    about_plan = is_about_plan(run, signal.signal_type, signal.payload)
    for number in range(_MAX_TRIES):
        earlier = await earlier_decision(store, run, signal)
        if earlier is not None:
            repeat_decision(run, signal, earlier)
            return SentSignal(run, signal.signal_id, duplicate=True)
        if run.status in TERMINAL:
            raise _is_over(run)
        if about_plan:
            ready = await _about_plan(store, clock, run, signal)
        else:
            if callable(plan):
                plan = await plan(run)
            checked = plan if number < _MAX_RECHECKS else None
            ready = await _about_run(store, clock, run, signal, checked, payloads, machine_of)
        await _check_rate(store, clock, run, signal)
        is_last = number == _MAX_TRIES - 1 and not about_plan
        try:
            appended = await _append(store, clock, run, ready, _condition(after, ready.head, is_last=is_last))
        except LogMoved:
            if after is not None:
                raise
            run = await store.get_run(run.identity.run_id)
            continue
        if appended.duplicate:
            repeat_decision(run, signal, appended.record)
        return SentSignal(run, signal.signal_id, appended.duplicate)
    raise StoreUnavailable(f"run {run.identity.run_id!r} changes too fast to be signalled; try again")


async def _about_plan(store: Store, clock: Clock, run: Run, signal: Signal) -> _Ready:
    signal = with_form(signal, dict(signal.fields)) if signal.fields else signal
    answer = await answer_plan(store, run, signal.signal_type, signal.body(), timestamp(clock.now()))
    return _Ready(signal, answer.after, answer.writes, answer.fence)


def _condition(after: int | None, head: int, *, is_last: bool) -> int | None:
    if after is not None:
        return after
    return None if is_last else head


async def _about_run(
    store: Store,
    clock: Clock,
    run: Run,
    signal: Signal,
    plan: Plan | None,
    payloads: Callable[[], Values] | None,
    machine_of: MachineOf,
) -> _Ready:
    """With the plan: check whether the machine objects."""
    if signal.signal_type in _UNDER_WAY and run.status in NOT_STARTED:
        raise SignalWouldBeIgnored(
            f"run {run.identity.run_id!r} has not started ({run.status.value.lower()}); send {signal.signal_type} when "
            f"it has, or stop it with `podium cancel {run.identity.run_id}`"
        )
    then = [escalation(clock, run, signal)] if signal.signal_type == "ESCALATE_ALERT" else []
    if plan is None:
        return _Ready(with_form(signal, dict(signal.fields)) if signal.fields else signal, run.head, then)
    machine = await machine_of(store, run.identity.run_id, plan, payloads)
    if machine.terminal:
        raise _is_over(await store.get_run(run.identity.run_id))
    if signal.fields:
        signal = with_form(signal, read_fields(machine, signal))
    checked_at = machine.last_seq
    try_out(run, machine, signal)
    return _Ready(signal, checked_at, then)


async def _check_rate(store: Store, clock: Clock, run: Run, signal: Signal) -> None:
    if signal.signal_type in _NEVER_TOO_MANY:
        return
    seconds = await seconds_until_room(store, clock, run, EventType.SIGNAL_ACCEPTED)
    if seconds is not None:
        raise TooManySignals(run.identity.run_id, seconds)


async def _append(store: Store, clock: Clock, run: Run, ready: _Ready, after: int | None) -> AppendedEvent:
    signal = ready.signal
    write = signal_event(clock, run, EventType.SIGNAL_ACCEPTED, signal.signal_id, signal.body())
    audit = [signal.draft(clock, run)]
    return await append_signal(store, run, [write, *ready.then], after=after, fence=ready.fence, audit=audit)


def _is_over(run: Run) -> RunIsOver:
    ended = run.status.value.lower()
    return RunIsOver(f"run {run.identity.run_id!r} has ended ({ended}); there is nothing to signal")
