"""Reading the log of a run: all of it in order, and the request that created the run."""

from collections.abc import AsyncIterator, Callable
from typing import Final

from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.log.payloads import RunQueued, payload_of
from podium.ports.store import EventLog
from podium.runtime.spilling import Values, whole

READ_BATCH: Final = 5000
# RunQueued and RunStarted are among the first; signals and alerts may come between them.
FIRST_RECORDS: Final = 20


async def records_of(
    log: EventLog, run_id: RunId, *, after: int = 0, values: Callable[[], Values] | None = None
) -> AsyncIterator[EventRecord]:
    """The records of a run, with complete payloads if `values` is given."""
    while records := await log.read(run_id, after=after, limit=READ_BATCH):
        for record in records:
            yield await whole(record, values)
        after = records[-1].run_seq


async def queued_of(log: EventLog, run_id: RunId, values: Callable[[], Values] | None = None) -> RunQueued:
    """The request that created a run."""
    for record in await log.read(run_id, limit=FIRST_RECORDS):
        if record.event_type == EventType.RUN_QUEUED:
            return payload_of(await whole(record, values), RunQueued)
    return RunQueued()
