"""Messages: what a bus gets of an event, and what steps publish.

A step that publishes has its messages in its StepCompleted (`publishes`), so a message is sent if and only if the
completion is in the log. Everything here follows from the record alone: a message that is sent again is the same one,
with the same `event_id`.
"""

from functools import lru_cache
from hashlib import sha256
from typing import Final
from uuid import UUID

import msgspec

from podium.log.envelope import encode_envelope
from podium.log.events import EventRecord
from podium.log.outbox import may_have_messages
from podium.log.payloads import read_as
from podium.patterns import lazy_pattern

# The grammar of Kafka's topics, which are also names of files.
_TOPIC: Final = lazy_pattern(r"[A-Za-z0-9._-]{1,249}")
TOPIC_EXPECTED: Final = "a topic of at most 249 letters, digits, . _ and -"
# What a message that could not be used is put into.
DEAD_SUFFIX: Final = ".dead"
_SAMPLED: Final = "01"


class Message(msgspec.Struct, frozen=True):
    """For one topic. Messages with the same key stay in order."""

    topic: str
    key: str | None
    value: bytes
    headers: tuple[tuple[str, str], ...]


class StoredMessage(msgspec.Struct, frozen=True):
    """One entry of `publishes`; its event type is the step's own word."""

    topic: str
    body: msgspec.Raw
    key: str | None = None
    type: str = ""


class _Publishing(msgspec.Struct, frozen=True):
    publishes: tuple[StoredMessage, ...] = ()


def is_topic(text: str) -> bool:
    return _TOPIC.fullmatch(text) is not None and text not in (".", "..")


def event_message(record: EventRecord, topic: str) -> Message:
    """The event itself, as every bus shows it. Events of one run have one key, so they stay in order."""
    headers = _headers(record, record.event_id, record.event_type)
    return Message(topic, record.run.run_id, encode_envelope(record), headers)


def published_messages(record: EventRecord) -> list[Message]:
    """What the step published, in its order."""
    if not may_have_messages(record.event_type, record.payload):
        return []
    stored = read_as(_Publishing, record.payload)[0].publishes
    return [_published(record, index, one) for index, one in enumerate(stored)]


def _published(record: EventRecord, index: int, stored: StoredMessage) -> Message:
    headers = _headers(record, message_id(record.idempotency_key, index), stored.type)
    return Message(stored.topic, stored.key, bytes(stored.body), headers)


def message_id(idempotency_key: str, index: int) -> str:
    """Derived from the run, the step, its attempt (all in the key of its completion) and the place in the list."""
    digest = sha256(f"{idempotency_key}|{index}".encode()).digest()
    return str(UUID(bytes=digest[:16], version=4))


@lru_cache(maxsize=1024)
def _trace_of(run_id: str) -> str:
    return sha256(run_id.encode()).hexdigest()[:32]


def _headers(record: EventRecord, event_id: str, event_type: str) -> tuple[tuple[str, str], ...]:
    run_id = record.run.run_id
    trace, span = _trace_of(run_id), event_id.replace("-", "")[:16]
    return (
        ("event_id", event_id),
        ("event_type", event_type),
        ("correlation_id", run_id),
        ("run_id", run_id),
        ("run_seq", str(record.run_seq)),
        ("traceparent", f"00-{trace}-{span}-{_SAMPLED}"),
    )
