"""How a run ended: its newest terminal event."""

from typing import Final

import msgspec

from podium.log.events import EventRecord, EventType
from podium.log.runs import Run
from podium.log.transitions import TERMINAL
from podium.ports.engine import RunEnded
from podium.ports.store import EventLog

_ENDS: Final = frozenset({EventType.RUN_COMPLETED, EventType.RUN_FAILED, EventType.RUN_CANCELLED})
_WINDOW: Final = 50


async def last_end(log: EventLog, run: Run) -> EventRecord | None:
    """The newest terminal event of a run, if it has ended; few records ever follow it."""
    return await newest(log, run, _ENDS) if run.status in TERMINAL else None


async def newest(log: EventLog, run: Run, types: frozenset[EventType]) -> EventRecord | None:
    """The newest record of these types, read from the end of the log."""
    window, before = _WINDOW, run.head
    while before > 0:
        after = max(0, before - window)
        records = await log.read(run.identity.run_id, after=after, limit=before - after)
        found = [record for record in records if record.event_type in types]
        if found:
            return found[-1]
        before, window = after, window * 4
    return None


def ended_by(end: EventRecord) -> RunEnded:
    payload = msgspec.json.decode(end.payload)
    error = payload.get("error") or {}
    code = payload.get("exitCode")
    return RunEnded(
        end.run.run_id,
        end.event_type,
        code if isinstance(code, int) else 1,
        str(payload.get("reason") or ""),
        str(error.get("message") or ""),
    )
