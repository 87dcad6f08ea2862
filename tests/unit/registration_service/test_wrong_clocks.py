"""Clocks that are wrong, and a bus that was away: no node that could not send its heartbeats in time expires."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from podium.log.messages import Message
from podium.operations.registration.serving import RegistrationService
from podium.ports.bus import BusUnavailable
from tests.unit.registration.building import ack, heartbeat, introspection, node_id
from tests.unit.registration_service.world import TOPICS, Site, serving


async def active(site: Site, count: int) -> None:
    for number in range(1, count + 1):
        site.send(introspection(number))
    await site.until_states(AWAITING_ACK=count)
    for number in range(1, count + 1):
        site.send(ack(number))
    await site.until_states(ACTIVE=count)


async def heartbeats(site: Site, count: int, seconds: float) -> None:
    """Every 20 s, for so long."""
    end = site.clock.elapsed() + seconds
    while site.clock.elapsed() < end:
        for number in range(1, count + 1):
            site.send(heartbeat(number, seconds=site.clock.elapsed() + 1))
        await asyncio.sleep(20)


def milliseconds(site: Site, ahead: timedelta) -> int:
    return int((site.clock.now() + ahead).timestamp() * 1000)


def put(site: Site, event_type: str, value: bytes, **facts: Any) -> None:
    """A message with these facts, as the bus has it."""
    kept = site.topics.topics[TOPICS[event_type]]
    site.topics.put(TOPICS[event_type], None, value)
    kept[-1] = replace(kept[-1], **facts)


@pytest.mark.rule("R03")
def test_nodes_do_not_expire_because_the_bus_was_away_longer_than_they_may_be_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        async def is_away(messages: Sequence[Message]) -> None:
            raise BusUnavailable("away")

        await active(site, 5)
        await heartbeats(site, 4, 60)
        with monkeypatch.context() as patched:
            patched.setattr(service.world.bus, "send", is_away)
            await asyncio.sleep(200)
        await asyncio.sleep(15)
        await heartbeats(site, 4, 200)
        # The one that stays silent when the bus is back expires.
        assert await site.states() == {"ACTIVE": 4, "LIVENESS_EXPIRED": 1}

    serving(tmp_path, work)


@pytest.mark.rule("R03")
def test_a_slow_tick_is_not_taken_for_an_outage(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        await active(site, 1)
        await site.until_states(LIVENESS_EXPIRED=1)

    serving(tmp_path, work, tick=40)


@pytest.mark.rule("R03")
def test_a_clock_of_this_process_that_lags_does_not_shorten_the_life_of_a_node(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        await active(site, 1)
        lag = timedelta(minutes=10)
        body = heartbeat(1, seconds=site.clock.elapsed() + 1).model_dump_json().encode()
        put(site, "NodeHeartbeatEvent", body, timestamp=milliseconds(site, lag))
        expected = site.clock.now() + lag + timedelta(seconds=89)

        async def is_renewed() -> bool:
            row: Any = await site.table.read(node_id(1))
            return bool(row.liveness_deadline > expected)

        await site.until(is_renewed, 30)

    serving(tmp_path, work)


@pytest.mark.rule("R03")
def test_a_node_that_acknowledges_to_a_process_whose_clock_lags_does_not_expire_immediately(
    tmp_path: Path,
) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        lag = timedelta(minutes=10)
        body = introspection(1).model_dump_json().encode()
        put(site, "NodeIntrospectionEvent", body, timestamp=milliseconds(site, lag))
        await site.until_states(AWAITING_ACK=1)
        row: Any = await site.table.read(node_id(1))
        assert row.ack_deadline > site.clock.now() + lag + timedelta(seconds=20)
        put(
            site,
            "NodeRegistrationAcked",
            ack(1).model_dump_json().encode(),
            timestamp=milliseconds(site, lag),
        )
        await site.until_states(ACTIVE=1)
        row = await site.table.read(node_id(1))
        assert row.liveness_deadline > site.clock.now() + lag + timedelta(seconds=80)
        # What it saw then says nothing about its clock later.
        await asyncio.sleep(61)
        assert service.world.time.now() == site.clock.now()

    serving(tmp_path, work)


@pytest.mark.rule("R03")
def test_a_sender_does_not_choose_the_time_that_its_tick_is_compared_with(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        await active(site, 2)
        ahead = timedelta(days=1)
        tick = f'{{"now": "{(site.clock.now() + ahead).isoformat()}"}}'.encode()
        put(site, "RuntimeTick", tick, timestamp=milliseconds(site, ahead), is_timed_by_bus=False)
        await asyncio.sleep(5)
        assert await site.states() == {"ACTIVE": 2}
        assert "TICK_REFUSED" in site.view.alerts

    serving(tmp_path, work)
