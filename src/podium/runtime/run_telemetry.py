"""Spans and metrics of a run, from its log alone: the run, and each attempt of its steps.

Their ids follow from the run, the step and the attempt, so what a step does (retries of an effect, messages
that it publishes) can refer to its span before that has ended.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from podium.log.events import EventRecord, EventType
from podium.log.payloads import Failure, read_as
from podium.log.runs import Run
from podium.log.times import moment
from podium.log.tracing import TraceContext, parent_in, parent_of, run_context, step_span
from podium.ports.metrics import RUNS_ENDED, RUNS_STARTED, STEPS_ENDED, Span
from podium.ports.telemetry import Telemetry

_STEP_ENDS: Final = {
    EventType.STEP_COMPLETED.value: "completed",
    EventType.STEP_FAILED.value: "failed",
    EventType.STEP_INTERRUPTED.value: "interrupted",
}
_RUN_ENDS: Final = {
    EventType.RUN_COMPLETED.value: "completed",
    EventType.RUN_FAILED.value: "failed",
    EventType.RUN_CANCELLED.value: "cancelled",
}


class _End(msgspec.Struct, frozen=True, rename="camel"):
    """What spans show of the end of a step or a run."""

    error: Failure | None = None
    correlation_id: str | None = None

    @property
    def code(self) -> str | None:
        return self.error.code or "FAILED" if self.error is not None else None


class RunTelemetry:
    """An `Observer` of one run."""

    def __init__(self, telemetry: Telemetry, run: Run) -> None:
        self._telemetry = telemetry
        self._run_id = run.identity.run_id
        self._created_at = moment(run.created_at)
        self._plan_id = run.identity.plan_id
        self._parent = parent_in(run.metadata)
        self._context = run_context(self._run_id, self._parent)
        # By path and attempt. The start of an attempt that another process has started is not known here.
        self._started: dict[tuple[str, int], datetime] = {}
        self._correlation_id: str | None = None

    def __call__(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            if record.event_type == EventType.STEP_STARTED:
                self._started[record.step_id or "", record.logical_attempt_id] = moment(record.emitted_at)
            elif record.event_type in _STEP_ENDS:
                self._step_ended(record)
            elif record.event_type == EventType.RUN_STARTED:
                self._telemetry.count(RUNS_STARTED)
            elif record.event_type in _RUN_ENDS:
                self._run_ended(record)

    def _step_ended(self, record: EventRecord) -> None:
        self._telemetry.count(STEPS_ENDED, _STEP_ENDS[record.event_type])
        path, attempt, ended_at = record.step_id or "", record.logical_attempt_id, moment(record.emitted_at)
        started_at = self._started.pop((path, attempt), ended_at)
        if not self._telemetry.is_tracing:
            return
        end = _read(record)
        self._correlation_id = end.correlation_id or self._correlation_id
        self._telemetry.span(
            Span(
                name=f"step {path}",
                context=self._context.with_span(step_span(self._run_id, path, attempt)),
                parent=self._context,
                started_at=started_at,
                ended_at=ended_at,
                correlation_id=end.correlation_id or self._run_id,
                attributes={"podium.run_id": self._run_id, "podium.step": path, "podium.attempt": attempt},
                error=end.code if record.event_type != EventType.STEP_COMPLETED else None,
            )
        )

    def _run_ended(self, record: EventRecord) -> None:
        self._telemetry.count(RUNS_ENDED, _RUN_ENDS[record.event_type])
        self._started.clear()
        if not self._telemetry.is_tracing:
            return
        self._telemetry.span(
            Span(
                name=f"run {self._plan_id}",
                context=self._context,
                parent=self._parent,
                started_at=self._created_at,
                ended_at=moment(record.emitted_at),
                correlation_id=self._correlation_id or self._run_id,
                attributes={"podium.run_id": self._run_id, "podium.plan_id": self._plan_id},
                error=_read(record).code if record.event_type != EventType.RUN_COMPLETED else None,
            )
        )


def _read(record: EventRecord) -> _End:
    return read_as(_End, record.payload)[0]


def step_context(run_id: str, run: dict[str, object], path: str, attempt: int) -> TraceContext:
    """The span of an attempt; `run`: the value of `${run}` in it."""
    return run_context(run_id, parent_of(run)).with_span(step_span(run_id, path, attempt))
