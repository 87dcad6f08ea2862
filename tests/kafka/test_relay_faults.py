"""A broker that is killed while a relay publishes: nothing is lost, the order per run holds, no event is blamed."""

import asyncio
import json
from pathlib import Path

import pytest

from podium.buses.kafka import KafkaBus
from podium.buses.kafka_settings import KafkaConnection, parse_address
from podium.ports.events_in import EventSource
from podium.runtime.alerts import Alerting
from podium.runtime.relay import Relay, RelayView
from podium.stores.sqlite import SqliteStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event, new_run
from services import kafka
from tests.promises.buses.worlds import kafka_world
from tests.servers import need

pytestmark = pytest.mark.timeout(400, func_only=True)

RUNS = [f"r{number}" for number in range(12)]
EVENTS = 150


class Outages(RelayView):
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def bus_is_away(self, reason: str) -> None:
        self.reasons.append(reason)


async def fill(store: SqliteStore, name: str) -> None:
    for run_id in RUNS:
        own = f"{name}{run_id}"
        steps = [event(own, "StepStarted", f"s{number}") for number in range(EVENTS - 1)]
        await store.create_run(new_run(own), [event(own, "RunQueued"), *steps])


async def first_deliveries(source: EventSource) -> dict[bytes | None, list[int]]:
    """By run, in the order of arrival, until every event has come; repeated ones left out."""
    first: dict[bytes | None, list[int]] = {}
    await source.open()
    while sum(map(len, first.values())) < 3 * len(RUNS) * EVENTS:
        for one in await source.receive(500):
            seq = json.loads(one.value)["runSeq"]
            if seq not in first.setdefault(one.key, []):
                first[one.key].append(seq)
    await source.close()
    return first


@pytest.mark.rule("RB06")
def test_a_broker_that_is_killed_while_a_relay_publishes_loses_nothing_and_no_event_is_blamed(
    tmp_path: Path,
) -> None:
    async def scenario(server: kafka.KafkaServer) -> None:
        world, view = kafka_world(server.address, partitions=2), Outages()
        topic = world.topic("events")
        await world.create([topic])
        store = await SqliteStore.open(tmp_path / "podium.db")
        connection = KafkaConnection(parse_address(f"kafka://{server.address}", topic), {})
        bus = KafkaBus(connection, patience=3.0)
        await store.add_bus(bus.name)
        relay = Relay(store, bus, Alerting(store, VirtualClock()), owner="relay", view=view)
        await fill(store, "a")
        working = asyncio.create_task(relay.run())
        await asyncio.to_thread(server.kill9)
        await fill(store, "b")
        while not view.reasons:
            await asyncio.sleep(0.05)
        await asyncio.to_thread(server.restart)
        await fill(store, "c")
        while await store.outbox_lines():
            await asyncio.sleep(0.1)
        relay.stop()
        await working
        await bus.close()
        assert await store.dead_letters() == []
        await store.close()
        first = await first_deliveries(world.make_source(topic, "reader"))
        assert first.keys() == {f"{name}{run_id}".encode() for name in "abc" for run_id in RUNS}
        assert all(seqs == list(range(1, EVENTS + 1)) for seqs in first.values())

    with need(lambda: kafka.start(private=True)) as server:
        asyncio.run(asyncio.wait_for(scenario(server), 300))
