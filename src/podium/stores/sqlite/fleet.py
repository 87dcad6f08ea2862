"""Queues and workers in SQL: waiting runs of pools, and which workers have been seen."""

from typing import Any, Final

import apsw
import msgspec

from podium.errors import RunNotFound
from podium.log.runs import NewRun, Run
from podium.log.times import moment, timestamp
from podium.log.workers import PoolLoad, QueuedRun, Worker, WorkerReport
from podium.stores import rules
from podium.stores.sqlite.moments import Moment
from podium.stores.sqlite.ownership import NOT_LIVE
from podium.stores.sqlite.rows import RUN_COLUMNS, run_of

_QUEUED: Final = (
    f"SELECT {RUN_COLUMNS} FROM runs r WHERE waiting AND r.pool = ? AND r.pool IS NOT NULL AND r.tenant_id = ? "
    "AND (-r.priority, r.number) > (?, ?) ORDER BY r.priority DESC, r.number LIMIT ?"
)
# The queue, and those of it that a signal has woken. Ended runs of the pool, which may be many, are not read.
_NOT_AFTER: Final = "waiting AND pool = ?1 AND tenant_id = ?2 AND (-priority, number) <= (?3, ?4)"
_BEFORE: Final = (
    f"SELECT (SELECT count(*) FROM runs INDEXED BY runs_queued_in_pool WHERE pool IS NOT NULL AND wake_at IS NULL "
    f"AND {_NOT_AFTER}) + (SELECT count(*) FROM runs INDEXED BY runs_parked WHERE wake_at = '{rules.WOKEN}' "
    f"AND status IN ('PENDING', 'APPROVED', 'RUNNING', 'PAUSED') AND {_NOT_AFTER})"
)
_PLACE: Final = "SELECT -priority, number FROM runs WHERE run_id = ? AND tenant_id = ?"
_OWN_PLACE: Final = "SELECT pool, tenant_id, -priority, number, waiting FROM runs WHERE run_id = ?"
_OPEN_OF_KEY: Final = (
    f"SELECT {RUN_COLUMNS} FROM runs r INDEXED BY runs_of_key WHERE r.tenant_id = ? AND r.concurrency_key = ? "
    "AND r.concurrency_limit IS NOT NULL AND r.status IN ('PENDING', 'APPROVED', 'RUNNING', 'PAUSED') "
    "ORDER BY r.number"
)
_READY: Final = "r.waiting AND (r.start_at IS NULL OR r.start_at <= ?)"
_FREE: Final = f"r.status IN ('RUNNING', 'PAUSED') AND {NOT_LIVE}"
_LOADS: Final = (
    f"SELECT pool, total({_READY}), total(waiting), total(status IN ('PENDING', 'APPROVED') AND NOT waiting), "
    "total(status IN ('RUNNING', 'PAUSED')), "
    f"total({_FREE} AND wake_at IS NOT NULL), total({_FREE} AND wake_at IS NULL), "
    f"min(CASE WHEN {_READY} THEN created_at END) "
    "FROM runs r INDEXED BY runs_open_in_pool WHERE tenant_id = ? AND pool IS NOT NULL "
    "AND status IN ('PENDING', 'APPROVED', 'RUNNING', 'PAUSED') GROUP BY pool ORDER BY pool"
)
_REPORT: Final = (
    "INSERT INTO workers (worker_id, seen_at, report) VALUES (?, ?, ?) ON CONFLICT (worker_id) "
    "DO UPDATE SET seen_at = excluded.seen_at, report = excluded.report RETURNING is_draining"
)


def queued(db: apsw.Connection, tenant_id: str, pool: str, after: str, limit: int) -> list[QueuedRun]:
    """Raises `RunNotFound` if `after` is not a run of the tenant."""
    place: Any = (-(2**62), 0)
    if after:
        place = db.execute(_PLACE, (after, tenant_id)).fetchone()
        if place is None:
            raise RunNotFound(after)
    before = db.execute(_BEFORE, (pool, tenant_id, *place)).get
    rows = db.execute(_QUEUED, (pool, tenant_id, *place, max(limit, 0)))
    return [QueuedRun(run=run_of(row), position=before + n) for n, row in enumerate(rows, start=1)]


def position(db: apsw.Connection, run_id: str) -> int | None:
    row: Any = db.execute(_OWN_PLACE, (run_id,)).fetchone()
    if row is None:
        raise RunNotFound(run_id)
    pool, tenant_id, priority, number, waits = row
    if pool is None or not waits:
        return None
    return int(db.execute(_BEFORE, (pool, tenant_id, priority, number)).get)


def open_of_key(db: apsw.Connection, tenant_id: str, key: str) -> list[Run]:
    return [run_of(row) for row in db.execute(_OPEN_OF_KEY, (tenant_id, key))]


def check_exclusive(db: apsw.Connection, new: NewRun) -> None:
    holders = open_of_key(db, new.identity.tenant_id, new.concurrency_key or "")
    if len(holders) >= (new.concurrency_limit or 0):
        raise rules.refused_by_key(new, holders)


def pool_loads(db: apsw.Connection, at: Moment, tenant_id: str) -> list[PoolLoad]:
    live = (at.boot, at.elapsed)
    rows: Any = db.execute(_LOADS, (at.text, *live, *live, at.text, tenant_id))
    return [load_of(*row) for row in rows]


def load_of(
    pool: str,
    ready: float,
    waiting: float,
    unapproved: float,
    started: float,
    parked: float,
    left: float,
    oldest_at: str | None,
) -> PoolLoad:
    """Computed from the sums for a pool."""
    return PoolLoad(
        pool=pool,
        waiting=int(ready),
        delayed=int(waiting - ready),
        unapproved=int(unapproved),
        running=int(started - parked - left),
        parked=int(parked),
        left=int(left),
        oldest_at=oldest_at,
    )


def report(db: apsw.Connection, at: Moment, worker: WorkerReport) -> bool:
    db.execute("DELETE FROM workers WHERE seen_at < ?", (timestamp(at.now - rules.FORGET_WORKER_AFTER),))
    encoded = msgspec.json.encode(worker)
    return bool(db.execute(_REPORT, (worker.worker_id, at.text, encoded)).get)


def workers(db: apsw.Connection, at: Moment) -> list[Worker]:
    rows: Any = db.execute("SELECT report, seen_at, is_draining FROM workers ORDER BY worker_id")
    return [
        Worker(
            report=msgspec.json.decode(encoded, type=WorkerReport),
            seen_at=seen_at,
            seen_seconds_ago=(at.now - moment(seen_at)).total_seconds(),
            is_draining=bool(is_draining),
        )
        for encoded, seen_at, is_draining in rows
    ]


def drain(db: apsw.Connection, worker_id: str) -> bool:
    db.execute("UPDATE workers SET is_draining = 1 WHERE worker_id = ?", (worker_id,))
    return db.changes() == 1


def remove(db: apsw.Connection, worker_id: str) -> None:
    db.execute("DELETE FROM workers WHERE worker_id = ?", (worker_id,))
