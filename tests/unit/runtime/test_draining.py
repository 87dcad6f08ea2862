"""A pause that is not drained in time is alerted about, once."""

import asyncio
import contextlib

import pytest

from podium.log.events import EventType
from podium.log.ids import RunId
from podium.runtime.alerts import Alerting
from podium.runtime.draining import DRAIN_SECONDS, watch_draining
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.store_promises import started
from podium.testing.virtual_time import run_virtually

R1 = RunId("r1")


class Driver:
    running = 1
    draining_since: int | None = None


async def alerts(store: MemoryStore) -> list[bytes]:
    return [one.payload for one in await store.read(R1) if one.event_type == EventType.ALERT_RAISED]


@pytest.mark.rule("G15")
def test_a_drain_of_five_minutes_raises_an_alert_once_for_each_pause() -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        store, driver = MemoryStore(clock), Driver()
        await started(store)
        watching = asyncio.create_task(watch_draining(driver, R1, lambda: Alerting(store, clock)))
        driver.draining_since = 1
        await asyncio.sleep(DRAIN_SECONDS - 10)
        assert await alerts(store) == []
        await asyncio.sleep(30)
        (alert,) = await alerts(store)
        assert b"PAUSE_DRAIN_TIMEOUT" in alert
        assert b"1 step still runs 5 minutes after the run was paused" in alert
        await asyncio.sleep(3600)
        driver.draining_since = None
        await asyncio.sleep(10)
        driver.draining_since = 2
        await asyncio.sleep(DRAIN_SECONDS + 30)
        assert len(await alerts(store)) == 2
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching

    run_virtually(scenario())
