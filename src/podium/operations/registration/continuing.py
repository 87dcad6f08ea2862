"""Continues runs that failed because a service was unavailable: their completed steps are not executed again.

A permanent failure is left as it is, and so is one that was retried often enough, with an alert.
"""

from datetime import timedelta
from typing import Final

from podium.log.alerts import AlertCode
from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.log.payloads import StepEnd, payload_of
from podium.log.runs import Run, RunQuery
from podium.log.times import moment
from podium.log.transitions import RunStatus
from podium.operations.registration.counting import Counts
from podium.operations.registration.place import Place
from podium.operations.registration.refusing import Refusals
from podium.operations.registration.runs import Runs
from podium.ports.clock import Clock
from podium.ports.store import Store
from podium.runtime.ends import ended_by, last_end, newest

FIRST_PAUSE: Final = timedelta(seconds=5)
MAX_PAUSE: Final = timedelta(minutes=5)
# Limit for failures that no unavailable service explains.
MAX_TRIES: Final = 5
_MAX_REMEMBERED: Final = 10_000
# The code of a run that a step has ended.
_BY_STEP: Final = "STEP_FAILED"
_STEP_FAILED: Final = frozenset({EventType.STEP_FAILED})
_AWAY: Final = frozenset({"CATALOG_UNAVAILABLE", "CIRCUIT_OPEN", "EFFECT_FAILED", "LEASE_EXPIRED", "TIMEOUT"})
# Permanent failures.
_FINAL: Final = frozenset(
    {
        "AGGREGATION_FAILED",
        "CORRELATION_ID_MISMATCH",
        "EVENT_NOT_CONSUMED",
        "INTENT_WITHOUT_STATE",
        "NODE_INPUT_INVALID",
        "NODE_OUTPUT_INVALID",
        "REDUCER_FAILED",
        "RESULTS_OF_ANOTHER_NODE",
        "TOPIC_NOT_DECLARED",
    }
)


def pause_after(tries: int) -> timedelta:
    return min(MAX_PAUSE, FIRST_PAUSE * (1 << min(max(tries - 1, 0), 10)))


class FailedRuns:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        place: Place,
        plan_id: str,
        runs: Runs,
        refusals: Refusals,
        counts: Counts,
    ) -> None:
        self._store = store
        self._clock = clock
        self._place = place
        self._plan_id = plan_id
        self._runs = runs
        self._refusals = refusals
        self._counts = counts
        # Runs that are left, with the time of their end: one that is resumed by hand and fails again is another.
        self._left: set[tuple[RunId, str]] = set()

    async def continue_due(self) -> None:
        """Continue those whose delay is over, as far as there are slots."""
        cursor = None
        while self._runs.free > 0:
            page = await self._store.runs.page(self._place.tenant_id, self._query(cursor))
            for run in page.runs:
                if self._runs.free > 0:
                    await self._continue(run)
            cursor = page.cursor
            if cursor is None:
                return

    def _query(self, cursor: str | None) -> RunQuery:
        return RunQuery(
            plan_id=self._plan_id,
            project_id=self._place.namespace,
            environment_id=self._place.env,
            statuses=frozenset({RunStatus.FAILED}),
            cursor=cursor,
        )

    async def _continue(self, run: Run) -> None:
        if (run.identity.run_id, run.updated_at) in self._left:
            return
        end = await last_end(self._store, run)
        if end is None:
            return
        code, tries = await self._code(run, end), end.logical_attempt_id
        if code in _FINAL or (code not in _AWAY and tries >= MAX_TRIES):
            self._leave(run, code or "RUN_FAILED")
            return
        if self._clock.now() >= moment(run.updated_at) + pause_after(tries):
            await self._runs.reopen(run.identity.run_id, end.run_seq)
            self._counts.runs_continued += 1

    async def _code(self, run: Run, end: EventRecord) -> str:
        """That of the step that failed, if the run failed because of one: several could fail in a graph, so that its
        end names none. Here at most the last one is not allowed to.
        """
        code = ended_by(end).error_code
        failed = await newest(self._store, run, _STEP_FAILED) if code == _BY_STEP else None
        error = payload_of(failed, StepEnd).error if failed is not None else None
        return error.code if error is not None else code

    def _leave(self, run: Run, code: str) -> None:
        """With one alert, however long the run is kept."""
        message = "a run of the registration failed and is not tried again; see `podium runs list`"
        self._refusals.alert(AlertCode.REGISTRATION_RUN_FAILED, code, message)
        if len(self._left) >= _MAX_REMEMBERED:
            self._left.clear()
        self._left.add((run.identity.run_id, run.updated_at))
