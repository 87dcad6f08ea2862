"""Appends in SQL, as many at once as a transaction has.

What an append means is decided in `podium.stores.rules`; here is how its rows are found and kept. With many callers
each statement costs as much as its work, so the appends of a batch are looked up together, decided one after the
other, and their events written together. An append is refused before it writes anything (see `writer.py`).
"""

from collections.abc import Sequence
from typing import Any, Final

import apsw
import msgspec

from podium.errors import LogMoved, PodiumError, RunNotFound
from podium.model.events import EventRecord, EventWrite
from podium.model.leases import Fence, WakeUp
from podium.model.transitions import TERMINAL, RunStatus
from podium.ports.store import AppendedEvent
from podium.stores import rules
from podium.stores.sqlite import log, outbox, ownership
from podium.stores.sqlite.moments import Moment
from podium.stores.sqlite.rows import EVENT_COLUMNS, IDENTITY, INSERT_EVENT, event_row, identity_of, record_of

# What is asked of one write: its key, the attempt of the fence, the run. And a row that answers it.
_Asked = tuple[bytes | None, str | None, str]
_Found = tuple[Any, ...]

Answer = tuple[AppendedEvent, ...] | PodiumError


class Append(msgspec.Struct, frozen=True, gc=False):
    """What a caller asked for."""

    run_id: str
    writes: Sequence[EventWrite]
    fence: Fence | None
    after: int | None
    set_wake_ups: Sequence[WakeUp]
    drop_wake_ups: Sequence[str]


# Of one write: its run, whether its key is known, who holds the lease. `(SELECT ?)` hides the parameter from the
# planner, which would otherwise compare it with the condition of a partial index and plan anew for every value.
_LOOK_UP_ONE: Final = (
    "SELECT 0, EXISTS (SELECT 1 FROM events WHERE run = number AND key = ?), number, status, head, "
    "(SELECT generation FROM leases WHERE run = number AND attempt = (SELECT ?) AND owner <> ''), "
    f"EXISTS (SELECT 1 FROM buses), {IDENTITY} FROM runs WHERE run_id = ?"
)


def _look_up_many(asked: int) -> str:
    """The same of several writes; each row begins with the place of its write, and no row means no such run."""
    places = ", ".join(f"({place}, ?, ?, ?)" for place in range(asked))
    identity = ", ".join(f"r.{column}" for column in IDENTITY.split(", "))
    return (
        f"WITH asked (place, key, attempt, run_id) AS (VALUES {places}) "
        "SELECT place, EXISTS (SELECT 1 FROM events e WHERE e.run = number AND e.key = asked.key), "
        "number, status, head, "
        "(SELECT generation FROM leases l WHERE l.run = number AND l.attempt = asked.attempt AND owner <> ''), "
        f"EXISTS (SELECT 1 FROM buses), {identity} FROM asked CROSS JOIN runs r ON r.run_id = asked.run_id"
    )


# Few sizes, so that SQLite keeps the statements; larger ones are not faster.
_LOOK_UP: Final = {asked: _look_up_many(asked) for asked in (16, 8, 4, 2)} | {1: _LOOK_UP_ONE}
_EVENT_BY_KEY: Final = f"SELECT {EVENT_COLUMNS} FROM events e WHERE e.run = ? AND e.key = ?"
# Most events leave the status as it is; not to mention it spares the indexes that depend on it.
_MOVE_HEAD: Final = "UPDATE runs SET head = ?, updated_at = ? WHERE number = ?"
_UPDATE_RUN: Final = "UPDATE runs SET status = ?, head = ?, updated_at = ? WHERE number = ?"
_SET_WAKE_UP: Final = (
    "INSERT INTO wake_ups (run, key, due) VALUES (?, ?, ?) "
    "ON CONFLICT (run, key) DO UPDATE SET due = excluded.due"
)
_DROP_WAKE_UP: Final = "DELETE FROM wake_ups WHERE run = ? AND key = ?"

# Calling the enum is ten times slower, and every append needs one.
_STATUS: Final = {status.value: status for status in RunStatus}


def append_all(db: apsw.Connection, at: Moment, appends: Sequence[Append]) -> list[Answer]:
    """Append to runs, of which each is named once. An answer for each append, or why it is refused."""
    try:
        found = _look_up(db, [asked for append in appends for asked in _asked(append)])
    except UnicodeEncodeError:  # half a character: no id, and no run has it
        if len(appends) == 1:
            return [RunNotFound(appends[0].run_id)]
        return [answer for append in appends for answer in append_all(db, at, (append,))]
    events: list[tuple[Any, ...]] = []
    heads: list[tuple[Any, ...]] = []
    answers: list[Answer] = []
    place = 0
    for append in appends:
        of_append = found[place : place + (len(append.writes) or 1)]
        place += len(of_append)
        try:
            answers.append(_append(db, at, append, of_append, events, heads))
        except PodiumError as refusal:
            answers.append(refusal)
    db.executemany(INSERT_EVENT, events)
    db.executemany(_MOVE_HEAD, heads)
    return answers


def _asked(append: Append) -> list[_Asked]:
    attempt = append.fence.attempt if append.fence is not None else None
    if not append.writes:
        return [(None, attempt, append.run_id)]
    return [(bytes.fromhex(write.idempotency_key), attempt, append.run_id) for write in append.writes]


def _look_up(db: apsw.Connection, asked: Sequence[_Asked]) -> list[_Found | None]:
    found: list[_Found | None] = [None] * len(asked)
    start = 0
    for size, sql in _LOOK_UP.items():
        while len(asked) - start >= size:
            values = [value for one in asked[start : start + size] for value in one]
            for row in db.execute(sql, values):
                found[start + row[0]] = row
            start += size
    return found


def _append(
    db: apsw.Connection,
    at: Moment,
    append: Append,
    found: Sequence[_Found | None],
    events: list[tuple[Any, ...]],
    heads: list[tuple[Any, ...]],
) -> tuple[AppendedEvent, ...]:
    """Decide one append. Its events, and the head of its run unless more changes there, are written with the others."""
    # With many callers, a good part of the time beside SQLite's is spent here: another call shows in the benchmark.
    if found[0] is None:
        raise RunNotFound(append.run_id)
    _, _, number, status_text, head, held, has_buses, *identity = found[0]
    run = identity_of(identity)
    writes = append.writes
    known: dict[str, EventRecord] = {}
    for write, row in zip(writes, found, strict=False):
        if row is not None and row[1]:
            earlier = db.execute(_EVENT_BY_KEY, (number, bytes.fromhex(write.idempotency_key))).get
            known[write.idempotency_key] = record_of(run, earlier)
    fresh = rules.new_writes(writes, known)
    if not fresh:
        return rules.outcome(writes, known, ())
    rules.check_fence(append.run_id, fresh, append.fence, held)
    if append.after is not None and append.after != head:
        raise LogMoved(append.run_id, log.events_after(db, number, run, after=append.after))
    now = at.text
    stored = rules.records_of(run, fresh, head, now)
    events += [event_row(number, record) for record in stored]
    if has_buses:
        outbox.enqueue(db, number, [record.run_seq for record in stored])
    before = _STATUS[status_text]
    status = rules.status_after(before, fresh)
    if status is before:
        heads.append((head + len(stored), now, number))
    else:
        db.execute(_UPDATE_RUN, (status.value, head + len(stored), now, number))
    if status in TERMINAL:
        db.execute("DELETE FROM wake_ups WHERE run = ?", (number,))
        ownership.give_up_all(db, number)
    else:
        for wake_up in append.set_wake_ups:
            db.execute(_SET_WAKE_UP, (number, wake_up.key, wake_up.due))
    for key in append.drop_wake_ups:
        db.execute(_DROP_WAKE_UP, (number, key))
    return rules.outcome(writes, known, stored)
