"""Why a run that was reopened ended immediately: which step ended it, and what to do."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.operations.parts import Parts
from podium.plan.loading import FINALLY

if TYPE_CHECKING:
    from podium.operations.explaining import Reason


class Reopened:
    """Observes a reopened run. `_error` and `finally` belong to every opening, so they do not count as work."""

    def __init__(self) -> None:
        self._has_ended_here = False
        self._has_worked = False

    def observe(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            if record.event_type == EventType.RUN_FAILED:
                self._has_ended_here = True
            elif record.event_type == EventType.STEP_STARTED and _is_work(record):
                self._has_worked = True

    async def reasons(self, parts: Parts, run_id: RunId) -> "Sequence[Reason]":
        """Empty if a step ran, or the run did not fail here."""
        if self._has_worked or not self._has_ended_here:
            return ()
        from podium.operations.explaining import if_resumed

        run = await parts.store.get_run(run_id)
        return await if_resumed(parts.store, run, await parts.plan_of(run), parts.values(run_id))


def _is_work(record: EventRecord) -> bool:
    path = record.step_id or ""
    return path != "_error" and not path.startswith(f"{FINALLY}/") and b'"reopened"' not in record.payload
