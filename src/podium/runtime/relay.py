"""Delivers the outbox to a bus: each event at least once, first deliveries in the order of their run.

A relay claims the lines of several runs, publishes the events of each in order and removes what was delivered. A
failing event holds its own run's line only: it is tried again with growing pauses, and after ten failures an alert is
raised, it becomes a dead letter, and the line continues. A bus that does not answer is no event's fault: the lines
are released as they were, and claimed again when it is back. A relay that dies leaves claims that lapse; what it had
published and not removed is published again. One that is stopped finishes the lines at hand. Any number of relays may
work on one store.
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
from podium.ports.bus import BusUnavailable, EventBus
from podium.ports.store import Outbox
from podium.runtime.alerts import Alerting
from podium.text import typed_reason

MAX_FAILURES: Final = 10
FIRST_PAUSE: Final = timedelta(milliseconds=100)
MAX_PAUSE: Final = timedelta(seconds=30)
CLAIM_TTL: Final = timedelta(seconds=30)
# A bus that confirms batches is kept busy by several lines; more of them only wait for the store.
CONCURRENT_LINES: Final = 16
# A claim and a removal are a commit each, so they are for many events.
_MAX_EVENTS: Final = 500
_IDLE: Final = 0.2
_FIRST_OUTAGE_PAUSE: Final = 0.5
_MAX_OUTAGE_PAUSE: Final = 10.0


def pause_after(failures: int, jitter: float) -> timedelta:
    """The wait after this many failures: 100 ms, doubling up to 30 s; `jitter` (0 to 1) takes up to half off."""
    doublings = min(failures - 1, 20)
    full = min(MAX_PAUSE, FIRST_PAUSE * (1 << doublings))
    return full * (1 - jitter / 2)


class RelayView:
    """Shows what a relay does. The default shows nothing."""

    def delivered(self, run_id: RunId, count: int, through_seq: int) -> None: ...

    def failed(self, run_id: RunId, run_seq: int, failures: int, error: str, *, is_dead: bool) -> None: ...

    def bus_is_away(self, reason: str) -> None:
        """Once for each time that the bus stops answering."""


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
        concurrent_lines: int = CONCURRENT_LINES,
    ) -> None:
        self._outbox = outbox
        self._bus = bus
        self._alerting = alerting
        self._owner = owner
        self._claim_ttl = claim_ttl
        self._jitter = jitter
        self._view = view or RelayView()
        self._concurrent_lines = concurrent_lines
        self._stopping = asyncio.Event()
        # Failed calls of the bus in a row.
        self._outage = 0
        self._why_away = ""

    def stop(self) -> None:
        """`run` returns as soon as the lines at hand are delivered."""
        self._stopping.set()

    async def run(self) -> None:
        """Deliver until stopped."""
        while not self._stopping.is_set():
            if not await self._deliver_lines():
                await self.pause(_IDLE)
            elif self._outage:
                await self.pause(min(_MAX_OUTAGE_PAUSE, _FIRST_OUTAGE_PAUSE * 2 ** min(self._outage, 10)))

    async def run_once(self) -> None:
        """Deliver what waits now; a line whose first event has failed is left for later. Raises `BusUnavailable`."""
        while not self._stopping.is_set() and await self._deliver_lines():
            if self._outage:
                raise BusUnavailable(self._why_away)

    async def pause(self, seconds: float) -> None:
        """Shorter if it is stopped."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def deliver_line(self) -> bool:
        """Deliver what one run has waiting; False if no run had anything."""
        claim = await self._claim()
        if claim is None:
            return False
        await self._deliver(claim)
        return True

    async def _deliver_lines(self) -> bool:
        """Several lines concurrently, until none is free, the bus is away, or it is stopped; False if none was free."""
        under_way: set[asyncio.Task[None]] = set()
        found, outage = False, self._outage
        try:
            while not self._stopping.is_set() and self._outage <= outage:
                outage = self._outage
                claim = await self._claim()
                if claim is not None:
                    found = True
                    under_way.add(asyncio.create_task(self._deliver(claim)))
                elif not under_way:
                    break
                # While the bus is away, one line at a time asks whether it is back. A line that was delivered may
                # have more, so it is looked for again.
                if claim is None or outage or len(under_way) >= self._concurrent_lines:
                    under_way = await _without_ended(under_way)
        except asyncio.CancelledError:
            for task in under_way:
                task.cancel()
            raise
        finally:
            await asyncio.gather(*under_way, return_exceptions=True)
        for task in under_way:
            task.result()
        return found

    async def _claim(self) -> OutboxClaim | None:
        return await self._outbox.claim_line(
            self._bus.name, owner=self._owner, ttl=self._claim_ttl, limit=_MAX_EVENTS
        )

    async def _deliver(self, claim: OutboxClaim) -> None:
        try:
            count = await self._bus.publish(claim.records)
        except BusUnavailable as error:
            await self._bus_is_away(claim, str(error))
        except Exception as error:
            await self._failed(claim, typed_reason(error))
        else:
            self._outage = 0
            # Also if it is only a part: its next claim starts with the failing event.
            await self._delivered(claim, claim.records[count - 1].run_seq, count)

    async def _bus_is_away(self, claim: OutboxClaim, reason: str) -> None:
        if not self._outage:
            self._view.bus_is_away(reason)
        self._outage += 1
        self._why_away = reason
        # Released as it was; nothing is removed, and no failure is counted.
        await self._outbox.delivered(claim, 0)

    async def _delivered(self, claim: OutboxClaim, through_seq: int, count: int) -> None:
        if await self._outbox.delivered(claim, through_seq):
            self._view.delivered(claim.run_id, count, through_seq)

    async def _failed(self, claim: OutboxClaim, error: str) -> None:
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


async def _without_ended(under_way: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Waits for the first of them. Raises what it raised."""
    ended, others = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        task.result()
    return others
