"""Delivers the outbox to a bus: each event at least once, first deliveries in the order of their run.

A relay claims the lines of several runs, publishes the events of each in order and removes what was delivered. A
failing event holds its own run's line only: it is tried again with growing pauses, and after ten failures an alert is
raised, it becomes a dead letter, and the line continues. A bus that does not answer, or does not accept the
credentials, is not the fault of an event: the lines are released as they were, and claimed again when it is back. A
relay that dies leaves claims that lapse; what it had published and not removed is published again. One that is stopped
finishes the lines at hand. Any number of relays may work on one store.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from podium.errors import PodiumError, RunNotFound
from podium.log.alerts import Alert, AlertCode
from podium.log.ids import RunId
from podium.log.outbox import OutboxClaim
from podium.ports.bus import BusRefused, BusUnavailable, DeliveryPostponed, EventBus
from podium.ports.store import Outbox
from podium.runtime.alerts import Alerting
from podium.text import typed_reason

MAX_FAILURES: Final = 10
FIRST_PAUSE: Final = timedelta(milliseconds=100)
MAX_PAUSE: Final = timedelta(seconds=30)
CLAIM_TTL: Final = timedelta(seconds=30)
# Several runs keep a bus that confirms batches busy; more of them would only wait for the store.
CONCURRENT_LINES: Final = 16
# A claim and a removal are a commit each, so they cover many events.
_MAX_EVENTS: Final = 500
_POSTPONED: Final = timedelta(minutes=1)
_IDLE: Final = 0.2
_FIRST_OUTAGE_PAUSE: Final = 0.5
_MAX_OUTAGE_PAUSE: Final = 10.0


def pause_after(failures: int, jitter: float) -> timedelta:
    """The delay after this many failures: 100 ms, doubling up to 30 s; `jitter` (0 to 1) removes up to half
    of it.
    """
    doublings = min(failures - 1, 20)
    full = min(MAX_PAUSE, FIRST_PAUSE * (1 << doublings))
    return full * (1 - jitter / 2)


class RelayView:
    """Shows what a relay does. The default does nothing."""

    def delivered(self, run_id: RunId, count: int, through_seq: int) -> None: ...

    def failed(self, run_id: RunId, run_seq: int, failures: int, error: str, *, is_dead: bool) -> None: ...

    def bus_is_away(self, reason: str) -> None:
        """Once for each time that the bus stops answering, or accepting the credentials."""


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
        max_failures: int = MAX_FAILURES,
    ) -> None:
        self._outbox = outbox
        self._bus = bus
        self._alerting = alerting
        self._owner = owner
        self._claim_ttl = claim_ttl
        self._jitter = jitter
        self._view = view or RelayView()
        self._concurrent_lines = concurrent_lines
        self._max_failures = max_failures
        self._stopping = asyncio.Event()
        # Consecutive failed calls of the bus.
        self._outage = 0
        self._why_away: PodiumError | None = None

    @property
    def is_bus_away(self) -> bool:
        return self._outage > 0

    def stop(self) -> None:
        """`run` returns as soon as the current claims are delivered."""
        self._stopping.set()

    async def run(self) -> None:
        """Deliver until stopped."""
        while not self._stopping.is_set():
            if not await self._deliver_lines():
                await self.pause(_IDLE)
            elif self._outage:
                await self.pause(min(_MAX_OUTAGE_PAUSE, _FIRST_OUTAGE_PAUSE * 2 ** min(self._outage, 10)))

    async def run_once(self) -> None:
        """Deliver what waits now; a line whose first event has failed is left for later.

        Raises `BusUnavailable` and `BusRefused`.
        """
        while not self._stopping.is_set() and await self._deliver_lines():
            if self._outage and self._why_away is not None:
                raise self._why_away

    async def pause(self, seconds: float) -> None:
        """Returns early if the relay is stopped."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def deliver_line(self) -> bool:
        """Deliver the events of one run; False if no run had any."""
        claim = await self._claim()
        if claim is None:
            return False
        await self._deliver(claim)
        return True

    async def _deliver_lines(self) -> bool:
        """Deliver for several runs concurrently until none is left, the bus is unavailable, or it is stopped;
        False if none was left.
        """
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
                # While the bus is unavailable, only one run at a time tests whether it is back. A run whose
                # events were delivered may have more, so it is claimed again.
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
        except (BusUnavailable, BusRefused) as error:
            await self._bus_is_away(claim, error)
        except DeliveryPostponed as error:
            await self._outbox.failed(claim, str(error), retry_in=_POSTPONED)
        except Exception as error:
            await self._failed(claim, typed_reason(error))
        else:
            self._outage = 0
            # Also for a partial delivery: its next claim starts with the failing event.
            await self._delivered(claim, claim.records[count - 1].run_seq, count)

    async def _bus_is_away(self, claim: OutboxClaim, error: PodiumError) -> None:
        if not self._outage:
            self._view.bus_is_away(str(error))
        self._outage += 1
        self._why_away = error
        # Released unchanged: nothing is removed, and no failure is counted.
        await self._outbox.delivered(claim, 0)

    async def _delivered(self, claim: OutboxClaim, through_seq: int, count: int) -> None:
        if await self._outbox.delivered(claim, through_seq):
            self._view.delivered(claim.run_id, count, through_seq)

    async def _failed(self, claim: OutboxClaim, error: str) -> None:
        failures = claim.failures + 1
        is_dead = failures >= self._max_failures
        self._view.failed(claim.run_id, claim.records[0].run_seq, failures, error, is_dead=is_dead)
        if not is_dead:
            await self._outbox.failed(claim, error, retry_in=pause_after(failures, self._jitter()))
            return
        # The alert first: if the process crashes in between, the next relay finds it raised and makes the
        # event a dead letter. The other way round, an event could become a dead letter without an alert.
        await self._raise_alert(claim, failures, error)
        await self._outbox.failed(claim, error, retry_in=None)

    async def _raise_alert(self, claim: OutboxClaim, failures: int, error: str) -> None:
        first = claim.records[0]
        message = (
            f"{self._bus.name} refused {first.event_type} (event {first.run_seq}) {failures} times: {error}"
        )
        subject = f"{self._bus.name}:{first.run_seq}"
        with suppress(RunNotFound):  # another relay was faster, and then the run was removed
            await self._alerting.raise_alert(
                claim.run_id, Alert(AlertCode.EVENT_BUS_DELIVERY_FAILED, subject, message)
            )


async def _without_ended(under_way: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Wait for the first of them, and raise its error."""
    ended, others = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        task.result()
    return others
