"""Undelivered events of buses. A claim takes a line, which is all undelivered events of one run, and not
single events.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.outbox import ALL_EVENTS, BusFilter, DeadLetter, OutboxClaim, OutboxLine, may_have_messages
from podium.stores import rules, texts
from podium.stores.postgres.connections import Connection, Connections
from podium.stores.postgres.rows import EVENT, IDENTITY, NOW, as_text, identity_of, records_of

# The line first: its row is the lock under which rows are added and removed.
_NEW_EVENTS: Final = """
  FROM buses b CROSS JOIN unnest(%(seqs)b::bigint[], %(types)b::text[], %(have_messages)b::boolean[])
       AS e (run_seq, event_type, has_message)
 WHERE b.state <> 'removing' AND (b.plans = '{}' OR %(plan)s = ANY (b.plans))
   AND (b.tenants = '{}' OR %(tenant)s = ANY (b.tenants))
   AND (b.event_types = '{}' OR e.event_type = ANY (b.event_types)) AND (e.has_message OR NOT b.messages_only)
"""
_ADD_LINES: Final = f"""
INSERT INTO outbox_lines (bus, run, first_seq)
SELECT b.bus, %(run)s, min(e.run_seq) {_NEW_EVENTS} GROUP BY b.bus ORDER BY b.bus
ON CONFLICT (run, bus) DO UPDATE SET first_seq = least(outbox_lines.first_seq, excluded.first_seq)
"""
_ADD_ROWS: Final = f"INSERT INTO outbox (run, bus, run_seq) SELECT %(run)s, b.bus, e.run_seq {_NEW_EVENTS}"
# MATERIALIZED: chosen once. In some plans PostgreSQL would evaluate the choice again for every line it
# compares, skip those it has just updated, and so claim many lines for a caller that receives only one.
_CLAIM: Final = """
WITH chosen AS MATERIALIZED (
    SELECT run, bus FROM outbox_lines
     WHERE bus = %(bus)s AND first_seq IS NOT NULL
       AND EXISTS (SELECT FROM buses b WHERE b.bus = %(bus)s AND b.state = 'open')
       AND held_until <= clock_timestamp() AND not_before <= clock_timestamp()
     ORDER BY turn, number LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE outbox_lines line
   SET generation = generation + 1, owner = %(owner)s, held_until = clock_timestamp() + %(ttl)s,
       turn = clock_timestamp()
  FROM chosen
 WHERE (line.run, line.bus) = (chosen.run, chosen.bus)
RETURNING line.run, line.generation, line.failures
"""
_WAITING: Final = f"""
SELECT {EVENT} FROM outbox o JOIN events e ON (e.run, e.run_seq) = (o.run, o.run_seq)
 WHERE (o.run, o.bus) = (%s, %s) ORDER BY o.run_seq LIMIT %s
"""
_HELD: Final = """
SELECT run, first_seq, failures FROM outbox_lines
 WHERE (run, bus) = ((SELECT number FROM runs WHERE run_id = %s), %s) AND generation = %s FOR UPDATE
"""
_KEPT_RUN: Final = "SELECT number FROM runs WHERE run_id = %s FOR KEY SHARE"
# After rows were removed or restored, under the lock of the line.
_SET_FIRST: Final = """
UPDATE outbox_lines SET first_seq = (SELECT min(run_seq) FROM outbox WHERE (run, bus) = (%(run)s, %(bus)s))
 WHERE (run, bus) = (%(run)s, %(bus)s)
"""
_FILLED: Final = (
    "SELECT filled_run, filled_seq FROM buses WHERE bus = %s AND state = 'filling' FOR NO KEY UPDATE"
)
# The events of a run have no gaps, so the first and the last of the next ones are sufficient.
_EVENTS_FROM: Final = """
SELECT run, min(run_seq), max(run_seq)
  FROM (SELECT run, run_seq FROM events WHERE (run, run_seq) > (%s, %s) ORDER BY run, run_seq LIMIT %s) next
 GROUP BY run ORDER BY run
"""
_OLDER_EVENTS: Final = """
  FROM unnest(%(runs)s::bigint[], %(first)s::bigint[], %(last)s::bigint[]) AS part (run, first, last)
  JOIN events e ON e.run = part.run AND e.run_seq BETWEEN part.first AND part.last
  JOIN runs r ON r.number = part.run
  JOIN buses b ON b.bus = %(bus)s
 WHERE (b.plans = '{}' OR r.plan_id = ANY (b.plans)) AND (b.tenants = '{}' OR r.tenant_id = ANY (b.tenants))
   AND (b.event_types = '{}' OR e.event_type = ANY (b.event_types))
   AND (NOT b.messages_only OR (e.event_type = 'StepCompleted' AND position('"publishes"'::bytea IN e.payload) > 0))
"""
_FILL_LINES: Final = f"""
INSERT INTO outbox_lines (bus, run, first_seq)
SELECT %(bus)s, e.run, min(e.run_seq) {_OLDER_EVENTS} GROUP BY e.run ORDER BY e.run
ON CONFLICT (run, bus) DO UPDATE SET first_seq = least(outbox_lines.first_seq, excluded.first_seq)
"""
# Events that were appended since the bus was added are there already.
_FILL_ROWS: Final = f"""
INSERT INTO outbox (run, bus, run_seq) SELECT e.run, %(bus)s, e.run_seq {_OLDER_EVENTS} ON CONFLICT DO NOTHING
"""
_REMOVED: Final = "SELECT bus FROM buses WHERE bus = %(bus)s AND state = 'removing' FOR NO KEY UPDATE"
# Under their locks, as in a delivery that removes rows.
_LINES_WITH_WORK: Final = """
SELECT run FROM outbox_lines WHERE bus = %(bus)s AND first_seq IS NOT NULL
 ORDER BY turn, number LIMIT %(most)s FOR UPDATE
"""
_REMOVE_WAITING: Final = """
DELETE FROM outbox o
 USING (SELECT run, run_seq FROM outbox WHERE bus = %(bus)s AND run = ANY(%(runs)s)
         ORDER BY run, run_seq LIMIT %(most)s) part
 WHERE (o.run, o.bus, o.run_seq) = (part.run, %(bus)s, part.run_seq)
"""
_SET_FIRST_OF_LINES: Final = """
UPDATE outbox_lines l SET first_seq = (SELECT min(run_seq) FROM outbox o WHERE (o.run, o.bus) = (l.run, l.bus))
 WHERE bus = %(bus)s AND run = ANY(%(runs)s)
"""


async def add(connection: Connection, run: int, stored: Sequence[EventRecord]) -> None:
    """New events are added for every bus that wants them, in the transaction that stores them."""
    if not stored:
        return
    given = {
        "run": run,
        "plan": stored[0].run.plan_id,
        "tenant": stored[0].run.tenant_id,
        "seqs": [record.run_seq for record in stored],
        "types": [record.event_type for record in stored],
        "have_messages": [may_have_messages(record.event_type, record.payload) for record in stored],
    }
    await connection.execute(_ADD_LINES, given)
    await connection.execute(_ADD_ROWS, given)


async def _added(
    connections: Connections, bus: str, first: rules.BusState, only: BusFilter | None
) -> str | None:
    """The resulting state of the bus, which may have existed before."""
    async with connections.transaction(patient=True) as connection:
        await _exclude_writers(connections, connection)
        wanted = only or ALL_EVENTS
        await connection.execute(
            "INSERT INTO buses (bus, state, event_types, plans, tenants, messages_only) "
            "VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            [
                *(bus, first, list(wanted.event_types), list(wanted.plans), list(wanted.tenants)),
                wanted.messages_only,
            ],
        )
        state = await _state_of(connection, bus)
        if state != rules.BusState.REMOVING:
            rules.check_filter(bus, only, await _filter_of(connection, bus))
        return state


async def _filter_of(connection: Connection, bus: str) -> BusFilter:
    asked = "SELECT event_types, plans, tenants, messages_only FROM buses WHERE bus = %s"
    row = await (await connection.execute(asked, [bus])).fetchone()
    assert row is not None
    types, plans, tenants, messages_only = row
    return BusFilter(
        event_types=tuple(types), plans=tuple(plans), tenants=tuple(tenants), messages_only=messages_only
    )


async def _state_of(connection: Connection, bus: str) -> str | None:
    row = await (await connection.execute("SELECT state FROM buses WHERE bus = %s", [bus])).fetchone()
    return row[0] if row is not None else None


async def fill_some(connections: Connections, bus: str) -> bool:
    """Put the next older events into the lines of a bus; False when it has all of them."""
    async with connections.writing(patient=True) as connection:
        filled = await (await connection.execute(_FILLED, [bus])).fetchone()
        if filled is None:
            return False
        found = await connection.execute(_EVENTS_FROM, [*filled, rules.BUS_BATCH_SIZE])
        runs = await found.fetchall()
        if not runs:
            await connection.execute("UPDATE buses SET state = 'open' WHERE bus = %s", [bus])
            return False
        # Locked against pruning; removed ones are skipped.
        kept = await connection.execute(
            "SELECT number FROM runs WHERE number = ANY(%s) ORDER BY number FOR KEY SHARE",
            [[run for run, _, _ in runs]],
        )
        there = {run for (run,) in await kept.fetchall()}
        parts = list(zip(*[part for part in runs if part[0] in there], strict=True)) or [(), (), ()]
        asked = {"bus": bus, "runs": list(parts[0]), "first": list(parts[1]), "last": list(parts[2])}
        await connection.execute(_FILL_LINES, asked)
        await connection.execute(_FILL_ROWS, asked)
        last_run, _, last_seq = runs[-1]
        await connection.execute(
            "UPDATE buses SET filled_run = %s, filled_seq = %s WHERE bus = %s", [last_run, last_seq, bus]
        )
    return True


async def _remove_rows(connections: Connections, bus: str) -> None:
    while await remove_some(connections, bus):
        pass
    async with connections.transaction(patient=True) as connection:
        await _exclude_writers(connections, connection)
        if await _state_of(connection, bus) == rules.BusState.REMOVING:
            # Also removes what was restored concurrently.
            for table in ("outbox", "outbox_lines", "dead_letters", "buses"):
                await connection.execute(f"DELETE FROM {table} WHERE bus = %s".encode(), [bus])


async def remove_some(connections: Connections, bus: str) -> bool:
    """Delete some of the rows of a bus that is being removed; False when there are none."""
    some = {"bus": bus, "most": rules.BUS_BATCH_SIZE}
    async with connections.writing(patient=True) as connection:
        if await (await connection.execute(_REMOVED, some)).fetchone() is None:
            return False
        found = await connection.execute(_LINES_WITH_WORK, some)
        runs = [run for (run,) in await found.fetchall()]
        if runs:
            await connection.execute(_REMOVE_WAITING, {**some, "runs": runs})
            await connection.execute(_SET_FIRST_OF_LINES, {**some, "runs": runs})
            return True
        for table, condition in (("dead_letters", "true"), ("outbox_lines", "first_seq IS NULL")):
            remove = (
                f"DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} "
                f"WHERE bus = %(bus)s AND {condition} LIMIT %(most)s))"
            )
            if (await connection.execute(remove.encode(), some)).rowcount:
                return True
    return False


async def _exclude_writers(connections: Connections, connection: Connection) -> None:
    """Wait for all appends that may have read a list of buses other than the one for which the log is
    scanned.
    """
    await connection.execute("SELECT pg_advisory_xact_lock(%s)", [connections.key("store")])
    begin = "SELECT begin_writing(%s, %s, '{}')"
    await connection.execute(begin, [connections.schema_version, connections.key("store")])


async def _bury(connection: Connection, where: dict[str, object]) -> None:
    await connection.execute(
        "INSERT INTO dead_letters (bus, run, run_seq, event_type, failures, error, died_at) "
        f"SELECT %(bus)s, run, run_seq, event_type, %(failures)s, %(error)s, {NOW} FROM events "
        "WHERE (run, run_seq) = (%(run)s, %(seq)s)",
        where,
    )
    await connection.execute(
        "DELETE FROM outbox WHERE (run, bus, run_seq) = (%(run)s, %(bus)s, %(seq)s)", where
    )
    await connection.execute(_SET_FIRST, where)
    await connection.execute(
        "UPDATE outbox_lines SET held_until = '-infinity', failures = 0, error = '' "
        "WHERE (run, bus) = (%(run)s, %(bus)s)",
        where,
    )


async def _exhume(connection: Connection, bus: str, run_id: str, run_seq: int) -> int | None:
    # Prevents pruning of the run: what is restored into its line must not outlive it.
    found = await (await connection.execute(_KEPT_RUN, [run_id])).fetchone()
    if found is None:
        return None
    dropped = await connection.execute(
        "DELETE FROM dead_letters WHERE (bus, run, run_seq) = (%s, %s, %s) RETURNING run",
        [bus, found[0], run_seq],
    )
    row = await dropped.fetchone()
    return row[0] if row is not None else None


class PostgresOutbox:
    """The part of `PostgresStore` for the outbox."""

    _connections: Connections

    async def add_bus(self, bus: str, *, from_start: bool = False, only: BusFilter | None = None) -> None:
        texts.check_name("bus", bus)
        first = rules.BusState.FILLING if from_start else rules.BusState.OPEN
        while (state := await _added(self._connections, bus, first, only)) == rules.BusState.REMOVING:
            await _remove_rows(self._connections, bus)
        while state == rules.BusState.FILLING and await fill_some(self._connections, bus):
            pass

    async def remove_bus(self, bus: str) -> None:
        if not texts.could_be_kept(bus):
            return
        async with self._connections.transaction(patient=True) as connection:
            await _exclude_writers(self._connections, connection)
            await connection.execute("UPDATE buses SET state = 'removing' WHERE bus = %s", [bus])
        await _remove_rows(self._connections, bus)

    async def claim_line(
        self, bus: str, *, owner: str, ttl: timedelta, limit: int = 100
    ) -> OutboxClaim | None:
        texts.check_holder(owner)
        if not texts.could_be_kept(bus):
            return None
        async with self._connections.writing() as connection:
            claimed = await connection.execute(_CLAIM, {"bus": bus, "owner": owner, "ttl": ttl})
            line = await claimed.fetchone()
            if line is None:
                return None
            run, generation, failures = line
            named = await connection.execute(f"SELECT {IDENTITY} FROM runs r WHERE number = %s", [run])
            waiting = await connection.execute(_WAITING, [run, bus, limit], binary=True)
            identity = await named.fetchone()
            assert identity is not None
            records = records_of(identity_of(identity), await waiting.fetchall())
        return OutboxClaim(
            bus=bus, run_id=identity[0], generation=generation, failures=failures, records=tuple(records)
        )

    async def delivered(self, claim: OutboxClaim, through_seq: int) -> bool:
        async with self._connections.writing() as connection:
            held = await connection.execute(_HELD, [claim.run_id, claim.bus, claim.generation])
            line = await held.fetchone()
            if line is None:
                return False
            where = {"run": line[0], "bus": claim.bus, "seq": through_seq}
            await connection.execute(
                "DELETE FROM outbox WHERE (run, bus) = (%(run)s, %(bus)s) AND run_seq <= %(seq)s", where
            )
            await connection.execute(_SET_FIRST, where)
            await connection.execute(
                "UPDATE outbox_lines SET held_until = '-infinity', failures = 0, error = '' "
                "WHERE (run, bus) = (%(run)s, %(bus)s)",
                where,
            )
        return True

    async def failed(self, claim: OutboxClaim, error: str, *, retry_in: timedelta | None) -> bool:
        error = texts.readable(error)
        async with self._connections.writing() as connection:
            held = await connection.execute(_HELD, [claim.run_id, claim.bus, claim.generation])
            line = await held.fetchone()
            if line is None or line[1] is None:
                return False
            run, first_seq, failures = line
            where = {"run": run, "bus": claim.bus, "seq": first_seq, "error": error, "failures": failures + 1}
            if retry_in is not None:
                await connection.execute(
                    "UPDATE outbox_lines SET held_until = '-infinity', failures = %(failures)s, error = %(error)s, "
                    "not_before = clock_timestamp() + %(retry_in)s WHERE (run, bus) = (%(run)s, %(bus)s)",
                    {**where, "retry_in": retry_in},
                )
            else:
                await _bury(connection, where)
        return True

    async def has_waiting(self, bus: str) -> bool:
        if not texts.could_be_kept(bus):
            return False
        async with self._connections.lend() as connection:
            found = await connection.execute(
                "SELECT EXISTS (SELECT FROM outbox_lines WHERE bus = %s AND first_seq IS NOT NULL)", [bus]
            )
            row = await found.fetchone()
        return row is not None and bool(row[0])

    async def outbox_lines(self, bus: str | None = None) -> list[OutboxLine]:
        if not texts.could_be_kept(bus):
            return []
        next_at = f"CASE WHEN l.not_before > clock_timestamp() THEN {as_text('l.not_before')} END"
        async with self._connections.lend() as connection:
            found = await connection.execute(
                f"SELECT l.bus, r.run_id, count(*), min(o.run_seq), l.failures, {next_at}, l.error "
                "FROM outbox_lines l JOIN runs r ON r.number = l.run JOIN outbox o ON (o.run, o.bus) = (l.run, l.bus) "
                "WHERE l.first_seq IS NOT NULL AND (%(bus)s::text IS NULL OR l.bus = %(bus)s) "
                "GROUP BY l.run, l.bus, r.run_id ORDER BY l.bus, r.run_id",
                {"bus": bus},
            )
            rows = await found.fetchall()
        return [
            OutboxLine(
                bus=name,
                run_id=run_id,
                waiting=waiting,
                first_seq=first,
                failures=failures,
                next_at=at,
                error=error,
            )
            for name, run_id, waiting, first, failures, at, error in rows
        ]

    async def dead_letters(self, bus: str | None = None) -> list[DeadLetter]:
        if not texts.could_be_kept(bus):
            return []
        async with self._connections.lend() as connection:
            found = await connection.execute(
                "SELECT d.bus, r.run_id, d.run_seq, d.event_type, d.failures, d.error, d.died_at "
                "FROM dead_letters d JOIN runs r ON r.number = d.run "
                "WHERE %(bus)s::text IS NULL OR d.bus = %(bus)s ORDER BY d.bus, r.run_id, d.run_seq",
                {"bus": bus},
            )
            rows = await found.fetchall()
        return [
            DeadLetter(
                bus=name,
                run_id=run_id,
                run_seq=seq,
                event_type=kind,
                failures=failures,
                error=error,
                died_at=died_at,
            )
            for name, run_id, seq, kind, failures, error, died_at in rows
        ]

    async def retry_dead(self, bus: str, run_id: RunId, run_seq: int) -> bool:
        if not texts.could_be_kept(bus, run_id):
            return False
        async with self._connections.writing() as connection:
            run = await _exhume(connection, bus, run_id, run_seq)
            if run is None:
                return False
            where = {"run": run, "bus": bus, "seq": run_seq}
            await connection.execute(
                "INSERT INTO outbox_lines (bus, run, first_seq) VALUES (%(bus)s, %(run)s, %(seq)s) "
                "ON CONFLICT (run, bus) DO UPDATE SET first_seq = least(outbox_lines.first_seq, excluded.first_seq)",
                where,
            )
            await connection.execute(
                "INSERT INTO outbox (run, bus, run_seq) VALUES (%(run)s, %(bus)s, %(seq)s)", where
            )
        return True

    async def drop_dead(self, bus: str, run_id: RunId, run_seq: int) -> bool:
        if not texts.could_be_kept(bus, run_id):
            return False
        async with self._connections.writing() as connection:
            return await _exhume(connection, bus, run_id, run_seq) is not None
