"""ESCALATE_ALERT: an alert that a monitoring system raises about a run."""

from typing import Final

from podium.log.events import EventType, EventWrite, encode_payload
from podium.log.runs import Run
from podium.log.times import timestamp
from podium.operations.signal_decisions import Signal
from podium.ports.clock import Clock
from podium.runtime.writing import new_event

ESCALATED: Final = "ESCALATED"


def escalation(clock: Clock, run: Run, signal: Signal) -> EventWrite:
    """The event that is recorded with the signal; readers of alerts need not know signals."""
    note = signal.payload.get("note") or f"escalated by {signal.access.actor.name}"
    payload = {
        "code": ESCALATED,
        "subject": signal.signal_id,
        "level": signal.payload["level"],
        "message": note,
        "signalId": signal.signal_id,
    }
    subject = f"{ESCALATED}:{signal.signal_id}"
    at = timestamp(clock.now())
    return new_event(run.identity, EventType.ALERT_RAISED, at, encode_payload(payload), subject=subject)
