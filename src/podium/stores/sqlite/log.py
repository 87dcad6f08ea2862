"""Runs and their logs in SQL. Each function is one change of a write transaction, or one read.

Appending is in `appending.py`. A change is refused before it writes anything (see `writer.py`).
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import apsw

from podium.errors import RunNotFound, RunRefused, RunRequestConflict, RunRequestPruned, TenantClosed
from podium.log.engines import EngineRunRef
from podium.log.events import EventRecord, EventWrite, RunIdentity
from podium.log.leases import Fence
from podium.log.runs import Backpressure, NewRun, Run, request_id_of
from podium.ports.store import CreatedRun
from podium.stores import rules
from podium.stores.engine_refs import engine_columns
from podium.stores.labels import labels_column
from podium.stores.plan_refs import plan_ref_column
from podium.stores.sqlite import outbox, ownership
from podium.stores.sqlite.moments import Moment
from podium.stores.sqlite.rows import (
    EVENT_BY_KEY,
    EVENT_COLUMNS,
    IDENTITY,
    INSERT_EVENT,
    RUN_COLUMNS,
    event_row,
    identity_of,
    records_of,
    run_of,
)

_THIS_REQUEST: Final = (
    "tenant_id = ? AND project_id = ? AND environment_id = ? AND plan_id = ? AND plan_version = ? "
    "AND run_request_id = ?"
)

_RUN: Final = f"SELECT {RUN_COLUMNS} FROM runs r WHERE r.run_id = ?"
_RUN_BY_REQUEST: Final = f"SELECT {RUN_COLUMNS} FROM runs r WHERE {_THIS_REQUEST}"
_OPEN_RUNS: Final = f"""
    SELECT {RUN_COLUMNS} FROM runs r
    WHERE engine_provider = ? AND engine_provider IS NOT NULL AND run_id > ?
        AND status IN ('PENDING', 'APPROVED', 'RUNNING', 'PAUSED')
    ORDER BY run_id LIMIT ?
"""
_RUN_BY_ENGINE: Final = (
    f"SELECT {RUN_COLUMNS} FROM runs r WHERE engine_provider = ? AND engine_workflow = ? AND engine_run = ? "
    "ORDER BY number LIMIT 1"
)
_NUMBER_AND_IDENTITY: Final = f"SELECT number, {IDENTITY} FROM runs WHERE run_id = ?"
_EVENTS_AFTER: Final = (
    f"SELECT {EVENT_COLUMNS} FROM events e WHERE e.run = ? AND e.run_seq > ? ORDER BY e.run_seq LIMIT ?"
)
_INSERT_RUN: Final = (
    f"INSERT INTO runs ({IDENTITY}, run_request_id, status, head, updated_at, created_at, priority, concurrency_key, "
    "needs_approval, start_at, plan_sha256, inputs_sha256, engine_provider, engine_workflow, engine_run, "
    "engine_ref, metadata, plan_ref, pool, concurrency_limit, labels) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_LABEL: Final = "INSERT INTO labels (tenant_id, name, value, created_at, run) VALUES (?, ?, ?, ?, ?)"
_SET_ENGINE: Final = (
    "UPDATE runs SET engine_provider = ?, engine_workflow = ?, engine_run = ?, engine_ref = ? "
    "WHERE number = ?"
)
_IS_CLOSED: Final = "SELECT 1 FROM tenant_states WHERE tenant_id = ? AND closed_at IS NOT NULL"
_ALL: Final = -1


# --- changes --------------------------------------------------------------------------------------


def create_run(
    db: apsw.Connection, at: Moment, new: NewRun, writes: Sequence[EventWrite]
) -> tuple[CreatedRun, int | None]:
    """The run, and its number if it is new."""
    run = new.identity
    request = (
        run.tenant_id,
        run.project_id,
        run.environment_id,
        run.plan_id,
        run.plan_version,
        request_id_of(new),
    )
    earlier = db.execute(_RUN_BY_REQUEST, request).fetchone()
    if earlier is not None:
        found = run_of(earlier)
        rules.check_same_request(new, found.plan_sha256, found.inputs_sha256)
        return CreatedRun(found, (), duplicate=True), None
    _check_unused(db, run.run_id, request)
    if db.execute(_IS_CLOSED, (run.tenant_id,)).fetchone() is not None:
        raise TenantClosed(run.tenant_id)
    if new.backpressure is Backpressure.REJECT:
        full = ownership.full_limit(db, at, rules.scopes(run, new.concurrency_key))
        if full is not None:
            raise RunRefused(full, retry_after_seconds=rules.RETRY_AFTER_SECONDS)
    if new.is_exclusive:
        from podium.stores.sqlite import fleet

        fleet.check_exclusive(db, new)
    now = at.text
    row = rules.first_row(new, now)
    fresh = rules.new_writes(writes, {})
    if row.needs_approval and rules.opens(row.status, fresh):
        rules.check_approved(run, fresh, None)
    after = rules.row_after(row, fresh, len(fresh), now)
    identity = (run.run_id, run.tenant_id, run.project_id, run.environment_id, run.plan_id, run.plan_version)
    db.execute(
        _INSERT_RUN,
        (
            *identity,
            after.run_request_id,
            after.status.value,
            after.head,
            after.updated_at,
            after.created_at,
            after.priority,
            after.concurrency_key,
            new.needs_approval,
            after.start_at,
            after.plan_sha256,
            after.inputs_sha256,
            *engine_columns(after.engine),
            after.metadata,
            plan_ref_column(after.plan_ref),
            after.pool,
            after.concurrency_limit,
            labels_column(after.labels),
        ),
    )
    stored = rules.records_of(run, fresh, 0, now)
    number = db.last_insert_rowid()
    for name, value in after.labels.items():
        db.execute(_INSERT_LABEL, (run.tenant_id, name, value, after.created_at, number))
    db.executemany(INSERT_EVENT, [event_row(number, record) for record in stored])
    if _has_buses(db):
        outbox.enqueue(db, number, stored)
    return CreatedRun(after, rules.outcome(writes, {}, stored), duplicate=False), number


def set_engine(db: apsw.Connection, run_id: str, engine: EngineRunRef, fence: Fence) -> None:
    number = number_of(db, run_id)
    rules.check_fence(run_id, (), fence, ownership.held_generation(db, number, fence.attempt))
    db.execute(_SET_ENGINE, (*engine_columns(engine), number))


def _check_unused(db: apsw.Connection, run_id: str, request: tuple[str, ...]) -> None:
    is_used, is_pruned = db.execute(
        "SELECT EXISTS (SELECT 1 FROM runs WHERE run_id = ?) OR EXISTS (SELECT 1 FROM pruned WHERE run_id = ?), "
        f"EXISTS (SELECT 1 FROM pruned WHERE {_THIS_REQUEST})",
        (run_id, run_id, *request),
    ).get
    if is_pruned:
        raise RunRequestPruned(request[-1])
    if is_used:
        raise RunRequestConflict(f"run {run_id!r} exists or existed; use another run id")


def _has_buses(db: apsw.Connection) -> bool:
    return bool(db.execute("SELECT EXISTS (SELECT 1 FROM buses)").get)


# --- reads ----------------------------------------------------------------------------------------


def number_of(db: apsw.Connection, run_id: str) -> int:
    return number_and_identity(db, run_id)[0]


def number_and_identity(db: apsw.Connection, run_id: str) -> tuple[int, RunIdentity]:
    row = _one(db, _NUMBER_AND_IDENTITY, (run_id,))
    if row is None:
        raise RunNotFound(run_id)
    number, *identity = row
    return number, identity_of(identity)


def get_run(db: apsw.Connection, run_id: str) -> Run:
    row = _one(db, _RUN, (run_id,))
    if row is None:
        raise RunNotFound(run_id)
    return run_of(row)


def run_of_engine(db: apsw.Connection, ids: tuple[str, str, str]) -> Run | None:
    row = db.execute(_RUN_BY_ENGINE, ids).fetchone()
    return run_of(row) if row is not None else None


def open_runs(db: apsw.Connection, provider: str, after: str, limit: int) -> list[Run]:
    return [run_of(row) for row in db.execute(_OPEN_RUNS, (provider, after, limit))]


def run_by_number(db: apsw.Connection, number: int) -> Run:
    return run_of(db.execute(f"SELECT {RUN_COLUMNS} FROM runs r WHERE r.number = ?", (number,)).get)


def read(db: apsw.Connection, run_id: str, after: int, limit: int) -> list[EventRecord]:
    number, run = number_and_identity(db, run_id)
    return events_after(db, number, run, after=after, limit=limit)


def find(db: apsw.Connection, run_id: str, keys: Iterable[bytes]) -> list[EventRecord]:
    number, run = number_and_identity(db, run_id)
    rows = [row for key in keys for row in db.execute(EVENT_BY_KEY, (number, key))]
    return records_of(run, sorted(rows))


def _one(db: apsw.Connection, sql: str, values: tuple[str | bytes | None, ...]) -> Any | None:
    try:
        return db.execute(sql, values).fetchone()
    except UnicodeEncodeError:  # a lone surrogate: not an id, so no run has it
        return None


def events_after(
    db: apsw.Connection, number: int, run: RunIdentity, *, after: int, limit: int = _ALL
) -> list[EventRecord]:
    return records_of(run, db.execute(_EVENTS_AFTER, (number, after, limit)))
