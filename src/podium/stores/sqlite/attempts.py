"""The start of an attempt in SQL: events are appended and the attempt's lease is taken, in one transaction."""

from binascii import unhexlify
from datetime import timedelta
from typing import Final

import apsw

from podium.errors import PodiumError
from podium.log.events import EventRecord, RunIdentity
from podium.log.ids import RunId
from podium.log.leases import AttemptClaim, Fence, Lease
from podium.ports.store import StartedAttempt
from podium.stores import rules
from podium.stores.sqlite import ownership
from podium.stores.sqlite.appending import Append, KnownRuns, append_all
from podium.stores.sqlite.moments import Moment
from podium.stores.sqlite.rows import EVENT_COLUMNS, record_of

_ENDS: Final = f"SELECT {EVENT_COLUMNS} FROM events e WHERE e.run = ? AND e.key IN (?, ?, ?, ?)"
_HOLDER: Final = (
    "SELECT owner, generation, expires FROM leases WHERE run = ? AND attempt = ? AND owner <> '' "
    "AND owner <> ? AND boot = ? AND expires > ?"
)


def start_attempt(
    db: apsw.Connection, at: Moment, append: Append, claim: AttemptClaim, known_runs: KnownRuns
) -> StartedAttempt:
    (answer,) = append_all(db, at, (append,), known_runs)
    if isinstance(answer, PodiumError):
        raise answer
    number, run = known_runs[append.run_id]
    if (end := _end(db, number, run, claim)) is not None:
        return StartedAttempt(answer, end=end)
    assert append.fence is not None
    held = ownership.held_generation(db, number, append.fence.attempt)
    rules.check_fence(append.run_id, (), append.fence, held)
    if (holder := _holder(db, at, number, run, claim)) is not None:
        return StartedAttempt(answer, holder=holder)
    taken = ownership.take(db, at, number, append.run_id, claim.owner, claim.ttl, claim.name)
    return StartedAttempt(answer, lease=taken)


def _end(db: apsw.Connection, number: int, run: RunIdentity, claim: AttemptClaim) -> EventRecord | None:
    keys = [unhexlify(key) for key in rules.keys_of_ends(run, claim)]
    found = [record_of(run, row) for row in db.execute(_ENDS, (number, *keys))]
    return min(found, key=lambda record: record.run_seq, default=None)


def _holder(
    db: apsw.Connection, at: Moment, number: int, run: RunIdentity, claim: AttemptClaim
) -> Lease | None:
    """Another worker whose lease is live."""
    row = db.execute(_HOLDER, (number, claim.name, claim.owner, at.boot, at.elapsed)).fetchone()
    if row is None:
        return None
    owner, generation, expires = row
    expires_at = at.text_after(timedelta(seconds=expires - at.elapsed))
    fence = Fence(generation, claim.name)
    return Lease(run_id=RunId(run.run_id), owner=owner, fence=fence, expires_at=expires_at)
