"""Schedules in SQL. A change locks the schedule's row, after the lock of the run that it creates."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from psycopg import Rollback

from podium.errors import ScheduleExists, ScheduleNotFound
from podium.log.times import Timestamp
from podium.ports.schedule_changes import MAX_TICKS, ChangedSchedule, DueAfter, PreparedRun
from podium.schedules.schedule import Schedule, Tick
from podium.stores import rules, schedule_rows, texts
from podium.stores.postgres import log
from podium.stores.postgres.connections import Connection, Connections

_ID: Final = "tenant_id = %s AND schedule_id = %s"
_INSERT: Final = """
INSERT INTO schedules (tenant_id, schedule_id, revision, pool, due_at, body) VALUES (%s, %s, %s, %s, %s, %b)
ON CONFLICT DO NOTHING RETURNING revision
"""
_LOCK: Final = f"SELECT revision FROM schedules WHERE {_ID} FOR UPDATE"
_UPDATE: Final = f"UPDATE schedules SET revision = %s, pool = %s, due_at = %s, body = %b WHERE {_ID}"
_KEEP: Final = """
INSERT INTO schedule_contents (tenant_id, schedule_id, name, sha256, content)
SELECT %s, %s, * FROM unnest(%s::text[], %b::bytea[], %b::bytea[])
"""
_TICK: Final = """
INSERT INTO schedule_ticks (tenant_id, schedule_id, number, body)
SELECT %s, %s, * FROM unnest(%s::bigint[], %b::bytea[])
"""
_LIST: Final = (
    "SELECT body FROM schedules WHERE tenant_id = %s AND schedule_id > %s ORDER BY schedule_id LIMIT %s"
)
_DUE: Final = (
    "SELECT body FROM schedules WHERE due_at IS NOT NULL AND due_at <= %s "
    "AND (due_at, tenant_id, schedule_id) > (%s, %s, %s) AND pool = ANY(%s::text[]) "
    "ORDER BY due_at, tenant_id, schedule_id LIMIT %s"
)
_TICKS: Final = (
    f"SELECT body FROM schedule_ticks WHERE {_ID} AND (%s::bigint IS NULL OR number < %s) "
    "ORDER BY number DESC LIMIT %s"
)


class PostgresSchedules:
    """The part of `PostgresStore` for schedules."""

    _connections: Connections

    async def add_schedule(self, schedule: Schedule, contents: Mapping[str, bytes]) -> None:
        schedule_rows.check_schedule(schedule)
        texts.check_contents(contents)
        prepared = rules.contents_of(contents)
        async with self._connections.writing() as connection:
            row = (schedule.revision, schedule.definition.pool, schedule.due_at)
            body = schedule_rows.body_of(schedule)
            added = await connection.execute(_INSERT, [*_key(schedule), *row, body])
            if await added.fetchone() is None:
                raise ScheduleExists(schedule.schedule_id)
            await _keep(connection, schedule, prepared)

    async def find_schedule(self, tenant_id: str, schedule_id: str) -> Schedule:
        _askable(tenant_id, schedule_id)
        async with self._connections.lend() as connection:
            return await _find(connection, tenant_id, schedule_id)

    async def list_schedules(self, tenant_id: str, *, after: str = "", limit: int = 100) -> list[Schedule]:
        if not texts.could_be_kept(tenant_id, after):
            return []
        return await self._list(_LIST, [tenant_id, after, limit])

    async def schedule_contents(self, tenant_id: str, schedule_id: str) -> dict[str, bytes]:
        _askable(tenant_id, schedule_id)
        asked = f"SELECT name, sha256, content FROM schedule_contents WHERE {_ID}"
        async with self._connections.lend() as connection:
            await _find(connection, tenant_id, schedule_id)
            found = await connection.execute(asked.encode(), [tenant_id, schedule_id], binary=True)
            rows = await found.fetchall()
        return {name: schedule_rows.checked_content(schedule_id, name, *kept) for name, *kept in rows}

    async def change_schedule(
        self,
        schedule: Schedule,
        *,
        ticks: Sequence[Tick] = (),
        run: PreparedRun | None = None,
        contents: Mapping[str, bytes] | None = None,
    ) -> ChangedSchedule | None:
        schedule_rows.check_schedule(schedule)
        texts.check_contents(contents or ())
        prepared = rules.contents_of(contents) if contents is not None else None
        kept = log.checked_run(run.new, run.writes, run.contents, run.audit) if run is not None else ()
        connections = self._connections
        keys = [connections.key("run", run.new.identity.run_id)] if run is not None else []
        changed = None
        async with connections.writing(*keys) as connection:
            row = await (await connection.execute(_LOCK, list(_key(schedule)))).fetchone()
            if row is None or row[0] != schedule.revision:
                raise Rollback
            created = None
            if run is not None:
                created = await log.create_in(connections, connection, run.new, run.writes, kept, run.audit)
            changed = schedule_rows.changed(schedule, ticks, created)
            await _store(connection, changed.schedule, changed.ticks)
            if prepared is not None:
                await connection.execute(f"DELETE FROM schedule_contents WHERE {_ID}", list(_key(schedule)))
                await _keep(connection, schedule, prepared)
        return changed

    async def remove_schedule(self, tenant_id: str, schedule_id: str) -> None:
        _askable(tenant_id, schedule_id)
        async with self._connections.writing() as connection:
            removed = f"DELETE FROM schedules WHERE {_ID} RETURNING revision"
            found = await connection.execute(removed.encode(), [tenant_id, schedule_id])
            if await found.fetchone() is None:
                raise ScheduleNotFound(schedule_id)

    async def due_schedules(
        self, pools: Sequence[str], before: Timestamp, *, after: DueAfter | None = None, limit: int = 100
    ) -> list[Schedule]:
        passed = (after.due_at, after.tenant_id, after.schedule_id) if after is not None else ("", "", "")
        return await self._list(_DUE, [before, *passed, list(pools), limit])

    async def list_ticks(
        self, tenant_id: str, schedule_id: str, *, before: int | None = None, limit: int = 100
    ) -> list[Tick]:
        _askable(tenant_id, schedule_id)
        async with self._connections.lend() as connection:
            await _find(connection, tenant_id, schedule_id)
            asked = [tenant_id, schedule_id, before, before, limit]
            found = await connection.execute(_TICKS.encode(), asked, binary=True)
            return [schedule_rows.tick_of(body) for (body,) in await found.fetchall()]

    async def _list(self, query: str, asked: list[Any]) -> list[Schedule]:
        async with self._connections.lend() as connection:
            found = await connection.execute(query.encode(), asked, binary=True)
            return [schedule_rows.schedule_of(body) for (body,) in await found.fetchall()]


def _key(schedule: Schedule) -> tuple[str, str]:
    return schedule.tenant_id, schedule.schedule_id


def _askable(tenant_id: str, schedule_id: str) -> None:
    if not texts.could_be_kept(tenant_id, schedule_id):
        raise ScheduleNotFound(schedule_id)


async def _find(connection: Connection, tenant_id: str, schedule_id: str) -> Schedule:
    asked = f"SELECT body FROM schedules WHERE {_ID}"
    row = await (await connection.execute(asked.encode(), [tenant_id, schedule_id], binary=True)).fetchone()
    if row is None:
        raise ScheduleNotFound(schedule_id)
    return schedule_rows.schedule_of(row[0])


async def _store(connection: Connection, schedule: Schedule, ticks: Sequence[Tick]) -> None:
    row = (schedule.revision, schedule.definition.pool, schedule.due_at, schedule_rows.body_of(schedule))
    await connection.execute(_UPDATE, [*row, *_key(schedule)])
    if not ticks:
        return
    numbers, bodies = [tick.number for tick in ticks], [schedule_rows.body_of(tick) for tick in ticks]
    await connection.execute(_TICK, [*_key(schedule), numbers, bodies])
    old = f"DELETE FROM schedule_ticks WHERE {_ID} AND number <= %s"
    await connection.execute(old, [*_key(schedule), schedule.ticks - MAX_TICKS])


async def _keep(connection: Connection, schedule: Schedule, contents: Sequence[rules.Content]) -> None:
    names, digests = [one.name for one in contents], [one.sha256 for one in contents]
    await connection.execute(_KEEP, [*_key(schedule), names, digests, [one.content for one in contents]])
