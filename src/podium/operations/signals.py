"""Signals: what a person asks of a run that is under way. Stored first, so none is lost while a run is busy or down."""

from typing import Any
from uuid import uuid4

from podium.errors import PodiumError
from podium.model.events import EventType, encode_payload
from podium.model.runs import Run
from podium.model.times import timestamp
from podium.model.transitions import TERMINAL
from podium.ports.clock import Clock
from podium.ports.store import Store
from podium.runtime.writing import new_event


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
