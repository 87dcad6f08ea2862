"""Maintenance of the file: removing runs, counting, checking, copying."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw

from podium.errors import StoreUnavailable
from podium.log.transitions import RUN_TRANSITIONS, RunStatus, run_status_after
from podium.ports.store import StoreStats
from podium.stores import rules
from podium.stores.sqlite import audit, contents, feed, log
from podium.stores.sqlite.connection import Database
from podium.stores.sqlite.moments import Moment

# Rows deleted in one transaction: a few milliseconds, so that others can write in between.
_BATCH_SIZE: Final = 2000

_BURY: Final = (
    "INSERT INTO pruned (tenant_id, project_id, environment_id, plan_id, plan_version, run_request_id, run_id, "
    "plan_sha256, inputs_sha256, pruned_at) SELECT tenant_id, project_id, environment_id, plan_id, plan_version, "
    "run_request_id, run_id, plan_sha256, inputs_sha256, ? FROM runs WHERE number = ?"
)
_LINES: Final = "(SELECT number FROM lines WHERE run = ?)"


def remove(db: apsw.Connection, at: Moment, run_id: str) -> None:
    """Make a run invisible for good, leaving a tombstone; its events and steps are deleted in small batches."""
    number = log.number_of(db, run_id)
    undelivered = db.execute(
        "SELECT EXISTS (SELECT 1 FROM lines WHERE run = ? AND waiting > 0)", (number,)
    ).get
    rules.check_prunable(log.get_run(db, run_id), undelivered=bool(undelivered))
    db.execute(_BURY, (at.text, number))
    feed.keep_last_id(db, number)
    db.execute("INSERT INTO removals (run) VALUES (?)", (number,))
    db.execute(f"DELETE FROM dead WHERE line IN {_LINES}", (number,))
    for table in ("lines", "wake_ups", "leases", "summaries", "checkpoints", "labels"):
        db.execute(f"DELETE FROM {table} WHERE run = ?", (number,))
    db.execute("DELETE FROM runs WHERE number = ?", (number,))


def remove_some(db: apsw.Connection) -> bool:
    """Delete some rows of removed runs; False when none are left."""
    found = db.execute("SELECT run FROM removals LIMIT 1").fetchone()
    if found is None:
        return False
    run = found[0]
    db.execute(
        "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE run = ? LIMIT ?)", (run, _BATCH_SIZE)
    )
    if db.changes():
        return True
    db.execute(
        "DELETE FROM steps WHERE run = ?1 AND step_id IN (SELECT step_id FROM steps WHERE run = ?1 LIMIT ?2)",
        (run, _BATCH_SIZE),
    )
    if not db.changes() and not contents.remove_some(db, run):
        db.execute("DELETE FROM removals WHERE run = ?", (run,))
    return True


def stats(db: apsw.Connection) -> StoreStats:
    runs, open_runs, events = db.execute(
        "SELECT count(*), count(*) FILTER (WHERE status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')), "
        "coalesce(sum(head), 0) FROM runs"
    ).get
    return StoreStats(
        runs=runs,
        open_runs=open_runs,
        events=events,
        bytes_used=db.pragma("page_count") * db.pragma("page_size"),
        schema_version=db.pragma("user_version"),
    )


# --- checking -------------------------------------------------------------------------------------

_ORPHANS: Final = (
    ("events", "run <> 0 AND run NOT IN (SELECT number FROM runs) AND run NOT IN (SELECT run FROM removals)"),
    ("steps", "run NOT IN (SELECT number FROM runs) AND run NOT IN (SELECT run FROM removals)"),
    ("kept_contents", "run NOT IN (SELECT number FROM runs) AND run NOT IN (SELECT run FROM removals)"),
    ("labels", "run NOT IN (SELECT number FROM runs)"),
    ("contents", "number NOT IN (SELECT content FROM kept_contents)"),
    (
        "outbox",
        (
            "NOT EXISTS (SELECT 1 FROM lines l JOIN events e ON e.run = l.run AND e.run_seq = outbox.run_seq "
            "WHERE l.number = outbox.line)"
        ),
    ),
)


def problems(db: apsw.Connection) -> Iterator[str]:
    """Everything that is wrong, in words. The caller opens a transaction, so that all checks see the same
    snapshot.
    """
    for (line,) in db.execute("PRAGMA integrity_check"):
        if line != "ok":
            yield f"the file is damaged: {line}"
    for table, rowid, parent, _ in db.execute("PRAGMA foreign_key_check"):
        yield f"row {rowid} of {table} refers to a row of {parent} that is not there"
    for table, condition in _ORPHANS:
        count = db.execute(f"SELECT count(*) FROM {table} WHERE {condition}").get
        if count:
            yield f"{count} rows of {table} belong to nothing"
    heads = db.execute(
        "SELECT r.run_id, r.head, count(e.id), coalesce(max(e.run_seq), 0) FROM runs r "
        "LEFT JOIN events e ON e.run = r.number GROUP BY r.number HAVING r.head <> count(e.id) "
        "OR r.head <> coalesce(max(e.run_seq), 0)"
    )
    for run_id, head, count, highest in heads:
        yield f"run {run_id!r} should have {head} events; it has {count}, the last being {highest}"
    yield from _wrong_statuses(db)
    yield from contents.damaged(db)
    yield from audit.problems(db)
    lines = db.execute(
        "SELECT b.bus, l.run, l.waiting, count(o.run_seq) FROM lines l JOIN buses b ON b.number = l.bus "
        "LEFT JOIN outbox o ON o.line = l.number GROUP BY l.number HAVING l.waiting <> count(o.run_seq)"
    )
    for bus, run, waiting, count in lines:
        yield f"the line of run number {run} to {bus!r} should have {waiting} events; it has {count}"


def _wrong_statuses(db: apsw.Connection) -> Iterator[str]:
    statuses: dict[Any, RunStatus] = {}
    moves = ", ".join(f"'{event_type}'" for event_type in RUN_TRANSITIONS)
    rows = db.execute(
        f"SELECT run, event_type FROM events WHERE event_type IN ({moves}) ORDER BY run, run_seq"
    )
    for run, event_type in rows:
        before = statuses.get(run, RunStatus.PENDING)
        statuses[run] = run_status_after(before, event_type) or before
    for number, run_id, status in db.execute("SELECT number, run_id, status FROM runs"):
        folded = statuses.get(number, RunStatus.PENDING)
        if status != folded:
            yield f"run {run_id!r} is {status}, but its events say {folded}"


def all_problems(database: Database) -> list[str]:
    db = database.connect()
    try:
        db.execute("BEGIN")
        return list(problems(db))
    except apsw.CorruptError as error:
        return [f"the file is damaged: {error}"]
    finally:
        db.close()


def backup(database: Database, target: Path) -> None:
    """Copy a snapshot of the database while others keep writing."""
    if target.exists():
        raise StoreUnavailable(f"{target} exists; choose another name for the backup")
    part = target.with_name(target.name + ".part")
    part.unlink(missing_ok=True)
    source, copy = database.connect(), apsw.Connection(str(part))
    try:
        with copy.backup("main", source, "main") as copying:
            # All pages in one step: with several steps, every commit of another process would restart the
            # copy.
            copying.step(-1)
        # The drivers and relays of the store do not work on the copy, so leases and claims are released.
        # Generations are kept.
        copy.execute("UPDATE leases SET owner = '', expires = 0 WHERE owner <> ''")
        copy.execute("UPDATE lines SET owner = '', held_until = NULL WHERE owner <> ''")
    finally:
        copy.close()
        source.close()
    part.rename(target)
