"""What `podium resume` says when the run it reopened ended immediately: which step ended it, and what to do."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.plan.loading import FINALLY
from podium.ports.engine import RunEnded
from podium.ports.store import Store
from podium.runtime.plan_file import load_plan
from podium.runtime.rundir import RunDirectory
from podium.runtime.spilling import values_of
from podium.wiring import payload_store

if TYPE_CHECKING:
    from podium.operations.explaining import Reason


class Reopened:
    """Watches a reopened run. `_error` and `finally` belong to every opening: they do not count as work."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._has_ended_here = False
        self._has_worked = False

    def observe(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            if record.event_type == EventType.RUN_FAILED:
                self._has_ended_here = True
            elif record.event_type == EventType.STEP_STARTED and _is_work(record):
                self._has_worked = True

    async def reasons(self, store: Store, ended: RunEnded) -> "Sequence[Reason]":
        """Empty if a step ran, or the run did not fail here."""
        if self._has_worked or not self._has_ended_here:
            return ()
        from podium.operations.explaining import if_resumed

        run = await store.get_run(RunId(ended.run_id))
        directory = RunDirectory(self._runs, ended.run_id)
        kept = values_of(store, ended.run_id, directory, payload_store)
        return await if_resumed(store, run, await load_plan(store, directory, run), kept)


def _is_work(record: EventRecord) -> bool:
    path = record.step_id or ""
    return path != "_error" and not path.startswith(f"{FINALLY}/") and b'"reopened"' not in record.payload
