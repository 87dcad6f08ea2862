"""Queues and workers: waiting runs of pools, and which workers have been seen."""

from typing import Final

import msgspec

from podium.errors import RunNotFound
from podium.log.ids import RunId
from podium.log.runs import NewRun, Run
from podium.log.workers import PoolLoad, QueuedRun, Worker, WorkerReport
from podium.stores import rules, texts
from podium.stores.postgres.connections import Connection, Connections
from podium.stores.postgres.leases import NOT_LIVE
from podium.stores.postgres.rows import NOW, RUN, as_text, askable, run_of

_WAITING: Final = "(r.status = 'APPROVED' OR (r.status = 'PENDING' AND NOT r.needs_approval))"
_LINE: Final = f"r.pool = %(pool)s AND r.pool IS NOT NULL AND r.tenant_id = %(tenant)s AND {_WAITING}"
_QUEUED: Final = f"""
SELECT {RUN} FROM runs r WHERE {_LINE} AND (-r.priority, r.number) > (%(priority)s, %(number)s)
 ORDER BY r.priority DESC, r.number LIMIT %(limit)s
"""
_BEFORE: Final = f"""
SELECT count(*) FROM runs r WHERE {_LINE} AND (-r.priority, r.number) <= (%(priority)s, %(number)s)
"""
_PLACE: Final = "SELECT -priority, number FROM runs WHERE run_id = %s AND tenant_id = %s"
_OWN_PLACE: Final = f"SELECT pool, tenant_id, -priority, number, {_WAITING} FROM runs r WHERE run_id = %s"
_OPEN_OF_KEY: Final = f"""
SELECT {RUN} FROM runs r WHERE r.tenant_id = %s AND r.concurrency_key = %s AND r.concurrency_limit IS NOT NULL
   AND r.status IN ('PENDING', 'APPROVED', 'RUNNING', 'PAUSED') ORDER BY r.number
"""
_READY: Final = f"{_WAITING} AND (r.start_at IS NULL OR r.start_at <= {NOW})"
_STARTED: Final = "r.status IN ('RUNNING', 'PAUSED')"
_LOADS: Final = f"""
SELECT pool,
       count(*) FILTER (WHERE {_READY}),
       count(*) FILTER (WHERE {_WAITING} AND r.start_at > {NOW}),
       count(*) FILTER (WHERE NOT {_WAITING} AND NOT {_STARTED}),
       count(*) FILTER (WHERE {_STARTED} AND NOT {NOT_LIVE}),
       count(*) FILTER (WHERE {_STARTED} AND {NOT_LIVE} AND r.wake_at IS NOT NULL),
       count(*) FILTER (WHERE {_STARTED} AND {NOT_LIVE} AND r.wake_at IS NULL),
       min(r.created_at) FILTER (WHERE {_READY})
  FROM runs r
 WHERE r.tenant_id = %s AND r.pool IS NOT NULL AND r.status IN ('PENDING', 'APPROVED', 'RUNNING', 'PAUSED')
 GROUP BY pool ORDER BY pool
"""
_FORGET: Final = f"DELETE FROM workers WHERE seen_at < {as_text('clock_timestamp() - %s::interval')}"
_REPORT: Final = f"""
INSERT INTO workers (worker_id, seen_at, report) VALUES (%s, {NOW}, %s)
ON CONFLICT (worker_id) DO UPDATE SET seen_at = excluded.seen_at, report = excluded.report
RETURNING is_draining
"""
_WORKERS: Final = """
SELECT report, seen_at, extract(epoch FROM clock_timestamp() - seen_at::timestamptz)::float8, is_draining
  FROM workers ORDER BY worker_id
"""


async def _place(connection: Connection, tenant_id: str, run_id: str) -> tuple[int, int]:
    row = await (await connection.execute(_PLACE, [run_id, tenant_id])).fetchone()
    if row is None:
        raise RunNotFound(run_id)
    return row[0], row[1]


async def _count(connection: Connection, asked: dict[str, object]) -> int:
    row = await (await connection.execute(_BEFORE.encode(), asked)).fetchone()
    assert row is not None
    return int(row[0])


async def _open_of_key(connection: Connection, tenant_id: str, key: str) -> list[Run]:
    found = await connection.execute(_OPEN_OF_KEY.encode(), [tenant_id, key], binary=True)
    return [run_of(row)[1] for row in await found.fetchall()]


async def check_exclusive(connection: Connection, new: NewRun) -> None:
    """Called under the lock of the tenant, when the run's own row already exists."""
    found = await _open_of_key(connection, new.identity.tenant_id, new.concurrency_key or "")
    holders = [one for one in found if one.identity.run_id != new.identity.run_id]
    if len(holders) >= (new.concurrency_limit or 0):
        raise rules.refused_by_key(new, holders)


class PostgresFleet:
    """The part of `PostgresStore` for queues and workers."""

    _connections: Connections

    async def queued(
        self, tenant_id: str, pool: str, *, after: str = "", limit: int = 100
    ) -> list[QueuedRun]:
        if not texts.could_be_kept(tenant_id, pool, after):
            return []
        async with self._connections.lend() as connection:
            priority, number = await _place(connection, tenant_id, after) if after else (-(2**31) + 1, 0)
            asked = {
                "tenant": tenant_id,
                "pool": pool,
                "priority": priority,
                "number": number,
                "limit": max(limit, 0),
            }
            before = await _count(connection, asked)
            rows = await (await connection.execute(_QUEUED.encode(), asked, binary=True)).fetchall()
        return [QueuedRun(run=run_of(row)[1], position=before + n) for n, row in enumerate(rows, start=1)]

    async def queue_position(self, run_id: RunId) -> int | None:
        askable(run_id)
        async with self._connections.lend() as connection:
            row = await (await connection.execute(_OWN_PLACE.encode(), [run_id])).fetchone()
            if row is None:
                raise RunNotFound(run_id)
            pool, tenant_id, priority, number, waits = row
            if pool is None or not waits:
                return None
            asked = {"pool": pool, "tenant": tenant_id, "priority": priority, "number": number}
            return await _count(connection, asked)

    async def open_of_key(self, tenant_id: str, concurrency_key: str) -> list[Run]:
        if not texts.could_be_kept(tenant_id, concurrency_key):
            return []
        async with self._connections.lend() as connection:
            return await _open_of_key(connection, tenant_id, concurrency_key)

    async def pool_loads(self, tenant_id: str) -> list[PoolLoad]:
        if not texts.could_be_kept(tenant_id):
            return []
        async with self._connections.lend() as connection:
            rows = await (await connection.execute(_LOADS.encode(), [tenant_id])).fetchall()
        names = ("pool", "waiting", "delayed", "unapproved", "running", "parked", "left", "oldest_at")
        return [PoolLoad(**dict(zip(names, row, strict=True))) for row in rows]

    async def report_worker(self, report: WorkerReport) -> bool:
        texts.check_worker(report)
        async with self._connections.writing() as connection:
            await connection.execute(_FORGET.encode(), [rules.FORGET_WORKER_AFTER])
            encoded = msgspec.json.encode(report)
            row = await (await connection.execute(_REPORT.encode(), [report.worker_id, encoded])).fetchone()
        return row is not None and row[0]

    async def workers(self) -> list[Worker]:
        async with self._connections.lend() as connection:
            rows = await (await connection.execute(_WORKERS)).fetchall()
        return [
            Worker(
                report=msgspec.json.decode(encoded, type=WorkerReport),
                seen_at=seen_at,
                seen_seconds_ago=ago,
                is_draining=is_draining,
            )
            for encoded, seen_at, ago, is_draining in rows
        ]

    async def drain_worker(self, worker_id: str) -> bool:
        if not texts.could_be_kept(worker_id):
            return False
        async with self._connections.writing() as connection:
            found = await connection.execute(
                "UPDATE workers SET is_draining = true WHERE worker_id = %s", [worker_id]
            )
        return found.rowcount == 1

    async def remove_worker(self, worker_id: str) -> None:
        if texts.could_be_kept(worker_id):
            async with self._connections.writing() as connection:
                await connection.execute("DELETE FROM workers WHERE worker_id = %s", [worker_id])
