"""Maintenance of the store: removing runs, counting, and reporting problems."""

from typing import Final

import psycopg
from psycopg import sql

from podium.errors import RunNotFound
from podium.log.ids import RunId
from podium.log.transitions import RUN_TRANSITIONS, TERMINAL, RunStatus, run_status_after
from podium.ports.store import StoreStats
from podium.stores import rules
from podium.stores.postgres import contents
from podium.stores.postgres.connections import Connection, Connections
from podium.stores.postgres.rows import RUN, askable, run_of

# All tables with rows of a run; its admission is kept.
_TABLES_OF_A_RUN: Final = (
    "events",
    "leases",
    "wake_ups",
    "summaries",
    "steps",
    "checkpoints",
    "labels",
    "outbox",
    "outbox_lines",
    "dead_letters",
    "kept_contents",
)

_TABLES: Final = "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r'"

_STATS: Final = """
SELECT count(*), count(*) FILTER (WHERE status <> ALL(%s)), (SELECT count(*) FROM events),
       (SELECT sum(pg_total_relation_size(oid)) FROM pg_class
         WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r')::bigint,
       (SELECT max(number) FROM migrations)
  FROM runs
"""

# Durability in a power failure depends on the server; each of these settings breaks it.
_SETTINGS: Final = """
SELECT name, setting FROM pg_settings
 WHERE (name IN ('fsync', 'full_page_writes') AND setting = 'off')
    OR (name = 'synchronous_commit' AND setting IN ('off', 'local'))
 ORDER BY name
"""

_ENDED: Final = ", ".join(f"'{status}'" for status in sorted(TERMINAL))
_DISAGREEMENTS: Final = f"""
SELECT format('run %L has head %s, and its log %s events up to %s', run_id, head, count, last)
  FROM runs JOIN LATERAL (SELECT count(*) AS count, coalesce(max(run_seq), 0) AS last FROM events
                           WHERE run = runs.number) log ON true
 WHERE head <> count OR head <> last
UNION ALL
SELECT format('run %L has ended and still has wake-ups', run_id)
  FROM runs WHERE status IN ({_ENDED}) AND EXISTS (SELECT FROM wake_ups WHERE run = runs.number)
UNION ALL
SELECT format('run %L is not the run of its request', run_id)
  FROM runs WHERE NOT EXISTS (SELECT FROM admissions a
                               WHERE (a.run, a.run_request_id) = (runs.number, runs.run_request_id))
UNION ALL
SELECT format('the line of run number %s to bus %L begins at %s, and its first event is %s', l.run, l.bus,
              coalesce(first_seq::text, 'nothing'), coalesce(first::text, 'nothing'))
  FROM outbox_lines l JOIN LATERAL (SELECT min(run_seq) AS first FROM outbox
                                     WHERE (run, bus) = (l.run, l.bus)) waiting ON true
 WHERE first_seq IS DISTINCT FROM first
UNION ALL
SELECT format('event %s of run number %s waits for bus %L and is not in a line, or not in the log',
              o.run_seq, o.run, o.bus)
  FROM outbox o
 WHERE NOT EXISTS (SELECT FROM events e WHERE (e.run, e.run_seq) = (o.run, o.run_seq))
    OR NOT EXISTS (SELECT FROM outbox_lines l WHERE (l.run, l.bus) = (o.run, o.bus))
    OR NOT EXISTS (SELECT FROM buses b WHERE b.bus = o.bus)
UNION ALL
SELECT format('run number %s keeps %L, and the content is not there', k.run, k.name)
  FROM kept_contents k WHERE NOT EXISTS (SELECT FROM contents c WHERE c.sha256 = k.sha256)
UNION ALL
SELECT format('content %s belongs to no run', encode(sha256, 'hex'))
  FROM contents c WHERE NOT EXISTS (SELECT FROM kept_contents k WHERE k.sha256 = c.sha256)
UNION ALL
SELECT format('content %s is damaged: its bytes have another SHA-256', encode(sha256, 'hex'))
  FROM contents c WHERE sha256(content) <> sha256
"""
_ORPHANS: Final = " UNION ALL ".join(
    f"SELECT '{table} has rows of run number ' || run || ', which does not exist' FROM {table} "
    "WHERE NOT EXISTS (SELECT FROM runs WHERE number = run) GROUP BY run"
    for table in _TABLES_OF_A_RUN
)
_STATUSES: Final = """
SELECT r.run_id, r.status, array_agg(e.event_type ORDER BY e.run_seq) FILTER (WHERE e.event_type IS NOT NULL)
  FROM runs r LEFT JOIN events e ON e.run = r.number AND e.event_type = ANY(%s)
 GROUP BY r.number
"""


async def _lines(connection: Connection, query: str) -> list[str]:
    found = await connection.execute(query.encode())
    return [line for (line,) in await found.fetchall()]


async def _wrong_statuses(connection: Connection) -> list[str]:
    """Runs whose status does not follow from their events."""
    wrong = []
    cursor = await connection.execute(_STATUSES, [sorted(RUN_TRANSITIONS)])
    async for run_id, status, events in cursor:
        folded = RunStatus.PENDING
        for event_type in events or ():
            folded = run_status_after(folded, event_type) or folded
        if folded != status:
            wrong.append(f"run {run_id!r} is {status}, and by its events {folded}")
    return wrong


class PostgresUpkeep:
    """The part of `PostgresStore` for maintenance."""

    _connections: Connections

    async def prune(self, run_id: RunId) -> None:
        askable(run_id)
        async with self._connections.writing(
            self._connections.key("run", run_id), patient=True
        ) as connection:
            locked = await connection.execute(
                f"SELECT {RUN} FROM runs r WHERE run_id = %s FOR UPDATE", [run_id], binary=True
            )
            found = await locked.fetchone()
            if found is None:
                raise RunNotFound(run_id)
            number, row = run_of(found)
            waiting = await connection.execute("SELECT EXISTS (SELECT FROM outbox WHERE run = %s)", [number])
            undelivered = await waiting.fetchone()
            rules.check_prunable(row, undelivered=undelivered is not None and undelivered[0])
            await contents.remove_all(connection, number)
            for table in _TABLES_OF_A_RUN:
                await connection.execute(f"DELETE FROM {table} WHERE run = %s".encode(), [number])
            await connection.execute("DELETE FROM runs WHERE number = %s", [number])

    async def store_id(self) -> str:
        async with self._connections.lend() as connection:
            row = await (await connection.execute("SELECT id FROM store_id")).fetchone()
        assert row is not None
        return str(row[0])

    async def stats(self) -> StoreStats:
        async with self._connections.transaction(patient=True) as connection:
            found = await connection.execute(_STATS, [sorted(TERMINAL), self._connections.schema])
            row = await found.fetchone()
        assert row is not None
        return StoreStats(*row)

    async def free_memory(self) -> None:
        """The server keeps it, not this process."""

    async def vacuum(self) -> None:
        """Make the space of removed rows usable again, table by table and while others write."""
        connection = await self._connections.connect()
        try:
            await connection.execute("SET statement_timeout = 0")
            found = await connection.execute(_TABLES, [self._connections.schema])
            for (table,) in await found.fetchall():
                await connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(sql.Identifier(table)))
        except psycopg.Error as error:
            raise self._connections.translate_error(error) from error
        finally:
            await connection.close()

    async def problems(self) -> list[str]:
        from podium.stores.postgres import audit

        async with self._connections.transaction(patient=True) as connection:
            # One snapshot of the database for all queries: concurrent writes are not reported as problems.
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            settings = await (await connection.execute(_SETTINGS)).fetchall()
            found = await _lines(connection, _DISAGREEMENTS)
            found += await _lines(connection, _ORPHANS)
            found += await _wrong_statuses(connection)
            found += await audit.problems(connection)
        unsafe = [
            f"{name} is {value}: acknowledged events may be lost; set it to on" for name, value in settings
        ]
        return unsafe + found
