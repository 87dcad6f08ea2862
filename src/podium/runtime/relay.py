"""Delivers the outbox to a bus: each event at least once, first deliveries in the order of their run.

A relay claims the line of one run, publishes its events in order and removes what was delivered. A failing event
holds its own run's line only: it is tried again with growing pauses, and after ten failures an alert is raised, it
becomes a dead letter, and the line continues. A relay that dies leaves a claim that lapses; what it had published and
not removed is published again. One that is stopped finishes the event at hand and releases its claim. Any number of
relays may work on one store.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from podium.errors import RunNotFound
from podium.log.alerts import Alert, AlertCode
from podium.log.ids import RunId
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


class RelayView:
    """Shows what a relay does. The default shows nothing."""

    def delivered(self, run_id: RunId, count: int, through_seq: int) -> None: ...

    def failed(self, run_id: RunId, run_seq: int, failures: int, error: str, *, is_dead: bool) -> None: ...


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
        view: RelayView | None = None,
    ) -> None:
        self._outbox = outbox
        self._bus = bus
        self._alerting = alerting
        self._owner = owner
        self._claim_ttl = claim_ttl
        self._jitter = jitter
        self._view = view or RelayView()
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """`run` returns as soon as the event at hand is delivered."""
        self._stopping.set()

    async def run(self) -> None:
        """Deliver until stopped."""
        while not self._stopping.is_set():
            if not await self.deliver_line():
                await self.pause(_IDLE)

    async def run_once(self) -> None:
        """Deliver what waits now; a line whose first event has failed is left for later."""
        while not self._stopping.is_set() and await self.deliver_line():
            pass

    async def pause(self, seconds: float) -> None:
        """Shorter if it is stopped."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def deliver_line(self) -> bool:
        """Deliver what one run has waiting; False if no run had anything."""
        claim = await self._outbox.claim_line(self._bus.name, owner=self._owner, ttl=self._claim_ttl)
        if claim is None:
            return False
        delivered = count = 0
        for record in claim.records:
            # Never before the first: a claim that delivered nothing could only be left to lapse.
            if count and self._stopping.is_set():
                break
            try:
                await self._bus.publish(record)
            except Exception as error:
                await self._failed(claim, delivered, count, typed_reason(error))
                return True
            delivered, count = record.run_seq, count + 1
        await self._delivered(claim, delivered, count)
        return True

    async def _delivered(self, claim: OutboxClaim, through_seq: int, count: int) -> None:
        if await self._outbox.delivered(claim, through_seq):
            self._view.delivered(claim.run_id, count, through_seq)

    async def _failed(self, claim: OutboxClaim, delivered: int, count: int, error: str) -> None:
        if delivered:
            # What was delivered is removed, and the line released; its next claim starts with the failing event.
            await self._delivered(claim, delivered, count)
            return
        failures = claim.failures + 1
        is_dead = failures >= MAX_FAILURES
        self._view.failed(claim.run_id, claim.records[0].run_seq, failures, error, is_dead=is_dead)
        if not is_dead:
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
