"""The end of a run: its newest terminal event."""

from typing import Final

from podium.log.events import EventRecord
from podium.log.payloads import RunEnd, payload_of
from podium.log.runs import Run
from podium.log.transitions import RUN_ENDS, TERMINAL
from podium.ports.engine import RunEnded
from podium.ports.store import EventLog

_WINDOW: Final = 50
# The exit code of a run that exceeded its timeout.
_TIMED_OUT: Final = 3


async def last_end(log: EventLog, run: Run) -> EventRecord | None:
    """The newest terminal event of a run, if it has ended; only few records can follow it."""
    return await newest(log, run, RUN_ENDS) if run.status in TERMINAL else None


async def newest(log: EventLog, run: Run, types: frozenset[str]) -> EventRecord | None:
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


def end_status(event_type: str, end: RunEnd) -> str:
    """The status shown to people: completed, failed, cancelled, timeout or error."""
    status = event_type.removeprefix("Run").lower()
    if status == "failed" and end.exit_code == _TIMED_OUT:
        return "timeout"
    is_defect = end.error is not None and end.error.code == "INTERNAL_ERROR"
    return "error" if status == "failed" and is_defect else status


def ended_by(end: EventRecord) -> RunEnded:
    said = payload_of(end, RunEnd)
    code = said.error.code if said.error is not None else ""
    return RunEnded(end.run.run_id, end.event_type, said.code, said.reason or "", said.message or "", code)
