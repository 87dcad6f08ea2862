"""Events to be written: each gets its id and its idempotency key here."""

import os
from typing import Final

from podium.log.events import NO_PAYLOAD, EventRecord, EventWrite, RunIdentity
from podium.log.keys import key_v1, slot_of
from podium.log.times import Timestamp


def new_event(
    run: RunIdentity,
    event_type: str,
    at: Timestamp,
    payload: bytes = NO_PAYLOAD,
    *,
    step_id: str | None = None,
    attempt: int = 1,
    engine_attempt: int = 1,
    subject: str | None = None,
) -> EventWrite:
    """`subject`: identifies the subject of an event that is not about a step; see `slot_of`."""
    slot = slot_of(event_type, step_id=step_id, subject=subject)
    return EventWrite(
        event_id=random_uuid(),
        event_type=event_type,
        idempotency_key=key_v1(run.run_id, slot, attempt, event_type, run.plan_version),
        emitted_at=at,
        step_id=step_id,
        logical_attempt_id=attempt,
        engine_attempt_id=engine_attempt,
        payload=payload,
    )


def foreseen(run: RunIdentity, write: EventWrite, run_seq: int, payload: bytes) -> EventRecord:
    """The record that this write becomes if no other append intervenes: a machine folds it before it is
    stored.
    """
    return EventRecord(
        run,
        run_seq,
        write.event_id,
        write.event_type,
        write.step_id,
        write.logical_attempt_id,
        write.engine_attempt_id,
        write.idempotency_key,
        write.emitted_at,
        write.emitted_at,
        payload,
    )


def random_uuid() -> str:
    """A UUID of version 4. Every event needs one, and the standard library takes five times as long."""
    try:
        digits = _random.pop()
    except IndexError:
        drawn = os.urandom(16 * _RANDOM_BATCH).hex()
        digits, *others = [drawn[at : at + 32] for at in range(0, len(drawn), 32)]
        _random.extend(others)
    variant = _VARIANTS[digits[16]]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


# Random bytes that are not used yet. A forked child must not inherit them.
_random: list[str] = []
os.register_at_fork(after_in_child=_random.clear)
_RANDOM_BATCH: Final = 64
_VARIANTS: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
