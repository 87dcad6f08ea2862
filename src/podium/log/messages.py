"""Messages: what a bus receives of an event, and what steps publish.

A step that publishes has its messages in its StepCompleted (`publishes`), so a message is sent if and only if
the completion is in the log. Messages are derived from the record alone: a message that is sent again is
identical and has the same `event_id`.
"""

from hashlib import sha256
from typing import Final
from uuid import UUID

import msgspec

from podium.log.envelope import encode_envelope
from podium.log.events import EventRecord
from podium.log.outbox import may_have_messages
from podium.log.payloads import read_as
from podium.log.tracing import TraceContext, derived_trace, message_span, parse_traceparent
from podium.patterns import lazy_pattern

# Kafka's grammar of topics; they are also used as file names.
_TOPIC: Final = lazy_pattern(r"[A-Za-z0-9._-]{1,249}")
TOPIC_EXPECTED: Final = "a topic of at most 249 letters, digits, . _ and -"
# Suffix of the topic for messages that could not be used.
DEAD_SUFFIX: Final = ".dead"


class Message(msgspec.Struct, frozen=True):
    """A message for one topic. Messages with the same key stay in order."""

    topic: str
    key: str | None
    value: bytes
    headers: tuple[tuple[str, str], ...]


class StoredMessage(msgspec.Struct, frozen=True):
    """One entry of `publishes`; the step chooses its event type."""

    topic: str
    body: msgspec.Raw
    key: str | None = None
    type: str = ""
    # Of the event type, as the publisher counts it.
    version: str | None = None
    # The span that the run is part of, if it was received with a message.
    traceparent: str | None = None


class _Publishing(msgspec.Struct, frozen=True, rename="camel"):
    publishes: tuple[StoredMessage, ...] = ()
    # Correlation id of the event that a node works on.
    correlation_id: str | None = None


def is_topic(text: str) -> bool:
    return _TOPIC.fullmatch(text) is not None and text not in (".", "..")


def event_message(record: EventRecord, topic: str) -> Message:
    """The event itself, in the form every bus shows. Events of one run have the same key, so they stay in
    order.
    """
    run_id = record.run.run_id
    headers = _headers(record, record.event_id, record.event_type, run_id, None)
    return Message(topic, run_id, encode_envelope(record), headers)


def published_messages(record: EventRecord) -> list[Message]:
    """The messages that the step published, in its order."""
    if not may_have_messages(record.event_type, record.payload):
        return []
    stored = read_as(_Publishing, record.payload)[0]
    correlation_id = stored.correlation_id or record.run.run_id
    return [_published(record, index, one, correlation_id) for index, one in enumerate(stored.publishes)]


def _published(record: EventRecord, index: int, stored: StoredMessage, correlation_id: str) -> Message:
    event_id = message_id(record.idempotency_key, index)
    headers = _headers(record, event_id, stored.type, correlation_id, parse_traceparent(stored.traceparent))
    if stored.version is not None:
        headers = (*headers, ("event_version", stored.version))
    return Message(stored.topic, stored.key, bytes(stored.body), headers)


def message_id(idempotency_key: str, index: int) -> str:
    """Derived from the completion's key (which contains run, step and attempt) and the position in the list."""
    digest = sha256(f"{idempotency_key}|{index}".encode()).digest()
    return str(UUID(bytes=digest[:16], version=4))


def _headers(
    record: EventRecord, event_id: str, event_type: str, correlation_id: str, parent: TraceContext | None
) -> tuple[tuple[str, str], ...]:
    run_id, span = record.run.run_id, message_span(event_id)
    trace = parent.with_span(span) if parent is not None else TraceContext(derived_trace(run_id), span)
    return (
        ("event_id", event_id),
        ("event_type", event_type),
        ("correlation_id", correlation_id),
        ("run_id", run_id),
        ("run_seq", str(record.run_seq)),
        ("traceparent", trace.header),
    )
