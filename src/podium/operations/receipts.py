"""Telemetry of incoming messages. Their content is never examined here."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from podium.log.tracing import TRACEPARENT, TraceContext, parse_traceparent, receipt, span_id
from podium.ports.clock import Clock
from podium.ports.events_in import Incoming
from podium.ports.metrics import DEAD_LETTERS, MESSAGES, Span
from podium.ports.telemetry import Telemetry

STARTED: Final = "started"
KNOWN: Final = "known"
BATCH: Final = "batch"
DEAD: Final = "dead"
# For topics that no contract names.
_ANY: Final = "message"


class Receipts:
    """`types`: the message types of a topic, according to the contract."""

    def __init__(self, telemetry: Telemetry, clock: Clock, types: Mapping[str, str] | None = None) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._types = types or {}
        # By topic: when the current batch arrived.
        self._received_at: dict[str, datetime] = {}

    def received(self, messages: Sequence[Incoming]) -> None:
        """A batch of one topic has arrived."""
        if self._telemetry.is_tracing and messages:
            self._received_at[messages[0].topic] = self._clock.now()

    def in_batch(self, messages: Sequence[Incoming]) -> None:
        """For messages without runs of their own."""
        if messages:
            topic = messages[0].topic
            self._telemetry.count(MESSAGES, topic, self._type(topic), BATCH, by=len(messages))

    def has_run(self, message: Incoming, identity: str, correlation_id: str, *, is_new: bool) -> None:
        """`identity`: that of the run, or of the request for it; the span is derived from it."""
        outcome = STARTED if is_new else KNOWN
        self._telemetry.count(MESSAGES, message.topic, self._type(message.topic), outcome)
        if self._telemetry.is_tracing:
            context = receipt(identity, message.header(TRACEPARENT))
            if not is_new:
                context = context.with_span(self._own_span(message))
            self._span(message, context, outcome, correlation_id)

    def _type(self, topic: str) -> str:
        return self._types.get(topic, _ANY)

    def is_dead(self, message: Incoming, code: str) -> None:
        """Its correlation id is its position: nothing else in it can be relied on."""
        self._telemetry.count(MESSAGES, message.topic, self._type(message.topic), DEAD)
        self._telemetry.count(DEAD_LETTERS, code)
        if self._telemetry.is_tracing:
            place = f"{message.topic}/{message.partition}/{message.offset}"
            context = receipt(place, message.header(TRACEPARENT)).with_span(self._own_span(message))
            self._span(message, context, DEAD, place, code)

    def _own_span(self, message: Incoming) -> str:
        now = self._clock.now().isoformat()
        return span_id(message.topic, message.partition, message.offset, now)

    def _span(
        self,
        message: Incoming,
        context: TraceContext,
        outcome: str,
        correlation_id: str,
        error: str | None = None,
    ) -> None:
        now = self._clock.now()
        self._telemetry.span(
            Span(
                name=f"receive {message.topic}",
                kind="consumer",
                context=context,
                parent=parse_traceparent(message.header(TRACEPARENT)),
                started_at=self._received_at.get(message.topic, now),
                ended_at=now,
                correlation_id=correlation_id,
                attributes={
                    "messaging.destination.name": message.topic,
                    "messaging.destination.partition.id": str(message.partition),
                    "messaging.kafka.message.offset": message.offset,
                    "podium.event_type": self._type(message.topic),
                    "podium.outcome": outcome,
                },
                error=error,
            )
        )
