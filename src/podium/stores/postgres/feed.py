"""The feed: runs with new events, by the transactions that stored them.

Transactions end in a different order than they start, so a reader never skips one that is still open: the
cursor is the oldest transaction that was open at the time of the read (`pg_snapshot_xmin`). Events of later
transactions are nevertheless returned, and read again with the next batch.
"""

from typing import Final, NamedTuple

from podium.log.runs import Run
from podium.stores import texts
from podium.stores.feed import position_of
from podium.stores.postgres.connections import Connections
from podium.stores.postgres.rows import RUN, run_of

# Maximum number of events scanned for one batch, unless a single transaction has stored more.
_MAX_EVENTS: Final = 2000
_NO_END: Final = 2**63 - 1
_BOUNDS: Final = f"""
SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint,
       (SELECT tx FROM events WHERE tx >= %s ORDER BY tx OFFSET {_MAX_EVENTS} LIMIT 1)
  FROM pg_current_snapshot() s
"""
_MOVED: Final = f"""
SELECT {RUN} FROM runs r
  JOIN (SELECT run, max(tx) AS tx FROM events WHERE tx >= %s AND tx < %s GROUP BY run) moved ON moved.run = r.number
 ORDER BY moved.tx, r.number
"""


class Batch(NamedTuple):
    runs: list[Run]
    # Cursor of the next batch.
    after: int
    # There are more events than a batch holds.
    is_full: bool


async def bounds(connections: Connections) -> tuple[int, int]:
    """The oldest open transaction, and the first one that has not started."""
    oldest, next_one, _ = await _bounds(connections, _NO_END)
    return oldest, next_one


async def read(connections: Connections, after: int) -> Batch:
    oldest, _, edge = await _bounds(connections, after)
    until = _NO_END if edge is None else max(edge, after + 1)
    async with connections.lend() as connection:
        found = await connection.execute(_MOVED, [after, until], binary=True)
        runs = [run_of(row)[1] for row in await found.fetchall()]
    return Batch(runs, max(after, min(until, oldest)), is_full=edge is not None)


async def _bounds(connections: Connections, after: int) -> tuple[int, int, int | None]:
    async with connections.lend() as connection:
        row = await (await connection.execute(_BOUNDS, [after])).fetchone()
    assert row is not None
    oldest, next_one, edge = row
    return oldest, next_one, edge


class PostgresFeed:
    """The part of `PostgresStore` for the feed."""

    _connections: Connections

    async def save_position(self, reader: str, cursor: str) -> None:
        texts.check_name("reader", reader)
        position = position_of(cursor)
        async with self._connections.writing() as connection:
            await connection.execute(
                "INSERT INTO feed_readers (reader, position) VALUES (%s, %s) "
                "ON CONFLICT (reader) DO UPDATE SET position = excluded.position",
                [reader, position],
            )

    async def load_position(self, reader: str) -> str | None:
        if not texts.could_be_kept(reader):
            return None
        async with self._connections.lend() as connection:
            found = await connection.execute("SELECT position FROM feed_readers WHERE reader = %s", [reader])
            row = await found.fetchone()
        return str(row[0]) if row is not None else None
