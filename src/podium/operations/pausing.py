"""Whether a run is paused, or will be as soon as a process drives it."""

from typing import Final

from podium.log.events import EventRecord, EventType
from podium.log.payloads import Signal, payload_of
from podium.log.runs import Run
from podium.log.transitions import RunStatus
from podium.ports.store import EventLog

_LOOK_BACK: Final = 100
# Events that are appended without a driver: if a driver has not acted on a signal, nothing else follows it.
WITHOUT_DRIVER: Final = frozenset(
    {EventType.SIGNAL_ACCEPTED, EventType.SIGNAL_REJECTED, EventType.ALERT_RAISED}
)


async def is_paused(log: EventLog, run: Run) -> bool:
    """Also true if the PAUSE was accepted and the driver was killed before it recorded RunPaused."""
    if run.status is not RunStatus.RUNNING:
        return run.status is RunStatus.PAUSED
    records = await log.read(run.identity.run_id, after=max(0, run.head - _LOOK_BACK), limit=_LOOK_BACK)
    for record in reversed(records):
        if record.event_type not in WITHOUT_DRIVER:
            return False
        if record.event_type == EventType.SIGNAL_ACCEPTED and signal_type_of(record) in ("PAUSE", "RESUME"):
            return signal_type_of(record) == "PAUSE"
    return False


def signal_type_of(signal: EventRecord) -> str:
    return payload_of(signal, Signal).signal_type
