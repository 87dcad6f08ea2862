"""The start of an attempt in SQL: events are appended and the attempt's lease is taken, in one transaction."""

from binascii import unhexlify
from typing import Final

import apsw

from podium.errors import PodiumError
from podium.log.events import EventRecord, RunIdentity
from podium.log.leases import AttemptClaim
from podium.ports.store import StartedAttempt
from podium.stores import rules
from podium.stores.sqlite import log, ownership
from podium.stores.sqlite.appending import Answer, Append, KnownRuns, append_all
from podium.stores.sqlite.moments import Moment
from podium.stores.sqlite.rows import EVENT_COLUMNS, record_of

_PAUSED: Final = "SELECT number FROM runs WHERE run_id = ? AND status = 'PAUSED'"
_IS_LOGGED: Final = "SELECT 1 FROM events WHERE run = ? AND key = ?"
_ENDS: Final = f"SELECT {EVENT_COLUMNS} FROM events e WHERE e.run = ? AND e.key IN (?, ?, ?, ?)"


def start_attempt(
    db: apsw.Connection, at: Moment, append: Append, claim: AttemptClaim, known_runs: KnownRuns
) -> StartedAttempt:
    if _starts_while_paused(db, append):
        return StartedAttempt((), is_paused=True)
    number, run = log.number_and_identity(db, append.run_id)
    end = _end(db, number, run, claim)
    answer: Answer = ()
    if append.writes or end is None:
        (answer,) = append_all(db, at, (append,), known_runs)
    if isinstance(answer, PodiumError):
        raise answer
    if end is not None:
        return StartedAttempt(answer, end=end)
    assert append.fence is not None
    held = ownership.held_generation(db, number, append.fence.attempt)
    rules.check_fence(append.run_id, (), append.fence, held)
    holder = ownership.live_lease(db, at, number, append.run_id, claim.name)
    if holder is not None and holder.owner != claim.owner:
        return StartedAttempt(answer, holder=holder)
    taken = ownership.take(db, at, number, append.run_id, claim.owner, claim.ttl, claim.name)
    return StartedAttempt(answer, lease=taken)


def _starts_while_paused(db: apsw.Connection, append: Append) -> bool:
    starts = [unhexlify(key) for key in rules.keys_of_starts(append.writes)]
    if not starts:
        return False
    paused = db.execute(_PAUSED, (append.run_id,)).fetchone()
    return paused is not None and any(
        db.execute(_IS_LOGGED, (paused[0], key)).fetchone() is None for key in starts
    )


def _end(db: apsw.Connection, number: int, run: RunIdentity, claim: AttemptClaim) -> EventRecord | None:
    keys = [unhexlify(key) for key in rules.keys_of_ends(run, claim)]
    found = [record_of(run, row) for row in db.execute(_ENDS, (number, *keys))]
    return min(found, key=lambda record: record.run_seq, default=None)
