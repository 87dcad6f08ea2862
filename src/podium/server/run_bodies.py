"""Runs as the API shows them."""

from datetime import datetime
from typing import Annotated, Any

import msgspec

from podium.log.events import EventRecord
from podium.log.ids import DEFAULT_ENVIRONMENT, DEFAULT_POOL, DEFAULT_PROJECT
from podium.log.payloads import Failure, fields_of
from podium.log.runs import Run
from podium.log.snapshots import RunSummary
from podium.operations.listing import RunTable
from podium.operations.on_limit import OnLimit
from podium.operations.run_orders import RunOrder
from podium.operations.signals import SentSignal
from podium.operations.submitting import Submitted


class OrderBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A run to start. `plan`: `id@version`, or the SHA-256 of a published plan."""

    plan: str
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    project: str = DEFAULT_PROJECT
    environment: str = DEFAULT_ENVIRONMENT
    pool: str = DEFAULT_POOL
    priority: Annotated[int, msgspec.Meta(ge=-1000, le=1000)] | None = None
    concurrency_key: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    # With a time zone, like 2026-01-01T09:00:00Z.
    start_at: Annotated[datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})] | None = None
    # If a limit is reached: wait, be refused (429), or start later. Null: what the configuration says.
    on_limit: OnLimit | None = None

    def order(self, request_id: str | None) -> RunOrder:
        return RunOrder(
            plan=self.plan,
            inputs=self.inputs,
            project_id=self.project,
            environment_id=self.environment,
            pool=self.pool,
            priority=self.priority,
            concurrency_key=self.concurrency_key,
            labels=self.labels,
            on_limit=self.on_limit,
            start_at=self.start_at,
            request_id=request_id,
        )


class RunBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One run. `runSeq`: the number of its newest event."""

    run_id: str
    status: str
    plan_id: str
    plan_version: str
    plan_sha256: str
    project: str
    environment: str
    run_seq: int
    run_request_id: str
    created_at: str
    updated_at: str
    priority: int = 0
    pool: str | None = None
    concurrency_key: str | None = None
    start_at: str | None = None
    needs_approval: bool = False
    labels: dict[str, str] = {}

    @classmethod
    def of(cls, run: Run) -> "RunBody":
        identity = run.identity
        return cls(
            run_id=identity.run_id,
            status=run.status.value,
            plan_id=identity.plan_id,
            plan_version=identity.plan_version,
            plan_sha256=run.plan_sha256,
            project=identity.project_id,
            environment=identity.environment_id,
            run_seq=run.head,
            run_request_id=run.run_request_id,
            created_at=run.created_at,
            updated_at=run.updated_at,
            priority=run.priority,
            pool=run.pool,
            concurrency_key=run.concurrency_key,
            start_at=run.start_at,
            needs_approval=run.needs_approval,
            labels=run.labels,
        )


class SubmittedBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A run that was asked for. `outcome`: created (201), duplicate (200), queued or delayed (202).

    `position`: in the queue of its pool. `limit`: the one that is reached.
    """

    run_id: str
    outcome: str
    run: RunBody
    run_seq: int
    position: int | None = None
    limit: str | None = None

    @classmethod
    def of(cls, done: Submitted) -> "SubmittedBody":
        run = RunBody.of(done.run)
        return cls(
            run_id=run.run_id,
            outcome=done.outcome.value,
            run=run,
            run_seq=run.run_seq,
            position=done.position,
            limit=done.limit,
        )


class SummaryBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a list shows of the steps of a run, as of the event `runSeq`."""

    run_seq: int
    steps: int
    running_steps: int = 0
    succeeded_steps: int = 0
    failed_steps: int = 0
    skipped_steps: int = 0
    started_at: str | None = None
    completed_at: str | None = None
    failure: Failure | None = None
    usage: dict[str, float] = {}

    @classmethod
    def of(cls, summary: RunSummary) -> "SummaryBody":
        return cls(
            run_seq=summary.last_event_seq,
            steps=summary.step_count,
            running_steps=summary.running_steps,
            succeeded_steps=summary.succeeded_steps,
            failed_steps=summary.failed_steps,
            skipped_steps=summary.skipped_steps,
            started_at=summary.started_at,
            completed_at=summary.completed_at,
            failure=summary.failure,
            usage=summary.usage,
        )


class RunsBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of runs, newest first. `cursor`: of the next page, null if this was the last one; a page may be short.

    `summaries`: by run id. `stale`: they are more than five seconds behind the log. `details`: if they were asked for.
    """

    runs: tuple[RunBody, ...]
    cursor: str | None
    summaries: dict[str, SummaryBody]
    stale: bool
    details: tuple[dict[str, Any], ...] | None = None

    @classmethod
    def of(cls, table: RunTable, details: tuple[dict[str, Any], ...] | None = None) -> "RunsBody":
        found = table.summaries
        return cls(
            runs=tuple(map(RunBody.of, table.runs)),
            cursor=table.cursor,
            summaries={run_id: SummaryBody.of(summary) for run_id, summary in found.by_run.items()},
            stale=found.is_stale,
            details=details,
        )


class SignalBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`signalId`: a UUID of version 4, made by the caller. The same one with the same content is one signal.

    `fields`: of APPROVE, what the form asks for, as text; it is read as the form's types.
    """

    signal_id: str
    signal_type: str
    payload: dict[str, Any] = msgspec.field(default_factory=dict)
    fields: dict[str, str] = msgspec.field(default_factory=dict)


class DecisionBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An accepted signal. `newRunId`: of RETRY_RUN."""

    run_id: str
    signal_id: str
    signal_type: str
    decision: str
    duplicate: bool
    run_status: str
    run_seq: int
    new_run_id: str | None = None

    @classmethod
    def of(cls, sent: SentSignal, signal_type: str) -> "DecisionBody":
        return cls(
            run_id=sent.run.identity.run_id,
            signal_id=sent.signal_id,
            signal_type=signal_type,
            decision="ACCEPTED",
            duplicate=sent.duplicate,
            run_status=sent.run.status.value,
            run_seq=sent.run.head,
            new_run_id=sent.new_run,
        )


class EventBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One event, as `podium events --json` prints it."""

    run_seq: int
    event_id: str
    event_type: str
    emitted_at: str
    persisted_at: str
    logical_attempt_id: int
    payload: dict[str, Any]
    engine_attempt_id: int
    idempotency_key: str
    step_id: str | None = None

    @classmethod
    def of(cls, record: EventRecord) -> "EventBody":
        return cls(
            run_seq=record.run_seq,
            event_id=record.event_id,
            event_type=record.event_type,
            emitted_at=record.emitted_at,
            persisted_at=record.persisted_at,
            logical_attempt_id=record.logical_attempt_id,
            payload=dict(fields_of(record)),
            engine_attempt_id=record.engine_attempt_id,
            idempotency_key=record.idempotency_key,
            step_id=record.step_id,
        )


class EventsBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Events in the order of the log. `next`: for `after` of the next page; null at the end of the log."""

    events: tuple[EventBody, ...]
    run_seq: int
    next: int | None
