"""Events on their way to and from a log, as they are sent over the network, without what each side can add
itself.

A distributed engine has one process that decides and others that act. What is to be recorded is sent to them
as `EventDraft`s; ids, keys and times are added where it is appended. What is in the log is returned as
`LoggedEvent`s, with only the fields that a machine folds.
"""

from typing import Any

import msgspec

from podium.log.events import EventRecord, RunIdentity, encode_payload
from podium.log.times import Timestamp


class EventDraft(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """An event that is to be recorded."""

    event_type: str
    path: str | None = None
    attempt: int = 1
    payload: dict[str, Any] = {}
    # The timer, probe or signal that the event is about.
    subject: str | None = None
    # When it was due: the recorded time is never earlier.
    due: Timestamp = ""

    def logged(self, run_seq: int, at: Timestamp) -> "LoggedEvent":
        return LoggedEvent(run_seq, at, self.event_type, self.path, self.attempt, 1, self.payload)


class LoggedEvent(msgspec.Struct, frozen=True, array_like=True):
    """A record of the log, reduced to the fields that a machine folds."""

    run_seq: int
    at: Timestamp
    event_type: str
    path: str | None
    attempt: int
    engine_attempt: int
    # The complete payload: values that the log stores elsewhere are filled in.
    payload: dict[str, Any]

    def record(self, run: RunIdentity) -> EventRecord:
        return EventRecord(
            run,
            self.run_seq,
            "",
            self.event_type,
            self.path,
            self.attempt,
            self.engine_attempt,
            "",
            self.at,
            self.at,
            encode_payload(self.payload),
        )


def logged(record: EventRecord) -> LoggedEvent:
    """The logged event of a record whose payload is complete."""
    return LoggedEvent(
        record.run_seq,
        record.emitted_at,
        record.event_type,
        record.step_id,
        record.logical_attempt_id,
        record.engine_attempt_id,
        msgspec.json.decode(record.payload),
    )
