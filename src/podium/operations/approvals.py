"""Who approved or rejected what in a run, and how that is known."""

import msgspec

from podium.log.events import EventType
from podium.log.ids import RunId
from podium.ports.store import EventLog

_BATCH = 5000
_ENDS = frozenset({EventType.STEP_COMPLETED, EventType.STEP_FAILED})


class Decision(msgspec.Struct, frozen=True, rename="camel"):
    step: str
    approved: bool
    by: str
    by_method: str | None = None
    # The name that was given with the answer; nothing checks it.
    claimed_by: str | None = None

    @property
    def text(self) -> str:
        how = f" ({self.by_method})" if self.by_method else ""
        claim = f", who gave the name {self.claimed_by!r}" if self.claimed_by else ""
        return f"{self.step}: {'approved' if self.approved else 'rejected'} by {self.by}{how}{claim}"


async def decisions_of(log: EventLog, run_id: RunId) -> list[Decision]:
    """In the order of the log."""
    found: list[Decision] = []
    after = 0
    while records := await log.read(run_id, after=after, limit=_BATCH):
        after = records[-1].run_seq
        for record in records:
            if record.event_type not in _ENDS or b'"by"' not in record.payload:
                continue
            payload = msgspec.json.decode(record.payload)
            if isinstance(payload.get("by"), str):
                found.append(
                    Decision(
                        record.step_id or "",
                        record.event_type == EventType.STEP_COMPLETED,
                        payload["by"],
                        payload.get("byMethod"),
                        payload.get("claimedBy"),
                    )
                )
    return found
