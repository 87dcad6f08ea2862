"""Pauses, buses, and a relay that runs by itself; what relays promise over every store is in tests/promises."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from podium.buses.jsonl import JsonLinesBus
from podium.buses.memory import MemoryBus
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.ports.bus import BusRefused
from podium.runtime.alerts import Alerting
from podium.runtime.relay import Relay, pause_after
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event, new_run
from podium.testing.store_promises import started
from podium.testing.virtual_time import run_virtually
from tests.json_lines import read_lines


@pytest.mark.rule("ES19")
def test_pauses_double_up_to_half_a_minute_and_jitter_shortens_them() -> None:
    milliseconds = [round(pause_after(n, 0).total_seconds() * 1000) for n in range(1, 12)]
    assert milliseconds == [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]
    assert pause_after(1, 1.0) == timedelta(milliseconds=50)
    assert pause_after(10_000, 0) == timedelta(seconds=30)


def test_a_relay_that_runs_delivers_what_comes() -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        store, bus = MemoryStore(clock), MemoryBus("kafka")
        await store.add_bus("kafka")
        working = asyncio.create_task(Relay(store, bus, Alerting(store, clock), owner="relay").run())
        await asyncio.sleep(5)
        await started(store)
        await asyncio.sleep(5)
        assert [record.run_seq for record in bus.published] == [1, 2]
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    run_virtually(scenario())


def test_credentials_that_the_bus_stops_accepting_are_no_fault_of_an_event() -> None:
    class Bus(MemoryBus):
        is_refusing = True

        async def publish(self, records: Sequence[EventRecord]) -> int:
            if self.is_refusing:
                raise BusRefused("wrong password")
            return await super().publish(records)

    async def scenario() -> None:
        clock = VirtualClock()
        store, bus = MemoryStore(clock), Bus("kafka")
        await store.add_bus("kafka")
        await started(store)
        relay = Relay(store, bus, Alerting(store, clock), owner="relay")
        with pytest.raises(BusRefused):
            await relay.run_once()
        working = asyncio.create_task(relay.run())
        await asyncio.sleep(600)
        assert (bus.published, await store.dead_letters("kafka")) == ([], [])
        bus.is_refusing = False
        await asyncio.sleep(20)
        assert [record.run_seq for record in bus.published] == [1, 2]
        relay.stop()
        await working

    run_virtually(scenario())


def test_the_bus_that_is_a_file_has_a_line_per_event_and_survives_a_torn_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = MemoryStore(VirtualClock())
        bus = JsonLinesBus(tmp_path / "events.jsonl")
        await store.add_bus(bus.name)
        await store.create_run(new_run("r1"), [event("r1", "RunQueued", note="ä\n")])
        alerting = Alerting(store, VirtualClock())
        assert await Relay(store, bus, alerting, owner="relay").deliver_line()
        with (tmp_path / "events.jsonl").open("ab") as file:
            file.write(b'{"runId":"r1","ru')
        await store.append(RunId("r1"), [event("r1", "RunApproved")])
        assert await Relay(store, bus, alerting, owner="relay").deliver_line()
        lines = read_lines(tmp_path / "events.jsonl")
        assert [(line["runId"], line["runSeq"], line["eventType"]) for line in lines] == [
            ("r1", 1, "RunQueued"),
            ("r1", 2, "RunApproved"),
        ]
        assert lines[0]["payload"] == {"note": "ä\n"}
        assert len((tmp_path / "events.jsonl").read_bytes().splitlines()) == 3

    asyncio.run(scenario())


def test_listeners_in_the_same_process_hear_of_events() -> None:
    async def scenario() -> None:
        bus = MemoryBus()
        heard: list[str] = []
        bus.listen(lambda record: heard.append(record.event_type))
        store = MemoryStore(VirtualClock())
        await store.add_bus(bus.name)
        await store.create_run(new_run("r1"), [event("r1", "RunQueued")])
        await Relay(store, bus, Alerting(store, VirtualClock()), owner="relay").deliver_line()
        assert heard == ["RunQueued"]

    asyncio.run(scenario())
