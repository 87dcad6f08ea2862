"""Notifications as a bus: the rows of an outbox of their own, delivered by any process that drives runs of a
store.

The bus receives `NotificationDue` only. The first delivering process registers it, starting at the very first
event, so that no earlier notification is missed, on any engine.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.log.outbox import NOTIFICATIONS, BusFilter, bus_filter
from podium.log.payloads import payload_of
from podium.plan.plan import Plan
from podium.ports.bus import DeliveryPostponed
from podium.runtime.notifications import Due, deliver, notice_of, target_of

WANTED: Final[BusFilter] = bus_filter((EventType.NOTIFICATION_DUE.value,))


class PlannedRun(NamedTuple):
    plan: Plan
    # Variables with the values of the run's secret inputs.
    secret_variables: frozenset[str]


class NotificationBus:
    """An `EventBus`."""

    name = NOTIFICATIONS

    def __init__(
        self,
        run_of: Callable[[RunId], Awaitable[PlannedRun]],
        values: Mapping[str, str],
        tenants: frozenset[str] | None,
    ) -> None:
        self._run_of = run_of
        self._values = values
        self._tenants = tenants

    async def publish(self, records: Sequence[EventRecord]) -> int:
        """One at a time: a claim has to outlast what is done under it."""
        record = records[0]
        if self._tenants is not None and record.run.tenant_id not in self._tenants:
            # The run's workflow would be given secrets of another tenant.
            raise DeliveryPostponed("this process does not work for the tenant of the run")
        if record.event_type == EventType.NOTIFICATION_DUE:
            due = payload_of(record, Due)
            plan, secret_variables = await self._run_of(record.run.run_id)
            target, workflow = target_of(plan, due)
            notice = notice_of(record, due, plan)
            await deliver(target, workflow, notice, self._values, secret_variables)
        return 1

    async def close(self) -> None:
        """Nothing stays open between two notifications."""
