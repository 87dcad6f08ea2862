"""An event that was recorded before differs from the one that is written now: the record takes precedence,
and one alert is raised. It means that two processes did the same work with different results, or that one of
them is wrong.
"""

import contextlib
import logging
from collections.abc import Sequence
from typing import Final

from podium.errors import PodiumError
from podium.log.alerts import AlertCode
from podium.log.events import EventType, EventWrite, encode_payload
from podium.ports.log_fields import about
from podium.ports.store import AppendedEvent, EventLog
from podium.runtime.writing import new_event

_LOG: Final = logging.getLogger(__name__)


async def alert_about_differences(
    store: EventLog, writes: Sequence[EventWrite], appended: Sequence[AppendedEvent]
) -> None:
    for write, one in zip(writes, appended, strict=True):
        if one.differs:
            # The work has been done: it must not fail because an alert cannot be stored.
            with contextlib.suppress(PodiumError):
                await _alert(store, write, one)


async def _alert(store: EventLog, write: EventWrite, one: AppendedEvent) -> None:
    record = one.record
    subject = str(record.run_seq)
    message = (
        f"{record.event_type} of {record.step_id or 'the run'} was written again with other content; "
        f"event {subject} in the log counts"
    )
    payload = {"code": AlertCode.EVENT_CONTENT_DIFFERS, "subject": subject, "message": message}
    alert = new_event(
        record.run,
        EventType.ALERT_RAISED,
        write.emitted_at,
        encode_payload(payload),
        subject=f"{AlertCode.EVENT_CONTENT_DIFFERS}:{subject}",
    )
    (raised,) = await store.append(record.run.run_id, [alert])
    if not raised.duplicate:
        run_id = record.run.run_id
        fields = about(run=run_id, tenant=record.run.tenant_id)
        _LOG.error("%s (run %s): %s", AlertCode.EVENT_CONTENT_DIFFERS, run_id, message, extra=fields)
