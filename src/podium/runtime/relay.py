"""Delivers the outbox to a bus: each event at least once, first deliveries in the order of their run.

A relay claims the line of one run, publishes its events in order and removes what was delivered. A failing event
holds its own run's line only: it is tried again with growing pauses, and after ten failures an alert is raised, it
becomes a dead letter, and the line goes on. A relay that dies leaves a claim that lapses; what it had published and not
removed is published again. Any number of relays may work on one store.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from podium.errors import RunNotFound
from podium.log.alerts import Alert, AlertCode
from podium.log.outbox import OutboxClaim
from podium.ports.bus import EventBus
from podium.ports.store import Outbox
from podium.runtime.alerts import Alerting
from podium.text import typed_reason

MAX_FAILURES: Final = 10
FIRST_PAUSE: Final = timedelta(milliseconds=100)
MAX_PAUSE: Final = timedelta(seconds=30)
CLAIM_TTL: Final = timedelta(seconds=30)
_IDLE: Final = 0.2


def pause_after(failures: int, jitter: float) -> timedelta:
    """The wait after this many failures: 100 ms, doubling up to 30 s; `jitter` (0 to 1) takes up to half off."""
    doublings = min(failures - 1, 20)
    full = min(MAX_PAUSE, FIRST_PAUSE * (1 << doublings))
    return full * (1 - jitter / 2)


class Relay:
    """One worker for one bus."""

    def __init__(
        self,
        outbox: Outbox,
        bus: EventBus,
        alerting: Alerting,
        *,
        owner: str,
        claim_ttl: timedelta = CLAIM_TTL,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._outbox = outbox
        self._bus = bus
        self._alerting = alerting
        self._owner = owner
        self._claim_ttl = claim_ttl
        self._jitter = jitter

    async def run(self) -> None:
        """Deliver until cancelled."""
        while True:
            if not await self.deliver_line():
                await asyncio.sleep(_IDLE)

    async def deliver_line(self) -> bool:
        """Deliver what one run has waiting; False if no run had anything."""
        claim = await self._outbox.claim_line(self._bus.name, owner=self._owner, ttl=self._claim_ttl)
        if claim is None:
            return False
        delivered = 0
        for record in claim.records:
            try:
                await self._bus.publish(record)
            except Exception as error:
                await self._failed(claim, delivered, typed_reason(error))
                return True
            delivered = record.run_seq
        await self._outbox.delivered(claim, delivered)
        return True

    async def _failed(self, claim: OutboxClaim, delivered: int, error: str) -> None:
        if delivered:
            # What went through is removed, and the line is given up; its next claim begins with the failing event.
            await self._outbox.delivered(claim, delivered)
            return
        failures = claim.failures + 1
        if failures < MAX_FAILURES:
            await self._outbox.failed(claim, error, retry_in=pause_after(failures, self._jitter()))
            return
        # The alert first: after a crash in between, the next relay finds it raised and buries the event. The other
        # way round, an event would be dead and nobody told.
        await self._raise_alert(claim, failures, error)
        await self._outbox.failed(claim, error, retry_in=None)

    async def _raise_alert(self, claim: OutboxClaim, failures: int, error: str) -> None:
        first = claim.records[0]
        message = (
            f"{self._bus.name} refused {first.event_type} (event {first.run_seq}) {failures} times: {error}"
        )
        subject = f"{self._bus.name}:{first.run_seq}"
        with suppress(RunNotFound):  # another relay was quicker, and then the run was removed
            await self._alerting.raise_alert(
                claim.run_id, Alert(AlertCode.EVENT_BUS_DELIVERY_FAILED, subject, message)
            )
