"""A bus whose deliveries are counted and traced."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

from podium.errors import PodiumError
from podium.log.events import EventRecord
from podium.log.messages import Message, published_messages
from podium.log.tracing import TraceContext, parse_traceparent, step_span
from podium.ports.bus import EventBus
from podium.ports.clock import Clock
from podium.ports.metrics import NOT_PUBLISHED, PUBLISHED, TRANSITIONS, Span
from podium.ports.telemetry import Telemetry

_REFUSED: Final = "REFUSED"


class ObservedBus:
    """An `EventBus`. `types`: the message types that are counted individually."""

    def __init__(
        self, bus: EventBus, telemetry: Telemetry, clock: Clock, types: Collection[str] = frozenset()
    ) -> None:
        self.name = bus.name
        self._bus = bus
        self._telemetry = telemetry
        self._clock = clock
        self._types = frozenset(types)

    async def publish(self, records: Sequence[EventRecord]) -> int:
        started_at = self._clock.now()
        try:
            count = await self._bus.publish(records)
        except Exception as error:
            self._telemetry.count(
                NOT_PUBLISHED, str(error.code) if isinstance(error, PodiumError) else _REFUSED
            )
            raise
        self._telemetry.count(PUBLISHED, by=count)
        for record in records[:count]:
            for message in published_messages(record):
                self._published(record, message, started_at)
        return count

    def _published(self, record: EventRecord, message: Message, started_at: datetime) -> None:
        headers = dict(message.headers)
        if headers["event_type"] in self._types:
            self._telemetry.count(TRANSITIONS, headers["event_type"])
        context = parse_traceparent(headers["traceparent"])
        if context is None or not self._telemetry.is_tracing:
            return
        self._telemetry.span(
            Span(
                name=f"publish {message.topic}",
                kind="producer",
                context=context,
                parent=_step_of(record, context),
                started_at=started_at,
                ended_at=self._clock.now(),
                correlation_id=headers["correlation_id"],
                attributes={
                    "messaging.destination.name": message.topic,
                    "messaging.message.id": headers["event_id"],
                    "podium.run_id": record.run.run_id,
                },
            )
        )

    async def close(self) -> None:
        await self._bus.close()


def _step_of(record: EventRecord, context: TraceContext) -> TraceContext:
    return context.with_span(step_span(record.run.run_id, record.step_id or "", record.logical_attempt_id))
