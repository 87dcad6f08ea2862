"""Delivers the notifications of a store while this process drives runs of it.

No run waits for a delivery. At the end of its work a process spends a few seconds on what is left; the next
process on the store delivers the rest.
"""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from podium.engines.hosting import load_first_facts
from podium.engines.parts import LocalParts
from podium.errors import PodiumError
from podium.log.ids import RunId
from podium.log.outbox import NOTIFICATIONS, OutboxLine
from podium.log.times import moment
from podium.plan.secret_inputs import secret_inputs
from podium.ports.bus import BusUnavailable
from podium.runtime import holders
from podium.runtime.alerts import Alerting
from podium.runtime.notification_bus import WANTED, NotificationBus, PlannedRun
from podium.runtime.plan_file import load_plan
from podium.runtime.relay import Relay
from podium.runtime.secret_inputs import with_secret_inputs

# Longer than one delivery may take.
CLAIM_TTL: Final = timedelta(seconds=45)
# A receiver may be unavailable for a while: the last delays are half a minute each.
MAX_FAILURES: Final = 30
_LAST_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.3
# Interval for checking what other processes have left.
_IDLE_SECONDS: Final = 10.0


class Deliveries:
    def __init__(
        self, parts: LocalParts, tenants: frozenset[str] | None, *, claim_ttl: timedelta = CLAIM_TTL
    ) -> None:
        """`tenants`: whose notifications may use secrets of this process; None: all tenants'."""
        self._parts = parts
        bus = NotificationBus(self._run_of, parts.secrets, tenants)
        alerting = Alerting(parts.store, parts.clock, telemetry=parts.telemetry)
        self._relay = Relay(
            parts.store,
            bus,
            alerting,
            owner=holders.new_owner(),
            claim_ttl=claim_ttl,
            max_failures=MAX_FAILURES,
        )
        self._is_registered = False
        self._was_due = False
        self._wake = asyncio.Event()
        self._ends_at: datetime | None = None

    def wake(self) -> None:
        """A notification is due."""
        self._was_due = True
        self._wake.set()

    async def run(self) -> None:
        """Runs until it is cancelled, or until nothing more can be delivered after `end`."""
        while True:
            self._wake.clear()
            waiting, is_worthwhile = True, True
            with suppress(PodiumError):  # the store does not answer: retried
                left = await self._deliver_lines()
                waiting, is_worthwhile = bool(left), any(map(self._is_due_before_the_end, left))
            if self._ends_at is not None and not is_worthwhile:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _LOOK_SECONDS if waiting else _IDLE_SECONDS)

    async def deliver_waiting(self) -> int:
        """Deliver what can be delivered now; returns how many are left because their receiver or this process
        failed.
        """
        return sum(line.waiting for line in await self._deliver_lines())

    async def _deliver_lines(self) -> list[OutboxLine]:
        store = self._parts.store
        if not self._is_registered:
            if not self._was_due and not await store.has_waiting(NOTIFICATIONS):
                return []
            await store.add_bus(NOTIFICATIONS, from_start=True, only=WANTED)
            self._is_registered = True
        with suppress(BusUnavailable):
            await self._relay.run_once()
        return await store.outbox_lines(NOTIFICATIONS)

    def end(self) -> None:
        """No more runs: `run` returns when nothing is left that is due within the last seconds."""
        self._ends_at = self._parts.clock.now() + timedelta(seconds=_LAST_SECONDS)
        self._wake.set()

    def _is_due_before_the_end(self, line: OutboxLine) -> bool:
        return self._ends_at is None or line.next_at is None or moment(line.next_at) < self._ends_at

    async def _run_of(self, run_id: RunId) -> PlannedRun:
        parts = self._parts
        run = await parts.store.get_run(run_id)
        plan = await load_plan(parts.store, parts.directory(run_id), run)
        declared = secret_inputs(plan.workflow)
        if not declared:
            return PlannedRun(plan, frozenset())
        asked, _ = await load_first_facts(parts, run)
        return PlannedRun(plan, with_secret_inputs({}, declared, asked.inputs).variables)


async def finish(deliveries: Deliveries, task: "asyncio.Task[None]") -> None:
    """Deliver what is left when the process ends, for at most a few seconds."""
    deliveries.end()
    await asyncio.wait({task}, timeout=_LAST_SECONDS)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
