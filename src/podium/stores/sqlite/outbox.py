"""The outbox in SQL: a line of undelivered events for each run and bus."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import apsw

from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.outbox import (
    ALL_EVENTS,
    BusFilter,
    DeadLetter,
    OutboxClaim,
    OutboxLine,
    decode_filter,
    encode_filter,
)
from podium.stores import rules
from podium.stores.sqlite.moments import Moment
from podium.stores.sqlite.rows import EVENT_COLUMNS, IDENTITY, identity_of, records_of

_ADD_TO_LINE: Final = (
    "INSERT INTO lines (bus, run, waiting) VALUES (?, ?, ?) "
    "ON CONFLICT (bus, run) DO UPDATE SET waiting = waiting + excluded.waiting RETURNING number"
)
_FREE_LINE: Final = (
    "SELECT l.number, l.run, l.generation, l.failures FROM buses b CROSS JOIN lines l ON l.bus = b.number "
    "WHERE b.bus = ? AND b.state = 'open' AND l.waiting > 0 AND (l.boot <> ? OR "
    "(coalesce(l.held_until <= ?, true) AND coalesce(l.not_before <= ?, true))) ORDER BY l.turn, l.number LIMIT 1"
)
# Some events of removed runs may still exist.
_EVENTS_FROM: Final = (
    "SELECT e.run, e.run_seq, r.tenant_id, r.plan_id, e.event_type, e.payload "
    "FROM events e LEFT JOIN runs r ON r.number = e.run "
    "WHERE (e.run, e.run_seq) > (?, ?) ORDER BY e.run, e.run_seq LIMIT ?"
)
_REMOVE_WAITING: Final = (
    "DELETE FROM outbox WHERE (line, run_seq) IN (SELECT o.line, o.run_seq FROM lines l "
    "CROSS JOIN outbox o ON o.line = l.number WHERE l.bus = ? AND l.waiting > 0 LIMIT ?) RETURNING line"
)
_REMOVE_DEAD: Final = (
    "DELETE FROM dead WHERE (line, run_seq) IN (SELECT d.line, d.run_seq FROM dead d "
    "JOIN lines l ON l.number = d.line WHERE l.bus = ? LIMIT ?)"
)
_REMOVE_LINES: Final = "DELETE FROM lines WHERE number IN (SELECT number FROM lines WHERE bus = ? LIMIT ?)"
_HOLD: Final = (
    "UPDATE lines SET generation = generation + 1, owner = ?, boot = ?, held_until = ?, not_before = NULL, "
    "turn = 1 + (SELECT max(turn) FROM lines other WHERE other.bus = lines.bus) WHERE number = ?"
)
_HELD: Final = (
    "SELECT l.number, l.run, l.waiting, l.failures FROM lines l JOIN buses b ON b.number = l.bus "
    "JOIN runs r ON r.number = l.run WHERE b.bus = ? AND r.run_id = ? AND l.generation = ?"
)
_FIRST_OF_LINE: Final = (
    f"SELECT {EVENT_COLUMNS} FROM outbox o JOIN events e ON e.run = ? AND e.run_seq = o.run_seq "
    "WHERE o.line = ? ORDER BY o.run_seq LIMIT ?"
)
_HAS_WAITING: Final = (
    "SELECT EXISTS (SELECT 1 FROM buses b CROSS JOIN lines l ON l.bus = b.number "
    "WHERE b.bus = ? AND l.waiting > 0)"
)
_LINES: Final = (
    "SELECT b.bus, r.run_id, l.waiting, (SELECT min(run_seq) FROM outbox o WHERE o.line = l.number), l.failures, "
    "CASE WHEN l.boot = ? AND l.not_before > ? THEN l.not_before END, l.error "
    "FROM lines l JOIN buses b ON b.number = l.bus JOIN runs r ON r.number = l.run "
    "WHERE l.waiting > 0 AND (? IS NULL OR b.bus = ?) ORDER BY b.bus, r.run_id"
)
_DEAD: Final = (
    "SELECT b.bus, r.run_id, d.run_seq, d.event_type, d.failures, d.error, d.died_at FROM dead d "
    "JOIN lines l ON l.number = d.line JOIN buses b ON b.number = l.bus JOIN runs r ON r.number = l.run "
    "WHERE ? IS NULL OR b.bus = ? ORDER BY b.bus, r.run_id, d.run_seq"
)
_TAKE_DEAD: Final = (
    "DELETE FROM dead WHERE run_seq = ? AND line = (SELECT l.number FROM lines l JOIN buses b ON b.number = l.bus "
    "JOIN runs r ON r.number = l.run WHERE b.bus = ? AND r.run_id = ?) RETURNING line"
)


def add_bus(db: apsw.Connection, bus: str, first_state: rules.BusState, only: BusFilter | None) -> str:
    """The resulting state of the bus, which may have existed before."""
    db.execute(
        "INSERT INTO buses (bus, state, wanted) VALUES (?, ?, ?) ON CONFLICT (bus) DO NOTHING",
        (bus, first_state.value, encode_filter(only or ALL_EVENTS)),
    )
    state, wanted = db.execute("SELECT state, wanted FROM buses WHERE bus = ?", (bus,)).fetchall()[0]
    if state != rules.BusState.REMOVING:
        rules.check_filter(bus, only, decode_filter(wanted))
    return str(state)


def fill_some(db: apsw.Connection, bus: str) -> bool:
    """Put the next older events into the lines of a bus; False when it has all of them."""
    filling = "SELECT number, wanted, filled_run, filled_seq FROM buses WHERE bus = ? AND state = 'filling'"
    row = db.execute(filling, (bus,)).fetchone()
    if row is None:
        return False
    number, wanted, *filled = row
    wants = decode_filter(wanted).wants
    found: Any = db.execute(_EVENTS_FROM, (*filled, rules.BUS_BATCH_SIZE)).fetchall()
    if not found:
        db.execute("UPDATE buses SET state = 'open' WHERE number = ?", (number,))
        return False
    rows: list[tuple[int, int, str | None, str | None, str, bytes]] = found
    for (run, tenant_id, plan_id), events in groupby(rows, key=itemgetter(0, 2, 3)):
        # A run without a plan id was removed.
        seqs = [
            seq
            for _, seq, _, _, kind, payload in events
            if plan_id is not None and tenant_id is not None and wants(tenant_id, plan_id, kind, payload)
        ]
        if seqs:
            _fill_line(db, number, run, seqs)
    db.execute("UPDATE buses SET filled_run = ?, filled_seq = ? WHERE number = ?", (*found[-1][:2], number))
    return True


def _fill_line(db: apsw.Connection, bus: Any, run: Any, run_seqs: list[Any]) -> None:
    line = db.execute(_ADD_TO_LINE, (bus, run, 0)).get
    before = db.total_changes()
    # Events that were appended since the bus was added are there already.
    db.executemany(
        "INSERT OR IGNORE INTO outbox (line, run_seq) VALUES (?, ?)", [(line, seq) for seq in run_seqs]
    )
    added = db.total_changes() - before
    db.execute("UPDATE lines SET waiting = waiting + ? WHERE number = ?", (added, line))


def remove_bus(db: apsw.Connection, bus: str) -> None:
    """From now on it receives nothing and cannot be claimed."""
    db.execute("UPDATE buses SET state = 'removing' WHERE bus = ?", (bus,))


def remove_some(db: apsw.Connection, bus: str) -> bool:
    """Delete some of the rows of a bus that is being removed; False when it is gone."""
    row = db.execute("SELECT number FROM buses WHERE bus = ? AND state = 'removing'", (bus,)).fetchone()
    if row is None:
        return False
    some = (row[0], rules.BUS_BATCH_SIZE)
    removed = Counter(line for (line,) in db.execute(_REMOVE_WAITING, some))
    db.executemany(
        "UPDATE lines SET waiting = waiting - ? WHERE number = ?", [(n, line) for line, n in removed.items()]
    )
    if removed:
        return True
    for remove in (_REMOVE_DEAD, _REMOVE_LINES):
        db.execute(remove, some)
        if db.changes():
            return True
    db.execute("DELETE FROM buses WHERE number = ?", row)
    return False


def enqueue(db: apsw.Connection, run: int, stored: Sequence[EventRecord]) -> None:
    """Add new events of a run for every bus that wants them."""
    buses = "SELECT number, wanted FROM buses WHERE state <> 'removing' ORDER BY number"
    for bus, wanted in db.execute(buses).fetchall():
        wants = decode_filter(wanted).wants
        seqs = [
            one.run_seq
            for one in stored
            if wants(one.run.tenant_id, one.run.plan_id, one.event_type, one.payload)
        ]
        if seqs:
            _enqueue(db, bus, run, seqs)


def _enqueue(db: apsw.Connection, bus: Any, run: int, run_seqs: list[int]) -> None:
    line = db.execute(_ADD_TO_LINE, (bus, run, len(run_seqs))).get
    db.executemany("INSERT INTO outbox (line, run_seq) VALUES (?, ?)", [(line, seq) for seq in run_seqs])


def claim_line(
    db: apsw.Connection, at: Moment, bus: str, owner: str, ttl: timedelta, limit: int
) -> OutboxClaim | None:
    row = db.execute(_FREE_LINE, (bus, at.boot, at.elapsed, at.elapsed)).fetchone()
    if row is None:
        return None
    line, run, generation, failures = row
    db.execute(_HOLD, (owner, at.boot, at.elapsed_after(ttl), line))
    identity = identity_of(db.execute(f"SELECT {IDENTITY} FROM runs WHERE number = ?", (run,)).get)
    records = records_of(identity, db.execute(_FIRST_OF_LINE, (run, line, limit)))
    return OutboxClaim(
        bus=bus,
        run_id=identity.run_id,
        generation=generation + 1,
        failures=failures,
        records=tuple(records),
    )


def delivered(db: apsw.Connection, claim: OutboxClaim, through_seq: int) -> bool:
    held = _held(db, claim)
    if held is None:
        return False
    line = held[0]
    db.execute("DELETE FROM outbox WHERE line = ? AND run_seq <= ?", (line, through_seq))
    db.execute(
        "UPDATE lines SET waiting = waiting - ?, owner = '', held_until = NULL, failures = 0, error = '' "
        "WHERE number = ?",
        (db.changes(), line),
    )
    return True


def failed(
    db: apsw.Connection, at: Moment, claim: OutboxClaim, error: str, retry_in: timedelta | None
) -> bool:
    held = _held(db, claim)
    if held is None or not held[2]:
        return False
    line, run, _, failures = held
    if retry_in is not None:
        db.execute(
            "UPDATE lines SET owner = '', held_until = NULL, boot = ?, not_before = ?, failures = failures + 1, "
            "error = ? WHERE number = ?",
            (at.boot, at.elapsed_after(retry_in), error, line),
        )
        return True
    seq = db.execute("SELECT min(run_seq) FROM outbox WHERE line = ?", (line,)).get
    db.execute(
        "INSERT INTO dead (line, run_seq, event_type, failures, error, died_at) "
        "SELECT ?, run_seq, event_type, ?, ?, ? FROM events WHERE run = ? AND run_seq = ?",
        (line, failures + 1, error, at.text, run, seq),
    )
    db.execute("DELETE FROM outbox WHERE line = ? AND run_seq = ?", (line, seq))
    db.execute(
        "UPDATE lines SET waiting = waiting - 1, owner = '', held_until = NULL, failures = 0, error = '' "
        "WHERE number = ?",
        (line,),
    )
    return True


def _held(db: apsw.Connection, claim: OutboxClaim) -> Any | None:
    return db.execute(_HELD, (claim.bus, claim.run_id, claim.generation)).fetchone()


def has_waiting(db: apsw.Connection, bus: str) -> bool:
    return bool(db.execute(_HAS_WAITING, (bus,)).get)


def lines(db: apsw.Connection, at: Moment, bus: str | None) -> list[OutboxLine]:
    return [
        OutboxLine(
            bus=name,
            run_id=RunId(run_id),
            waiting=waiting,
            first_seq=first,
            failures=failures,
            next_at=at.text_after(timedelta(seconds=next_at - at.elapsed)) if next_at is not None else None,
            error=error,
        )
        for name, run_id, waiting, first, failures, next_at, error in db.execute(
            _LINES, (at.boot, at.elapsed, bus, bus)
        )
    ]


def dead_letters(db: apsw.Connection, bus: str | None) -> list[DeadLetter]:
    return [
        DeadLetter(
            bus=name,
            run_id=RunId(run_id),
            run_seq=run_seq,
            event_type=event_type,
            failures=failures,
            error=error,
            died_at=died_at,
        )
        for name, run_id, run_seq, event_type, failures, error, died_at in db.execute(_DEAD, (bus, bus))
    ]


def retry_dead(db: apsw.Connection, bus: str, run_id: str, run_seq: int) -> bool:
    row = db.execute(_TAKE_DEAD, (run_seq, bus, run_id)).fetchone()
    if row is None:
        return False
    db.execute("INSERT INTO outbox (line, run_seq) VALUES (?, ?)", (row[0], run_seq))
    db.execute("UPDATE lines SET waiting = waiting + 1 WHERE number = ?", (row[0],))
    return True


def drop_dead(db: apsw.Connection, bus: str, run_id: str, run_seq: int) -> bool:
    return db.execute(_TAKE_DEAD, (run_seq, bus, run_id)).fetchone() is not None
