"""Events on their way to a bus."""

import msgspec

from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.times import Timestamp


class OutboxClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The line of one run's undelivered events, held by one relay: published in order of `run_seq`."""

    bus: str
    run_id: RunId
    generation: int
    # How often its first event has failed so far.
    failures: int
    records: tuple[EventRecord, ...]


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An event that a bus would not take; kept until somebody retries or drops it."""

    bus: str
    run_id: RunId
    run_seq: int
    event_type: str
    failures: int
    error: str
    died_at: Timestamp


class OutboxLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How one run's line stands, for people."""

    bus: str
    run_id: RunId
    waiting: int
    first_seq: int
    failures: int
    next_at: Timestamp | None
    error: str
