"""Appends in SQL: all appends of a transaction are processed together.

The meaning of an append is defined in `podium.stores.rules`; here its rows are found and stored. With many
callers each statement costs as much as its work, so the appends of a batch are looked up together, decided
one after the other, and their events written together. An append is refused before it writes anything (see
`writer.py`).
"""

from binascii import unhexlify
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import apsw
import msgspec

from podium.errors import LogMoved, PodiumError, RunNotFound
from podium.log.events import EventRecord, EventWrite, RunIdentity
from podium.log.leases import Fence, WakeUp
from podium.log.transitions import TERMINAL, RunStatus
from podium.ports.store import AppendedEvent
from podium.stores import rules
from podium.stores.sqlite import log, outbox, ownership
from podium.stores.sqlite.moments import Moment
from podium.stores.sqlite.rows import EVENT_BY_KEY, INSERT_EVENT, event_row, record_of

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft


Answer = tuple[AppendedEvent, ...] | PodiumError
_Found = tuple[Any, ...]


class Append(msgspec.Struct, frozen=True, gc=False):
    """A caller's request."""

    run_id: str
    writes: Sequence[EventWrite]
    fence: Fence | None
    after: int | None
    set_wake_ups: Sequence[WakeUp]
    drop_wake_ups: Sequence[str]
    audit: "Sequence[AuditDraft]" = ()


# Numbers and identities of runs, by run id. They never change, and are read once. Whether a number still
# refers to that run is checked every time: after a rollback a number that was read in the transaction may be
# given to another run.
KnownRuns = dict[str, tuple[int, RunIdentity]]
_MAX_KNOWN_RUNS: Final = 1_000

# For one write: whether its key is known, the status of its run, the holder of the lease, and whether it ends
# an attempt under the run's lease although the attempt has an owner. `(SELECT ?)` hides the parameter from
# the planner, which would otherwise compare it with the condition of a partial index and plan again for every
# value.
_LOOK_UP_ONE: Final = (
    "SELECT 0, EXISTS (SELECT 1 FROM events WHERE run = number AND key = ?), status, head, "
    "(SELECT generation FROM leases WHERE run = number AND attempt = (SELECT ?) AND owner <> ''), "
    "EXISTS (SELECT 1 FROM buses), "
    "EXISTS (SELECT 1 FROM leases WHERE run = number AND attempt = (SELECT ?) AND owner <> '') "
    "FROM runs WHERE number = ? AND run_id = ?"
)


def _look_up_many(asked: int) -> str:
    """The same for several writes; each row starts with the position of its write, and a missing row means an
    unknown run.
    """
    places = ", ".join(f"({place}, ?, ?, ?, ?, ?)" for place in range(asked))
    return (
        f"WITH asked (place, key, attempt, ended, run, run_id) AS (VALUES {places}) "
        "SELECT place, EXISTS (SELECT 1 FROM events e WHERE e.run = number AND e.key = asked.key), status, head, "
        "(SELECT generation FROM leases l WHERE l.run = number AND l.attempt = asked.attempt AND owner <> ''), "
        "EXISTS (SELECT 1 FROM buses), "
        "EXISTS (SELECT 1 FROM leases l WHERE l.run = number AND l.attempt = asked.ended AND owner <> '') "
        "FROM asked CROSS JOIN runs r ON r.number = asked.run AND r.run_id = asked.run_id"
    )


_VALUES_OF_ONE: Final = 5
# Only a few sizes, so that SQLite can cache the statements; larger ones are not faster.
_LOOK_UP: Final = {asked: _look_up_many(asked) for asked in (16, 8, 4, 2)} | {1: _LOOK_UP_ONE}
# Most events do not change the status; omitting it from the statement avoids updating the indexes that depend
# on it.
_MOVE_HEAD: Final = "UPDATE runs SET head = ?, updated_at = ? WHERE number = ?"
_UPDATE_RUN: Final = "UPDATE runs SET status = ?, head = ?, updated_at = ? WHERE number = ?"
_SET_WAKE_UP: Final = (
    "INSERT INTO wake_ups (run, key, due) VALUES (?, ?, ?) "
    "ON CONFLICT (run, key) DO UPDATE SET due = excluded.due"
)
# Anything that is appended without a lease, such as a signal, concerns a parked run.
_WAKE: Final = f"UPDATE runs SET wake_at = '{rules.WOKEN}' WHERE number = ? AND pool IS NOT NULL"
_DROP_WAKE_UP: Final = "DELETE FROM wake_ups WHERE run = ? AND key = ?"

# Calling the enum is ten times slower, and every append needs one.
_STATUS: Final = {status.value: status for status in RunStatus}


def append_all(
    db: apsw.Connection, at: Moment, appends: Sequence[Append], known_runs: KnownRuns
) -> list[Answer]:
    """Append to runs, each of which is named once. Returns for each append its result, or why it is refused."""
    try:
        found = _look_up(db, appends, known_runs)
        if None in found:
            known_runs.clear()
            found = _look_up(db, appends, known_runs)
    except UnicodeEncodeError:  # a lone surrogate: not an id, so no lease has such an owner
        if len(appends) == 1:
            return [RunNotFound(appends[0].run_id)]
        return [answer for append in appends for answer in append_all(db, at, (append,), known_runs)]
    events: list[tuple[Any, ...]] = []
    heads: list[tuple[Any, ...]] = []
    answers: list[Answer] = []
    place = 0
    for append in appends:
        try:
            answers.append(_append(db, at, append, known_runs, found, place, events, heads))
        except PodiumError as refusal:
            answers.append(refusal)
        place += len(append.writes) or 1
    _write(db, INSERT_EVENT, events)
    _write(db, _MOVE_HEAD, heads)
    return answers


def _write(db: apsw.Connection, sql: str, rows: list[tuple[Any, ...]]) -> None:
    if len(rows) == 1:
        db.execute(sql, rows[0])
    elif rows:
        db.executemany(sql, rows)


def _look_up(db: apsw.Connection, appends: Sequence[Append], known_runs: KnownRuns) -> list[_Found | None]:
    """A row for every write, and one for an append without writes."""
    asked: list[str | bytes | int | None] = []
    for append in appends:
        number, _ = known_runs.get(append.run_id) or _find_run(db, append.run_id, known_runs)
        attempt = append.fence.attempt if append.fence is not None else None
        for write in append.writes:
            ended = rules.ended_attempt(write, append.fence)
            asked += (unhexlify(write.idempotency_key), attempt, ended, number, append.run_id)
        if not append.writes:
            asked += (None, attempt, None, number, append.run_id)
    count = len(asked) // _VALUES_OF_ONE
    found: list[_Found | None] = [None] * count
    start = 0
    for size, sql in _LOOK_UP.items():
        while count - start >= size:
            values = asked[start * _VALUES_OF_ONE : (start + size) * _VALUES_OF_ONE]
            for row in db.execute(sql, values):
                found[start + row[0]] = row
            start += size
    return found


def _find_run(
    db: apsw.Connection, run_id: str, known_runs: KnownRuns
) -> tuple[int, RunIdentity] | tuple[None, None]:
    try:
        found = log.number_and_identity(db, run_id)
    except RunNotFound:
        return None, None
    if len(known_runs) >= _MAX_KNOWN_RUNS:
        known_runs.clear()
    known_runs[run_id] = found
    return found


def _append(
    db: apsw.Connection,
    at: Moment,
    append: Append,
    known_runs: KnownRuns,
    found: Sequence[_Found | None],
    place: int,
    events: list[tuple[Any, ...]],
    heads: list[tuple[Any, ...]],
) -> tuple[AppendedEvent, ...]:
    """Decide one append. Its events, and usually the head of its run, are written together with the others'."""
    # With many callers, a large part of the time outside of SQLite is spent here: an additional call is
    # visible in the benchmark.
    first = found[place]
    if first is None:
        raise RunNotFound(append.run_id)
    _, is_first_known, status_text, head, held, has_buses, is_owned = first
    number, run = known_runs[append.run_id]
    writes = append.writes
    known: dict[str, EventRecord] = {}
    if rules.may_end_twice(writes, append.after):
        known = rules.recorded(run, writes, partial(_find, db, number, run), ends=True)
    elif is_first_known or len(writes) > 1:
        rows = found[place : place + len(writes)]
        repeated = [write for write, row in zip(writes, rows, strict=True) if row is not None and row[1]]
        if repeated:
            known = rules.recorded(run, repeated, partial(_find, db, number, run), ends=False)
    fresh = rules.new_writes(writes, known)
    if not fresh:
        if not writes and (append.set_wake_ups or append.drop_wake_ups or append.audit):
            rules.check_fence(append.run_id, (), append.fence, held)
            _check_after(db, number, run, append, head)
            _change_wake_ups(db, number, append, _STATUS[status_text])
            record_audit(db, append.audit)
        return rules.outcome(writes, known, ())
    rules.check_fence(append.run_id, fresh, append.fence, held)
    _check_after(db, number, run, append, head)
    if is_owned or len(writes) > 1:
        _check_ends(db, at, number, append, fresh, found[place : place + len(writes)])
    before = _STATUS[status_text]
    status = rules.status_after(before, fresh)
    if status is not before and rules.opens(before, fresh):
        _check_approved(db, number, run, fresh)
    now = at.text
    stored = rules.records_of(run, fresh, head, now)
    events += [event_row(number, record) for record in stored]
    if has_buses:
        outbox.enqueue(db, number, stored)
    if status is before:
        heads.append((head + len(stored), now, number))
    else:
        db.execute(_UPDATE_RUN, (status.value, head + len(stored), now, number))
    if status in TERMINAL:
        db.execute("DELETE FROM wake_ups WHERE run = ?", (number,))
        ownership.give_up_all(db, number)
    if append.set_wake_ups or append.drop_wake_ups:
        _change_wake_ups(db, number, append, status)
    if append.fence is None:
        db.execute(_WAKE, (number,))
    if append.audit:
        record_audit(db, append.audit)
    return rules.outcome(writes, known, stored)


def _check_ends(
    db: apsw.Connection,
    at: Moment,
    number: int,
    append: Append,
    fresh: Sequence[EventWrite],
    rows: Sequence[_Found | None],
) -> None:
    if any(row is not None and row[-1] for row in rows):
        rules.check_ends(
            fresh,
            append.fence,
            lambda name: ownership.live_lease(db, at, number, append.run_id, name) is not None,
        )


def record_audit(db: apsw.Connection, drafts: "Sequence[AuditDraft]") -> None:
    """Imports the code for sealing with the first record: most runs have none."""
    if drafts:
        from podium.stores.sqlite import audit

        audit.record(db, drafts)


def _check_approved(db: apsw.Connection, number: int, run: RunIdentity, fresh: Sequence[EventWrite]) -> None:
    if db.execute("SELECT needs_approval FROM runs WHERE number = ?", (number,)).get:
        approval = _find(db, number, run, rules.key_of_approval(run))
        rules.check_approved(run, fresh, approval.payload if approval is not None else None)


def _check_after(db: apsw.Connection, number: int, run: RunIdentity, append: Append, head: int) -> None:
    if append.after is not None and append.after != head:
        raise LogMoved(append.run_id, log.events_after(db, number, run, after=append.after))


def _change_wake_ups(db: apsw.Connection, number: int, append: Append, status: RunStatus) -> None:
    for wake_up in append.set_wake_ups if status not in TERMINAL else ():
        db.execute(_SET_WAKE_UP, (number, wake_up.key, wake_up.due))
    for key in append.drop_wake_ups:
        db.execute(_DROP_WAKE_UP, (number, key))


def _find(db: apsw.Connection, number: int, run: RunIdentity, key: str) -> EventRecord | None:
    row = db.execute(EVENT_BY_KEY, (number, unhexlify(key))).fetchone()
    return record_of(run, row) if row is not None else None
