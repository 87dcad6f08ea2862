"""Schedules in SQL. If several change the same revision, only the first one to commit succeeds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import apsw
import msgspec

from podium.errors import ScheduleExists, ScheduleNotFound
from podium.log.times import Timestamp
from podium.ports.schedule_changes import MAX_TICKS, ChangedSchedule, DueAfter, PreparedRun
from podium.schedules.schedule import Schedule, Tick
from podium.stores import rules, schedule_rows, texts
from podium.stores.sqlite.moments import Moment
from podium.stores.sqlite.prepared import checked_run, create

Change: TypeAlias = Callable[[apsw.Connection, Moment], ChangedSchedule | None]

_ID: Final = "tenant_id = ? AND schedule_id = ?"
_INSERT: Final = (
    "INSERT INTO schedules (tenant_id, schedule_id, revision, pool, due_at, body) VALUES (?, ?, ?, ?, ?, ?)"
)
_UPDATE: Final = f"UPDATE schedules SET revision = ?, pool = ?, due_at = ?, body = ? WHERE {_ID}"
_KEEP: Final = (
    "INSERT INTO schedule_contents (tenant_id, schedule_id, name, sha256, content) VALUES (?, ?, ?, ?, ?)"
)
_TICK: Final = "INSERT INTO schedule_ticks (tenant_id, schedule_id, number, body) VALUES (?, ?, ?, ?)"
_LIST: Final = (
    "SELECT body FROM schedules WHERE tenant_id = ? AND schedule_id > ? ORDER BY schedule_id LIMIT ?"
)
_DUE: Final = (
    "SELECT body FROM schedules WHERE due_at IS NOT NULL AND due_at <= ? "
    "AND (due_at, tenant_id, schedule_id) > (?, ?, ?) AND pool IN (SELECT value FROM json_each(?)) "
    "ORDER BY due_at, tenant_id, schedule_id LIMIT ?"
)
_TICKS: Final = (
    "SELECT body FROM schedule_ticks WHERE tenant_id = ?1 AND schedule_id = ?2 AND (?3 IS NULL OR number < ?3) "
    "ORDER BY number DESC LIMIT ?4"
)
_BEFORE_ALL: Final = ("", "", "")


# --- changes --------------------------------------------------------------------------------------


def add(schedule: Schedule, contents: Mapping[str, bytes]) -> Callable[[apsw.Connection], None]:
    schedule_rows.check_schedule(schedule)
    texts.check_contents(contents)
    prepared = rules.contents_of(contents)

    def carry_out(db: apsw.Connection) -> None:
        if _revision(db, schedule) is not None:
            raise ScheduleExists(schedule.schedule_id)
        row = (schedule.revision, schedule.definition.pool, schedule.due_at)
        db.execute(_INSERT, (*_key(schedule), *row, schedule_rows.body_of(schedule)))
        _keep(db, schedule, prepared)

    return carry_out


def change(
    schedule: Schedule,
    ticks: Sequence[Tick],
    run: PreparedRun | None,
    contents: Mapping[str, bytes] | None,
) -> Change:
    """Contents are hashed before anything is locked."""
    schedule_rows.check_schedule(schedule)
    texts.check_contents(contents or ())
    prepared = rules.contents_of(contents) if contents is not None else None
    of_run = checked_run(run) if run is not None else ()

    def carry_out(db: apsw.Connection, at: Moment) -> ChangedSchedule | None:
        if _revision(db, schedule) != schedule.revision:
            return None
        created = create(db, at, run, of_run) if run is not None else None
        changed = schedule_rows.changed(schedule, ticks, created)
        _store(db, changed.schedule, changed.ticks)
        if prepared is not None:
            db.execute(f"DELETE FROM schedule_contents WHERE {_ID}", _key(schedule))
            _keep(db, schedule, prepared)
        return changed

    return carry_out


def remove(db: apsw.Connection, tenant_id: str, schedule_id: str) -> None:
    find(db, tenant_id, schedule_id)
    db.execute(f"DELETE FROM schedules WHERE {_ID}", (tenant_id, schedule_id))


def _revision(db: apsw.Connection, schedule: Schedule) -> int | None:
    row: Any = db.execute(f"SELECT revision FROM schedules WHERE {_ID}", _key(schedule)).fetchone()
    return row[0] if row is not None else None


def _store(db: apsw.Connection, schedule: Schedule, ticks: Sequence[Tick]) -> None:
    row = (schedule.revision, schedule.definition.pool, schedule.due_at, schedule_rows.body_of(schedule))
    db.execute(_UPDATE, (*row, *_key(schedule)))
    db.executemany(_TICK, [(*_key(schedule), tick.number, schedule_rows.body_of(tick)) for tick in ticks])
    if ticks:
        old = f"DELETE FROM schedule_ticks WHERE {_ID} AND number <= ?"
        db.execute(old, (*_key(schedule), schedule.ticks - MAX_TICKS))


def _keep(db: apsw.Connection, schedule: Schedule, contents: Sequence[rules.Content]) -> None:
    db.executemany(_KEEP, [(*_key(schedule), one.name, one.sha256, one.content) for one in contents])


def _key(schedule: Schedule) -> tuple[str, str]:
    return schedule.tenant_id, schedule.schedule_id


# --- reads ----------------------------------------------------------------------------------------


def find(db: apsw.Connection, tenant_id: str, schedule_id: str) -> Schedule:
    row: Any = None
    if texts.could_be_kept(tenant_id, schedule_id):
        found = db.execute(f"SELECT body FROM schedules WHERE {_ID}", (tenant_id, schedule_id))
        row = found.fetchone()
    if row is None:
        raise ScheduleNotFound(schedule_id)
    return schedule_rows.schedule_of(row[0])


def of_tenant(db: apsw.Connection, tenant_id: str, after: str, limit: int) -> list[Schedule]:
    if not texts.could_be_kept(tenant_id, after):
        return []
    return _schedules(db.execute(_LIST, (tenant_id, after, limit)))


def due(
    db: apsw.Connection, pools: Sequence[str], before: Timestamp, after: DueAfter | None, limit: int
) -> list[Schedule]:
    passed = (after.due_at, after.tenant_id, after.schedule_id) if after is not None else _BEFORE_ALL
    return _schedules(db.execute(_DUE, (before, *passed, msgspec.json.encode(list(pools)).decode(), limit)))


def contents(db: apsw.Connection, tenant_id: str, schedule_id: str) -> dict[str, bytes]:
    find(db, tenant_id, schedule_id)
    asked = f"SELECT name, sha256, content FROM schedule_contents WHERE {_ID}"
    rows: Any = db.execute(asked, (tenant_id, schedule_id))
    return {name: schedule_rows.checked_content(schedule_id, name, *kept) for name, *kept in rows}


def ticks_of(
    db: apsw.Connection, tenant_id: str, schedule_id: str, before: int | None, limit: int
) -> list[Tick]:
    find(db, tenant_id, schedule_id)
    rows: Any = db.execute(_TICKS, (tenant_id, schedule_id, before, limit))
    return [schedule_rows.tick_of(body) for (body,) in rows]


def _schedules(rows: Any) -> list[Schedule]:
    return [schedule_rows.schedule_of(body) for (body,) in rows]
