"""Signals: what a person asks of a run that is under way. Stored first, so none is lost while a run is busy or down."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from podium.errors import PodiumError
from podium.model.commands import Record
from podium.model.events import EventType, encode_payload
from podium.model.plan import Plan
from podium.model.runs import Run
from podium.model.times import timestamp
from podium.model.transitions import TERMINAL
from podium.ports.artifacts import ArtifactStore
from podium.ports.clock import Clock
from podium.ports.store import Store
from podium.runtime.replaying import replayed
from podium.runtime.writing import foreseen, new_event


class RunIsOver(PodiumError):
    code = "RUN_TERMINAL"


async def send_signal(
    store: Store, clock: Clock, tenant_id: str, run_id: str, signal_type: str, payload: dict[str, Any]
) -> Run:
    """Raises `RunNotFound`, for another tenant's run too, and `RunIsOver`; cancelling an ended run is no error."""
    run = await store.runs.find(tenant_id, run_id)
    if run.status in TERMINAL:
        if signal_type == "CANCEL":
            return run
        raise RunIsOver(f"run {run_id!r} has ended ({run.status.value.lower()}); there is nothing to signal")
    signal_id = str(uuid4())
    body = {"signalId": signal_id, "signalType": signal_type, "payload": payload}
    write = new_event(
        run.identity,
        EventType.SIGNAL_ACCEPTED,
        timestamp(clock.now()),
        encode_payload(body),
        subject=signal_id,
    )
    await store.append(run.identity.run_id, [write])
    return run


class SignalWouldBeIgnored(PodiumError):
    """There is nothing in the run that it could act on; it was not sent."""

    code = "SIGNAL_IGNORED"


async def check_signal(
    store: Store,
    run: Run,
    plan: Plan,
    signal_type: str,
    payload: dict[str, Any],
    payloads: Callable[[], ArtifactStore] | None = None,
) -> None:
    """Raises `SignalWouldBeIgnored` with the reason that the machine gives, as the run stands now."""
    run_id = run.identity.run_id
    machine = await replayed(store, run_id, plan, payloads)
    body = {"signalId": "tried", "signalType": signal_type, "payload": payload}
    tried = new_event(
        run.identity, EventType.SIGNAL_ACCEPTED, machine.now, encode_payload(body), subject="tried"
    )
    for command in machine.advance(foreseen(run.identity, tried, machine.last_seq + 1, tried.payload)):
        if isinstance(command, Record) and command.event_type == EventType.SIGNAL_IGNORED:
            reason = command.payload["reason"]
            raise SignalWouldBeIgnored(f"{reason}; see what the run waits for with `podium why {run_id}`")
