"""How long a process that has driven its runs delivers notifications."""

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from podium.engines.deliveries import Deliveries
from podium.engines.parts import LocalParts
from podium.log.ids import RunId
from podium.log.outbox import OutboxLine
from podium.log.times import timestamp
from podium.ports.telemetry import SILENT

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class _Store:
    """Has a notification that is never delivered; after the fourth look it is gone."""

    def __init__(self, due_in: float) -> None:
        self._line = OutboxLine(
            bus="podium-notify",
            run_id=RunId("other"),
            waiting=1,
            first_seq=1,
            failures=3,
            next_at=timestamp(NOW + timedelta(seconds=due_in)),
            error="answered 500",
        )
        self.looks = 0

    async def add_bus(self, name: str, **options: object) -> None: ...

    async def claim_line(self, bus: str, **options: object) -> None: ...

    async def has_waiting(self, bus: str) -> bool:
        return bool(await self.outbox_lines(bus))

    async def outbox_lines(self, bus: str) -> list[OutboxLine]:
        self.looks += 1
        return [self._line] if self.looks <= 4 else []


@pytest.mark.parametrize(
    ("due_in", "looks"),
    [
        pytest.param(60, 2, id="not due before the end"),
        pytest.param(1, 5, id="due before the end"),
    ],
)
def test_a_process_that_ends_waits_only_for_what_is_due_soon(due_in: float, looks: int) -> None:
    store = _Store(due_in)
    parts = SimpleNamespace(store=store, secrets={}, clock=SimpleNamespace(now=lambda: NOW), telemetry=SILENT)

    async def finish() -> None:
        deliveries = Deliveries(cast("LocalParts", parts), None)
        deliveries.end()
        await asyncio.wait_for(deliveries.run(), 60)

    asyncio.run(finish())
    assert store.looks == looks
