"""The feed in SQL: `events.id` is the position.

There is one writer at a time, so events become visible in the order of their ids, and no id is used twice:
`prune` keeps the last event of the table (`keep_last_id`).
"""

from typing import Any, Final

import apsw

from podium.log.runs import Run
from podium.stores.sqlite.rows import RUN_COLUMNS, run_of

# Maximum number of events scanned for one batch.
MAX_EVENTS: Final = 500
# The run number of an event whose run was removed.
_NO_RUN: Final = 0


def end(db: apsw.Connection) -> int:
    return int(db.execute("SELECT coalesce(max(id), 0) FROM events").get)


def moved_runs(db: apsw.Connection, after: int) -> tuple[list[Run], int]:
    """The runs of the next events, in the order of their newest ones, and the position of the last event."""
    rows: list[Any] = db.execute(
        "SELECT run, max(id) FROM (SELECT run, id FROM events WHERE id > ? ORDER BY id LIMIT ?) GROUP BY run "
        "ORDER BY 2",
        (after, MAX_EVENTS),
    ).fetchall()
    sql = f"SELECT {RUN_COLUMNS} FROM runs r WHERE r.number = ?"
    found = (db.execute(sql, (number,)).fetchone() for number, _ in rows)
    return [run_of(row) for row in found if row is not None], rows[-1][1] if rows else after


def keep_last_id(db: apsw.Connection, run: int) -> None:
    """Called before the events of a run are removed: SQLite would otherwise reuse the ids of the last ones."""
    newest = db.execute("SELECT id, run FROM events ORDER BY id DESC LIMIT 1").fetchone()
    if newest is not None and newest[1] == run:
        db.execute("DELETE FROM events WHERE run = ?", (_NO_RUN,))
        db.execute(
            "UPDATE events SET run = ?, run_seq = id, key = randomblob(32), event_id = '', event_type = '', "
            "step_id = NULL, payload = x'' WHERE id = ?",
            (_NO_RUN, newest[0]),
        )


def save_position(db: apsw.Connection, reader: str, position: int) -> None:
    db.execute(
        "INSERT INTO feed_readers (reader, position) VALUES (?, ?) "
        "ON CONFLICT (reader) DO UPDATE SET position = excluded.position",
        (reader, position),
    )


def load_position(db: apsw.Connection, reader: str) -> str | None:
    row = db.execute("SELECT position FROM feed_readers WHERE reader = ?", (reader,)).fetchone()
    return str(row[0]) if row is not None else None
