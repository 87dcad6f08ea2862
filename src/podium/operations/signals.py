"""Signals: what a person asks of a run that is under way. Stored first, so none is lost while a run is busy or down.

Everything that can be wrong is checked before anything is recorded as accepted: whether the caller may ask (a step may
not decide about its own run), whether the run is open, what the signal carries, and with the plan whether the
run has any use for it. What is refused is recorded, too (`SignalRejected`), but not without limit.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final
from uuid import uuid4

import msgspec

from podium.errors import LogMoved, PodiumError
from podium.log.events import EventType, EventWrite, encode_payload
from podium.log.runs import Run
from podium.log.times import seconds_between, timestamp
from podium.log.transitions import TERMINAL
from podium.machine import Machine, calls
from podium.machine.commands import Record
from podium.machine.signals import form_asked_by, objection
from podium.operations.parts import Parts
from podium.operations.run_approval import ApprovalDecided, ApprovalPlanMismatch, answer_plan, is_about_plan
from podium.operations.signal_payloads import InvalidSignal, check_payload
from podium.operations.signal_refusals import SignalWouldBeIgnored, refusal_error
from podium.plan.declared import parse_text
from podium.plan.plan import Plan
from podium.ports.clock import Clock
from podium.ports.store import Store
from podium.runtime.callers import OS_USER, Caller, reason_to_refuse, this_caller
from podium.runtime.replaying import replayed
from podium.runtime.signalling import append_signal, append_while_open
from podium.runtime.spilling import Values
from podium.runtime.writing import foreseen, new_event

_MAX_PER_MINUTE: Final = 60
_LOOK_BACK: Final = 300
_MAX_REASON: Final = 500
# What can find nothing to act on; that is said immediately.
ABOUT_A_STEP: Final = frozenset(
    {"APPROVE", "REJECT", "RETRY_STEP", "SKIP_STEP", "INJECT_OVERRIDE", "UPDATE_TARGET", "UPDATE_PARAMS"}
)
_MAX_RECHECKS: Final = 5


class RunIsOver(PodiumError):
    code = "RUN_TERMINAL"


class NotAllowed(PodiumError):
    """A step asked something of its own run."""

    code = "AUTHZ_DENIED"


class TooManySignals(PodiumError):
    """More than 60 signals of a run within a minute."""

    code = "SIGNAL_RATE_LIMITED"


class Signal(msgspec.Struct, frozen=True):
    """A signal on its way. `fields`: answers to a form as texts, to be read by the types that the form declares."""

    signal_type: str
    payload: dict[str, Any]
    caller: Caller
    fields: Mapping[str, str] = {}
    signal_id: str = msgspec.field(default_factory=lambda: str(uuid4()))

    def body(self) -> dict[str, Any]:
        known = {"by": self.caller.user, "byUid": self.caller.uid, "byMethod": OS_USER}
        return {"signalId": self.signal_id, "signalType": self.signal_type, "payload": self.payload, **known}


async def send_signal(
    store: Store,
    clock: Clock,
    tenant_id: str,
    run_id: str,
    signal_type: str,
    payload: dict[str, Any],
    *,
    plan: Plan | None = None,
    payloads: Callable[[], Values] | None = None,
    fields: Mapping[str, str] | None = None,
    caller: Caller | None = None,
    after: int | None = None,
    recheck: int = _MAX_RECHECKS,
    signal_id: str | None = None,
) -> Run:
    """Raises `RunNotFound`, for another tenant's run too, and the errors above; cancelling an ended run is no error.

    With the `plan` it is also refused if the run could not use it as it is now, and recorded only if nothing has
    happened since: of two answers to one question the second is refused. In a run that moves on faster than it can be
    checked, that is given up after `recheck` times. `after`: only if that is the run's newest record, else `LogMoved`.
    """
    run = await store.runs.find(tenant_id, run_id)
    signal = Signal(signal_type, payload, caller or this_caller(), fields or {}, signal_id or str(uuid4()))
    try:
        await _check_caller(store, run, signal)
        if run.status in TERMINAL and signal_type == "CANCEL":
            return run
        if is_about_plan(run, signal_type, payload):
            check_payload(signal_type, payload)
            signal = _with_form(signal, dict(signal.fields)) if signal.fields else signal
            await _answer_plan(store, clock, run, signal)
            return await store.get_run(run.identity.run_id)
        signal, checked_at = await _checked(store, run, signal, plan, payloads)
    except (NotAllowed, RunIsOver, InvalidSignal, ApprovalPlanMismatch, ApprovalDecided) as refusal:
        await _record_refusal(store, clock, run, signal, refusal)
        raise
    if (
        signal_type != "CANCEL"
        and await _recent(store, clock, run, EventType.SIGNAL_ACCEPTED) >= _MAX_PER_MINUTE
    ):
        raise TooManySignals(
            f"run {run_id!r} was sent {_MAX_PER_MINUTE} signals within a minute; try again in a minute, "
            f"or `podium cancel {run_id}`"
        )
    if after is not None or checked_at is None or not recheck:
        await _accept(store, clock, run, signal, after)
    elif not await _accept_as_checked(store, clock, run, signal, checked_at):
        again = partial(send_signal, store, clock, tenant_id, run_id, signal_type, payload, plan=plan)
        return await again(
            payloads=payloads, fields=fields, caller=caller, recheck=recheck - 1, signal_id=signal_id
        )
    return run


async def signal_run(
    parts: Parts,
    tenant_id: str,
    run_id: str,
    signal_type: str,
    fields: Mapping[str, str] | None = None,
    **payload: Any,
) -> Run:
    """Send a signal to a run, whichever process drives it. Fields of the payload that are None are left out.

    A signal about a step is checked against the plan of the run, which the store keeps: no run directory is needed.
    """
    body = {name: value for name, value in payload.items() if value is not None}
    plan = None
    if signal_type in ABOUT_A_STEP:
        run = await parts.store.runs.find(tenant_id, run_id)
        plan = await parts.plan_of(run)
    return await send_signal(
        parts.store,
        parts.clock,
        tenant_id,
        run_id,
        signal_type,
        body,
        plan=plan,
        payloads=parts.values(run_id),
        fields=fields,
    )


async def _answer_plan(store: Store, clock: Clock, run: Run, signal: Signal) -> None:
    """What is about the plan stays about the plan, also if the run starts while this is decided."""
    while True:
        if run.status in TERMINAL:
            raise _is_over(run)
        accepted = _event(clock, run, EventType.SIGNAL_ACCEPTED, signal.signal_id, signal.body())
        answer = await answer_plan(store, run, signal.signal_type, signal.body(), accepted.emitted_at)
        try:
            await append_signal(
                store, run, accepted, then=[answer.write], fence=answer.fence, after=answer.after
            )
        except LogMoved:
            run = await store.get_run(run.identity.run_id)
        else:
            return


async def _accept_as_checked(store: Store, clock: Clock, run: Run, signal: Signal, checked_at: int) -> bool:
    """False if the log has moved on since the check: another signal may have answered what this one answers."""
    try:
        await _accept(store, clock, run, signal, checked_at)
    except LogMoved:
        return False
    return True


async def _accept(store: Store, clock: Clock, run: Run, signal: Signal, after: int | None) -> None:
    write = _event(clock, run, EventType.SIGNAL_ACCEPTED, signal.signal_id, signal.body())
    if after is not None:
        await append_signal(store, run, write, after=after)
        return
    is_open = await append_while_open(store, run.identity.run_id, write)
    if not is_open and signal.signal_type != "CANCEL":
        ended = await store.get_run(run.identity.run_id)
        refusal = _is_over(ended)
        await _record_refusal(store, clock, ended, signal, refusal)
        raise refusal


async def check_may_drive(
    store: Store, clock: Clock, run: Run, caller: Caller | None = None, *, signal_type: str = "RESUME"
) -> None:
    """Raises `NotAllowed` if a process of the run itself wants to resume it, or to drive it to its end."""
    signal = Signal(signal_type, {}, caller or this_caller())
    try:
        await _check_caller(store, run, signal)
    except NotAllowed as refusal:
        await _record_refusal(store, clock, run, signal, refusal)
        raise


async def check_signal(
    store: Store,
    run: Run,
    plan: Plan,
    signal_type: str,
    payload: dict[str, Any],
    payloads: Callable[[], Values] | None = None,
) -> None:
    """Raises `SignalWouldBeIgnored` with the reason that the machine gives, as the run stands now."""
    machine = await replayed(store, run.identity.run_id, plan, payloads)
    _try_out(run, machine, Signal(signal_type, payload, this_caller()))


async def _checked(
    store: Store, run: Run, signal: Signal, plan: Plan | None, payloads: Callable[[], Values] | None
) -> tuple[Signal, int | None]:
    """The signal as it is to be sent: the texts of a form have become values. And the record it was checked at."""
    run_id = run.identity.run_id
    if run.status in TERMINAL:
        raise _is_over(run)
    check_payload(signal.signal_type, signal.payload)
    if plan is None:
        return (_with_form(signal, dict(signal.fields)) if signal.fields else signal), None
    machine = await replayed(store, run_id, plan, payloads)
    # What comes after the end is not recorded in the same way as other signals.
    checked_at = machine.last_seq if not machine.terminal else None
    if signal.fields:
        signal = _with_form(signal, _read_fields(machine, signal))
    _try_out(run, machine, signal)
    return signal, checked_at


def _with_form(signal: Signal, form: dict[str, Any]) -> Signal:
    filled_in = msgspec.structs.replace(signal, payload={**signal.payload, "form": form})
    check_payload(filled_in.signal_type, filled_in.payload)
    return filled_in


def _read_fields(machine: Machine, signal: Signal) -> dict[str, Any]:
    declared = form_asked_by(machine, signal.payload)
    values: dict[str, Any] = {}
    for name, text in signal.fields.items():
        try:
            values[name] = parse_text(text, declared[name].type) if name in declared else text
        except ValueError:
            values[name] = text  # the check of the form says what is wrong with it
    return values


def _try_out(run: Run, machine: Machine, signal: Signal) -> None:
    """What the machine would say to it."""
    run_id = run.identity.run_id
    if calls.is_over(machine) and signal.signal_type != "CANCEL":
        # Its end is the next that is recorded: the machine does not answer any more.
        raise SignalWouldBeIgnored(
            f"run {run_id!r} is about to end; `podium why {run_id}` shows how it ended"
        )
    if (refused := objection(machine, signal.signal_type, signal.payload)) is not None:
        raise refusal_error(refused.code, str(refused), run_id)
    tried = new_event(
        run.identity, EventType.SIGNAL_ACCEPTED, machine.now, encode_payload(signal.body()), subject="tried"
    )
    for command in machine.advance(foreseen(run.identity, tried, machine.last_seq + 1, tried.payload)):
        if isinstance(command, Record) and command.event_type == EventType.SIGNAL_IGNORED:
            raise refusal_error(str(command.payload["code"]), str(command.payload["reason"]), run_id)


async def _check_caller(store: Store, run: Run, signal: Signal) -> None:
    run_id = run.identity.run_id
    held = await store.held_lease(run_id)
    reason = reason_to_refuse(signal.caller, run_id, held.lease.owner if held is not None else None)
    if reason is not None:
        raise NotAllowed(
            f"a step cannot approve, signal or resume its own run {run_id!r}: {reason}. "
            "Do it from a terminal that was not started by the run"
        )


async def _record_refusal(store: Store, clock: Clock, run: Run, signal: Signal, refusal: PodiumError) -> None:
    """So that attempts are seen; an endless loop of them does not fill the log."""
    with suppress(PodiumError):
        if await _recent(store, clock, run, EventType.SIGNAL_REJECTED) < _MAX_PER_MINUTE:
            body = signal.body()
            del body["payload"]  # of any size, and possibly anything
            body |= {"code": refusal.code, "reason": str(refusal)[:_MAX_REASON]}
            write = _event(clock, run, EventType.SIGNAL_REJECTED, signal.signal_id, body)
            await store.append(run.identity.run_id, [write])


async def _recent(store: Store, clock: Clock, run: Run, event_type: EventType) -> int:
    """How many such events the run had in the last minute, among its newest."""
    now = timestamp(clock.now())
    records = await store.read(run.identity.run_id, after=max(0, run.head - _LOOK_BACK), limit=_LOOK_BACK)
    return sum(
        1 for one in records if one.event_type == event_type and seconds_between(one.emitted_at, now) < 60
    )


def _event(clock: Clock, run: Run, event_type: EventType, signal_id: str, body: dict[str, Any]) -> EventWrite:
    at = timestamp(clock.now())
    return new_event(run.identity, event_type, at, encode_payload(body), subject=signal_id)


def _is_over(run: Run) -> RunIsOver:
    ended = run.status.value.lower()
    return RunIsOver(f"run {run.identity.run_id!r} has ended ({ended}); there is nothing to signal")
