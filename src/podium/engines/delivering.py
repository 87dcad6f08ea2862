"""Starts the delivery of notifications when the first one is due: most runs and most stores have none."""

import asyncio
from collections.abc import Sequence
from contextvars import Context
from typing import TYPE_CHECKING

from podium.engines.parts import LocalParts
from podium.log.events import EventRecord, EventType
from podium.log.outbox import NOTIFICATIONS

if TYPE_CHECKING:
    from podium.engines.deliveries import Deliveries


class Delivering:
    """Active while this process drives runs of these tenants; None: all tenants."""

    def __init__(self, parts: LocalParts, tenants: frozenset[str] | None) -> None:
        self._parts = parts
        self._tenants = tenants
        self._deliveries: Deliveries | None = None
        self._task: asyncio.Task[None] | None = None

    def observe(self, records: Sequence[EventRecord]) -> None:
        """An `Observer`."""
        for record in records:
            if record.event_type == EventType.NOTIFICATION_DUE:
                self._start().wake()

    def _start(self) -> "Deliveries":
        if self._deliveries is None:
            from podium.engines.deliveries import Deliveries

            self._deliveries = Deliveries(self._parts, self._tenants)
            # For all runs: its log lines are not about the first one.
            self._task = asyncio.create_task(self._deliveries.run(), context=Context())
        return self._deliveries

    async def finish(self) -> None:
        """Also delivers what other processes have left."""
        if self._deliveries is None and not await self._parts.store.has_waiting(NOTIFICATIONS):
            return
        from podium.engines.deliveries import finish

        deliveries = self._start()
        assert self._task is not None
        await finish(deliveries, self._task)
