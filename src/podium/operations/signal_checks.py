"""Checks of a signal before the run itself is read: its content, and its sender."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from podium.access.operations import SIGNALS
from podium.errors import RunNotFound
from podium.log.ids import check_id
from podium.log.runs import Run
from podium.operations.access import Access, NotAllowed, error_of
from podium.operations.guarding import visible_run
from podium.operations.signal_decisions import Signal, request_sha256
from podium.operations.signal_payloads import InvalidSignal, check_payload
from podium.plan.canonical import NotCanonical
from podium.ports.clock import Clock
from podium.ports.store import Store
from podium.runtime.callers import Caller, reason_to_refuse, this_caller


def read_signal(
    signal_type: str,
    payload: dict[str, Any],
    access: Access,
    fields: Mapping[str, str],
    caller: Caller | None,
    signal_id: str | None,
) -> tuple[Signal, InvalidSignal | None]:
    """The signal, and what is wrong with its content. Raises `InvalidId`."""
    if signal_id is not None:
        check_id("signal_id", signal_id)
    malformed, digest = None, ""
    try:
        # Computed first: a refused signal has content, too, for which its id was used.
        digest = request_sha256(signal_type, payload, fields, access.actor.name)
        check_payload(signal_type, payload)
    except NotCanonical as error:
        malformed = InvalidSignal(f"the payload of {signal_type} is not plain JSON: {error}")
    except InvalidSignal as error:
        malformed = error
    caller = caller or this_caller()
    signal = Signal(signal_type, payload, caller, access, fields, signal_id or str(uuid4()), digest)
    return signal, malformed


async def find_run(
    store: Store, clock: Clock, tenant_id: str, run_id: str, signal: Signal, malformed: InvalidSignal | None
) -> Run:
    """A run that the actor may see; then reports what is wrong with the signal. Raises `RunNotFound`.

    An actor who may not see the run leaves no trace in it: only the audit log has the attempt.
    """
    found = await visible_run(store.runs, signal.access, tenant_id, run_id)
    if isinstance(found, Run):
        return found
    await store.record_audit([signal.draft_for(clock, tenant_id, run_id, malformed or found)])
    raise malformed or RunNotFound(run_id)


async def authorise(store: Store, run: Run, signal: Signal) -> None:
    """Raises `NotAllowed`, `ReasonRequired`."""
    identity = run.identity
    denial = signal.access.decide(SIGNALS[signal.signal_type], identity.tenant_id, signal.reason)
    if denial is not None:
        raise error_of(denial, identity.run_id)
    await check_caller(store, run, signal)


async def check_caller(store: Store, run: Run, signal: Signal) -> None:
    run_id = run.identity.run_id
    held = await store.held_lease(run_id)
    reason = reason_to_refuse(signal.caller, run_id, held.lease.owner if held is not None else None)
    if reason is not None:
        raise NotAllowed(
            f"a step cannot approve, signal or resume its own run {run_id!r}: {reason}. "
            "Do it from a terminal that was not started by the run"
        )
