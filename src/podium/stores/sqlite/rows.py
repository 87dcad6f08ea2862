"""Conversion between rows and values: which columns make a run or an event."""

from binascii import unhexlify
from collections.abc import Iterable, Sequence
from typing import Any, Final

from podium.log.events import EventRecord, RunIdentity
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.log.transitions import RunStatus
from podium.stores.engine_refs import engine_of
from podium.stores.labels import labels_of
from podium.stores.plan_refs import plan_ref_of

IDENTITY: Final = "run_id, tenant_id, project_id, environment_id, plan_id, plan_version"
RUN_COLUMNS: Final = (
    "r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version, r.run_request_id, r.status, "
    "r.head, r.priority, r.concurrency_key, r.plan_sha256, r.inputs_sha256, r.created_at, r.updated_at, r.start_at, "
    "r.engine_provider, r.engine_workflow, r.engine_run, r.engine_ref, r.metadata, r.plan_ref, r.needs_approval, "
    "r.pool, r.concurrency_limit, r.labels"
)
EVENT_COLUMNS: Final = (
    "e.run_seq, e.event_id, e.event_type, e.step_id, e.logical_attempt, e.engine_attempt, e.key, e.emitted_at, "
    "e.persisted_at, e.payload"
)
EVENT_BY_KEY: Final = f"SELECT {EVENT_COLUMNS} FROM events e WHERE e.run = ? AND e.key = ?"
INSERT_EVENT: Final = (
    "INSERT INTO events (run, run_seq, key, event_id, event_type, step_id, logical_attempt, engine_attempt, "
    "emitted_at, persisted_at, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def identity_of(row: Sequence[Any]) -> RunIdentity:
    run_id, tenant_id, project_id, environment_id, plan_id, plan_version = row
    return RunIdentity(
        run_id=RunId(run_id),
        tenant_id=tenant_id,
        project_id=project_id,
        environment_id=environment_id,
        plan_id=plan_id,
        plan_version=plan_version,
    )


def run_of(row: Sequence[Any]) -> Run:
    """From a row of `RUN_COLUMNS`."""
    return Run(
        identity=identity_of(row[:6]),
        run_request_id=row[6],
        status=RunStatus(row[7]),
        head=row[8],
        priority=row[9],
        concurrency_key=row[10],
        plan_sha256=row[11],
        inputs_sha256=row[12],
        created_at=row[13],
        updated_at=row[14],
        start_at=row[15],
        engine=engine_of(row[0], row[16:20]),
        metadata=row[20],
        plan_ref=plan_ref_of(row[21]),
        needs_approval=bool(row[22]),
        pool=row[23],
        concurrency_limit=row[24],
        labels=labels_of(row[25]),
    )


def record_of(run: RunIdentity, row: Sequence[Any]) -> EventRecord:
    """From a row of `EVENT_COLUMNS`."""
    seq, event_id, event_type, step_id, logical, engine, key, emitted_at, persisted_at, payload = row
    return EventRecord(
        run, seq, event_id, event_type, step_id, logical, engine, key.hex(), emitted_at, persisted_at, payload
    )


def event_row(number: int, record: EventRecord) -> tuple[Any, ...]:
    """The parameters of `INSERT_EVENT`."""
    return (
        number,
        record.run_seq,
        unhexlify(record.idempotency_key),
        record.event_id,
        record.event_type,
        record.step_id,
        record.logical_attempt_id,
        record.engine_attempt_id,
        record.emitted_at,
        record.persisted_at,
        record.payload,
    )


def records_of(run: RunIdentity, rows: Iterable[Sequence[Any]]) -> list[EventRecord]:
    # Does not call `record_of`, because a log has hundreds of thousands of rows.
    return [
        EventRecord(
            run, seq, event_id, event_type, step_id, logical, engine, key.hex(), emitted, persisted, payload
        )
        for seq, event_id, event_type, step_id, logical, engine, key, emitted, persisted, payload in rows
    ]
