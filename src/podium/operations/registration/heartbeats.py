"""Heartbeats create no runs: each batch of them is one statement."""

from collections.abc import Callable, Sequence
from datetime import datetime

from podium.nodes.registration.decoding import Refused
from podium.nodes.registration.intake import NodeHeartbeatEvent, renewals
from podium.nodes.registration.models.model_orchestrator_config import TimeInjection
from podium.operations.registration.counting import Counts
from podium.operations.registration.refusing import Refusals
from podium.operations.registration.starting import read_body, received_at
from podium.ports.catalog import CatalogUnavailable, RegistrationTable
from podium.ports.clock import Clock
from podium.ports.events_in import EventSource, Incoming


class Heartbeats:
    """`on_outage`: called when the table does not answer."""

    def __init__(
        self,
        source: EventSource,
        event_type: str,
        table: RegistrationTable,
        time: TimeInjection,
        refusals: Refusals,
        clock: Clock,
        counts: Counts,
        *,
        max_batch: int,
        on_outage: Callable[[], None],
    ) -> None:
        self._source = source
        self._event_type = event_type
        self._table = table
        self._time = time
        self._refusals = refusals
        self._clock = clock
        self._counts = counts
        self._max_batch = max_batch
        self._on_outage = on_outage

    async def handle(self, messages: Sequence[Incoming]) -> None:
        read = [one for message in messages if (one := await self._read(message)) is not None]
        try:
            for batch in renewals(read, self._now(messages), self._time, self._max_batch):
                self._counts.renewed += await self._table.renew(batch)
        except CatalogUnavailable:
            self._on_outage()
            raise
        self._counts.received[self._event_type] += len(messages)

    def _now(self, messages: Sequence[Incoming]) -> datetime:
        """A slow clock of this process must not cause deadlines for live nodes."""
        return max([self._clock.now(), *(received_at(message, self._clock) for message in messages)])

    async def _read(self, message: Incoming) -> NodeHeartbeatEvent | None:
        try:
            body = read_body(message, self._event_type, self._clock)
        except Refused as refused:
            await self._refusals.bury(self._source, message, refused.code)
            return None
        assert isinstance(body, NodeHeartbeatEvent)
        return body
