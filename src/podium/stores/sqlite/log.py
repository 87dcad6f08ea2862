"""Runs and events in SQL. Each function is one change of a write transaction, or one read.

What an append means is decided in `podium.stores.rules`; here is how rows are found and kept. A change is refused
before it writes anything (see `writer.py`).
"""

from collections.abc import Sequence
from typing import Any, Final

import apsw

from podium.errors import LogMoved, RunNotFound, RunRefused, RunRequestConflict
from podium.model.events import EventRecord, EventWrite, RunIdentity
from podium.model.leases import Fence, WakeUp
from podium.model.runs import Backpressure, EngineRunRef, NewRun, Run, request_id_of
from podium.model.transitions import TERMINAL, RunStatus
from podium.ports.store import AppendedEvent, CreatedRun
from podium.stores import rules
from podium.stores.sqlite import outbox, ownership
from podium.stores.sqlite.moments import Moment
from podium.stores.sqlite.rows import (
    EVENT_COLUMNS,
    IDENTITY,
    RUN_COLUMNS,
    identity_of,
    record_of,
    records_of,
    run_of,
)

_THIS_REQUEST: Final = (
    "tenant_id = ? AND project_id = ? AND environment_id = ? AND plan_id = ? AND plan_version = ? "
    "AND run_request_id = ?"
)

_RUN: Final = f"SELECT {RUN_COLUMNS} FROM runs r WHERE r.run_id = ?"
_RUN_BY_REQUEST: Final = f"SELECT {RUN_COLUMNS} FROM runs r WHERE {_THIS_REQUEST}"
_RUN_BY_ENGINE: Final = (
    f"SELECT {RUN_COLUMNS} FROM runs r WHERE engine_provider = ? AND engine_workflow = ? AND engine_run = ? "
    "ORDER BY number LIMIT 1"
)
# In one statement, because each costs as much as its work. `(SELECT ?)` hides the parameter from the planner, which
# would otherwise compare it with the condition of a partial index and plan anew for every value.
_RUN_TO_APPEND_TO: Final = (
    "SELECT number, status, head, EXISTS (SELECT 1 FROM buses), "
    "(SELECT generation FROM leases WHERE run = number AND attempt = (SELECT ?) AND owner <> ''), "
    "EXISTS (SELECT 1 FROM events WHERE run = number AND key = ?), "
    f"{IDENTITY} FROM runs WHERE run_id = ?"
)
_NUMBER_AND_IDENTITY: Final = f"SELECT number, {IDENTITY} FROM runs WHERE run_id = ?"
_EVENT_BY_KEY: Final = f"SELECT {EVENT_COLUMNS} FROM events e WHERE e.run = ? AND e.key = ?"
_EVENTS_AFTER: Final = (
    f"SELECT {EVENT_COLUMNS} FROM events e WHERE e.run = ? AND e.run_seq > ? ORDER BY e.run_seq LIMIT ?"
)
_INSERT_RUN: Final = (
    f"INSERT INTO runs ({IDENTITY}, run_request_id, status, head, updated_at, created_at, priority, concurrency_key, "
    "needs_approval, start_at, plan_sha256, inputs_sha256, metadata) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_EVENT: Final = (
    "INSERT INTO events (run, run_seq, key, event_id, event_type, step_id, logical_attempt, engine_attempt, "
    "emitted_at, persisted_at, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
# Most events leave the status as it is; not to mention it spares the indexes that depend on it.
_MOVE_HEAD: Final = "UPDATE runs SET head = ?, updated_at = ? WHERE number = ?"
_UPDATE_RUN: Final = "UPDATE runs SET status = ?, head = ?, updated_at = ? WHERE number = ?"
_SET_ENGINE: Final = (
    "UPDATE runs SET engine_provider = ?, engine_workflow = ?, engine_run = ? WHERE number = ?"
)
_SET_WAKE_UP: Final = (
    "INSERT INTO wake_ups (run, key, due) VALUES (?, ?, ?) "
    "ON CONFLICT (run, key) DO UPDATE SET due = excluded.due"
)
_DROP_WAKE_UP: Final = "DELETE FROM wake_ups WHERE run = ? AND key = ?"

_ALL: Final = -1
# Calling the enum is ten times slower, and every append needs one.
_STATUS: Final = {status.value: status for status in RunStatus}


# --- changes --------------------------------------------------------------------------------------


def create_run(db: apsw.Connection, at: Moment, new: NewRun, writes: Sequence[EventWrite]) -> CreatedRun:
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
        return CreatedRun(found, (), duplicate=True)
    _check_unused(db, run.run_id, request)
    if new.backpressure is Backpressure.REJECT:
        full = ownership.full_limit(db, at, rules.scopes(run, new.concurrency_key))
        if full is not None:
            raise RunRefused(full, retry_after_seconds=rules.RETRY_AFTER_SECONDS)
    now = at.text
    row = rules.first_row(new, now)
    fresh = rules.new_writes(writes, {})
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
            after.metadata,
        ),
    )
    stored = rules.records_of(run, fresh, 0, now)
    number = db.last_insert_rowid()
    _insert_events(db, number, stored)
    if _has_buses(db):
        outbox.enqueue(db, number, [record.run_seq for record in stored])
    return CreatedRun(after, rules.outcome(writes, {}, stored), duplicate=False)


def append(
    db: apsw.Connection,
    at: Moment,
    run_id: str,
    writes: Sequence[EventWrite],
    fence: Fence | None,
    after: int | None,
    set_wake_ups: Sequence[WakeUp],
    drop_wake_ups: Sequence[str],
) -> tuple[AppendedEvent, ...]:
    # With many callers, half of the time beside SQLite's is spent here: another call in it shows in the benchmark.
    first_key = bytes.fromhex(writes[0].idempotency_key) if writes else None
    found = _one(db, _RUN_TO_APPEND_TO, (fence.attempt if fence is not None else None, first_key, run_id))
    if found is None:
        raise RunNotFound(run_id)
    number, status_text, head, has_buses, held, is_first_known, *identity = found
    run = identity_of(identity)
    known: dict[str, EventRecord] = {}
    if is_first_known or len(writes) > 1:
        known = _known(db, number, run, writes if is_first_known else writes[1:])
    fresh = rules.new_writes(writes, known)
    if not fresh:
        return rules.outcome(writes, known, ())
    rules.check_fence(run_id, fresh, fence, held)
    if after is not None and after != head:
        raise LogMoved(run_id, _events(db, number, run, after=after, limit=_ALL))
    now = at.text
    stored = rules.records_of(run, fresh, head, now)
    _insert_events(db, number, stored)
    if has_buses:
        outbox.enqueue(db, number, [record.run_seq for record in stored])
    before = _STATUS[status_text]
    status = rules.status_after(before, fresh)
    if status is before:
        db.execute(_MOVE_HEAD, (head + len(stored), now, number))
    else:
        db.execute(_UPDATE_RUN, (status.value, head + len(stored), now, number))
    if status in TERMINAL:
        db.execute("DELETE FROM wake_ups WHERE run = ?", (number,))
        ownership.give_up_all(db, number)
    else:
        for wake_up in set_wake_ups:
            db.execute(_SET_WAKE_UP, (number, wake_up.key, wake_up.due))
    for key in drop_wake_ups:
        db.execute(_DROP_WAKE_UP, (number, key))
    return rules.outcome(writes, known, stored)


def set_engine(db: apsw.Connection, run_id: str, engine: EngineRunRef, fence: Fence) -> None:
    number = number_of(db, run_id)
    rules.check_fence(run_id, (), fence, ownership.held_generation(db, number, fence.attempt))
    db.execute(_SET_ENGINE, (engine.provider, engine.workflow_id, engine.provider_run_id, number))


def _check_unused(db: apsw.Connection, run_id: str, request: tuple[str, ...]) -> None:
    used = db.execute(
        "SELECT EXISTS (SELECT 1 FROM runs WHERE run_id = ?) OR EXISTS (SELECT 1 FROM pruned WHERE run_id = ?) "
        f"OR EXISTS (SELECT 1 FROM pruned WHERE {_THIS_REQUEST})",
        (run_id, run_id, *request),
    ).get
    if used:
        raise RunRequestConflict(f"run {run_id!r} exists or existed; use another run id")


def _insert_events(db: apsw.Connection, number: int, stored: Sequence[EventRecord]) -> None:
    for record in stored:
        db.execute(
            _INSERT_EVENT,
            (
                number,
                record.run_seq,
                bytes.fromhex(record.idempotency_key),
                record.event_id,
                record.event_type,
                record.step_id,
                record.logical_attempt_id,
                record.engine_attempt_id,
                record.emitted_at,
                record.persisted_at,
                record.payload,
            ),
        )


def _has_buses(db: apsw.Connection) -> bool:
    return bool(db.execute("SELECT EXISTS (SELECT 1 FROM buses)").get)


def _known(
    db: apsw.Connection, number: int, run: RunIdentity, writes: Sequence[EventWrite]
) -> dict[str, EventRecord]:
    known = {}
    for write in writes:
        row = db.execute(_EVENT_BY_KEY, (number, bytes.fromhex(write.idempotency_key))).fetchone()
        if row is not None:
            known[write.idempotency_key] = record_of(run, row)
    return known


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


def run_of_engine(db: apsw.Connection, engine: EngineRunRef) -> Run | None:
    ids = (engine.provider, engine.workflow_id, engine.provider_run_id)
    row = db.execute(_RUN_BY_ENGINE, ids).fetchone()
    return run_of(row) if row is not None else None


def run_by_number(db: apsw.Connection, number: int) -> Run:
    return run_of(db.execute(f"SELECT {RUN_COLUMNS} FROM runs r WHERE r.number = ?", (number,)).get)


def read(db: apsw.Connection, run_id: str, after: int, limit: int) -> list[EventRecord]:
    number, run = number_and_identity(db, run_id)
    return _events(db, number, run, after=after, limit=limit)


def _one(db: apsw.Connection, sql: str, values: tuple[str | bytes | None, ...]) -> Any | None:
    try:
        return db.execute(sql, values).fetchone()
    except UnicodeEncodeError:  # half a character: no id, and no run has it
        return None


def _events(
    db: apsw.Connection, number: int, run: RunIdentity, *, after: int, limit: int
) -> list[EventRecord]:
    return records_of(run, db.execute(_EVENTS_AFTER, (number, after, limit)))
