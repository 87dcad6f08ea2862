"""Messages that start a run each: introspections, requests and acknowledgements."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from podium.errors import InvalidEvent, InvalidId, PodiumError, RunRequestConflict, StoreUnavailable
from podium.expressions.evaluate import EvaluationError
from podium.log.tracing import TRACEPARENT, receipt
from podium.nodes.registration.decoding import Body, Refused, decode
from podium.nodes.registration.intake import run_for
from podium.operations.inputs import InvalidInput
from podium.operations.receipts import Receipts
from podium.operations.registration.counting import Counts
from podium.operations.registration.refusing import Refusals
from podium.operations.registration.runs import Runs
from podium.plan.canonical import NotCanonical
from podium.ports.bus import BusUnavailable
from podium.ports.clock import Clock
from podium.ports.events_in import HEADERS_UNREADABLE, EventSource, Incoming

MAX_TRIES: Final = 10
# Errors that a retry cannot fix.
_POISON: Final = (
    EvaluationError,
    InvalidEvent,
    InvalidId,
    InvalidInput,
    NotCanonical,
    RunRequestConflict,
)
# Not caused by the message: retried without a limit.
_AWAY: Final = (StoreUnavailable, BusUnavailable)


def received_at(message: Incoming, clock: Clock) -> datetime:
    """The time at which the bus received it. If the bus reports none, our own time, and never the sender's,
    which may be as wrong as what is compared with it.
    """
    if message.timestamp > 0 and message.is_timed_by_bus:
        return datetime.fromtimestamp(message.timestamp / 1000, UTC)
    return clock.now()


def read_body(message: Incoming, event_type: str, clock: Clock) -> Body:
    """Raises `Refused`."""
    if message.has_unreadable_headers:
        raise Refused(HEADERS_UNREADABLE)
    return decode(
        event_type,
        message.value,
        event_type=message.header("event_type"),
        version=message.header("event_version"),
        received_at=received_at(message, clock),
    )


class RunStarter:
    """Handles the messages of one topic."""

    def __init__(
        self,
        source: EventSource,
        event_type: str,
        runs: Runs,
        refusals: Refusals,
        clock: Clock,
        counts: Counts,
        receipts: Receipts,
        *,
        on_messages: Callable[[Sequence[Incoming]], None],
    ) -> None:
        self._source = source
        self._event_type = event_type
        self._runs = runs
        self._refusals = refusals
        self._clock = clock
        self._counts = counts
        self._receipts = receipts
        self._on_messages = on_messages
        self._tries: dict[tuple[int, int], int] = {}

    async def handle(self, messages: Sequence[Incoming]) -> None:
        """When it returns, each has its run or is a dead letter. Raises errors that may be gone at the next
        try.
        """
        self._receipts.received(messages)
        self._on_messages(messages)
        outcomes = await asyncio.gather(*map(self._start, messages), return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome
        self._counts.received[self._event_type] += len(messages)
        self._tries.clear()

    async def _start(self, message: Incoming) -> None:
        try:
            body: Any = read_body(message, self._event_type, self._clock)
            start = run_for(self._event_type, body)
            context = receipt(start.request_id, message.header(TRACEPARENT))
            is_new = await self._runs.create(replace(start, traceparent=context.header))
        except Refused as refused:
            await self._refusals.bury(self._source, message, refused.code)
        except _POISON as error:
            await self._refusals.bury(self._source, message, error.code)
        except _AWAY:
            raise
        except Exception as error:
            await self._count(message, error)
        else:
            self._counts.runs_created += is_new
            self._counts.runs_known += not is_new
            self._receipts.has_run(message, start.request_id, str(body.correlation_id), is_new=is_new)

    async def _count(self, message: Incoming, error: Exception) -> None:
        """No message is retried forever, whatever the error."""
        place = (message.partition, message.offset)
        self._tries[place] = self._tries.get(place, 0) + 1
        if self._tries[place] < MAX_TRIES:
            raise error
        code = error.code if isinstance(error, PodiumError) else "INTERNAL_ERROR"
        await self._refusals.bury(self._source, message, code)
