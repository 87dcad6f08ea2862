"""Approvals and rejections in a run: who decided, and how the person was identified."""

from collections.abc import Callable
from typing import Final

import msgspec

from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.log.payloads import RunApproved, StepEnd, payload_of
from podium.log.transitions import TASK_ENDS
from podium.ports.store import EventLog
from podium.runtime.reading import records_of

# Used instead of the name of a step, for a decision about the run as a whole.
PLAN: Final = "the plan"


class Decision(msgspec.Struct, frozen=True, rename="camel"):
    step: str
    approved: bool
    by: str
    by_method: str | None = None
    # The name that was given with the answer; it is not verified.
    claimed_by: str | None = None

    @property
    def text(self) -> str:
        how = f" ({self.by_method})" if self.by_method else ""
        claim = f", who gave the name {self.claimed_by!r}" if self.claimed_by else ""
        return f"{self.step}: {'approved' if self.approved else 'rejected'} by {self.by}{how}{claim}"


def plan_decision(approval: RunApproved) -> Decision:
    return Decision(
        PLAN,
        approved=True,
        by=approval.by or "",
        by_method=approval.by_method,
        claimed_by=approval.claimed_by,
    )


async def decisions_of(
    log: EventLog, run_id: RunId, also: Callable[[EventRecord], None] | None = None
) -> list[Decision]:
    """In the order of the log. `also`: called with each record."""
    found: list[Decision] = []
    async for record in records_of(log, run_id):
        if also is not None:
            also(record)
        if record.event_type == EventType.RUN_APPROVED:
            found.append(plan_decision(payload_of(record, RunApproved)))
        if record.event_type not in TASK_ENDS or b'"by"' not in record.payload:
            continue
        end = payload_of(record, StepEnd)
        if end.by is not None:
            approved = record.event_type == EventType.STEP_COMPLETED
            found.append(Decision(record.step_id or "", approved, end.by, end.by_method, end.claimed_by))
    return found
