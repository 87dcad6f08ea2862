"""Every event reaches the bus at least once, in the order of its run."""

import asyncio
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.buses.jsonl import JsonLinesBus, read_lines
from podium.buses.memory import MemoryBus
from podium.model.alerts import Alert
from podium.model.events import EventRecord
from podium.model.ids import RunId
from podium.runtime.alerts import Alerting
from podium.runtime.relay import Relay, pause_after
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event, new_run
from podium.testing.store_promises import started
from podium.testing.virtual_time import run_virtually


class FailingBus(MemoryBus):
    """Refuses what it is told to refuse."""

    def __init__(self) -> None:
        super().__init__("kafka")
        self.refused: set[tuple[str, int]] = set()

    async def publish(self, record: EventRecord) -> None:
        if (record.run.run_id, record.run_seq) in self.refused:
            raise ConnectionError("broker is down")
        await super().publish(record)


class Scene:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.bus = FailingBus()
        self.alerts: list[tuple[str | None, Alert]] = []
        self.alerting = Alerting(self.store, self.clock, lambda run, alert: self.alerts.append((run, alert)))

    def relay(self, name: str = "relay") -> Relay:
        return Relay(self.store, self.bus, self.alerting, owner=name, jitter=lambda: 0.0)

    async def drain(self, *relays: Relay) -> None:
        while any([await relay.deliver_line() for relay in relays]):
            pass

    @property
    def seen(self) -> list[tuple[str, int]]:
        return [(record.run.run_id, record.run_seq) for record in self.bus.published]


def test_events_are_delivered_in_order_and_removed() -> None:
    async def scenario() -> None:
        scene = Scene()
        await scene.store.add_bus("kafka")
        lease = await started(scene.store)
        await scene.store.append(RunId("r1"), [event("r1", "RunCompleted")], fence=lease.fence)
        await scene.drain(scene.relay())
        assert scene.seen == [("r1", 1), ("r1", 2), ("r1", 3)]
        assert await scene.store.outbox_lines() == []

    run_virtually(scenario())


def test_a_failing_event_holds_its_own_run_only_and_is_tried_again_later() -> None:
    async def scenario() -> None:
        scene = Scene()
        await scene.store.add_bus("kafka")
        await started(scene.store, "r1")
        await started(scene.store, "r2")
        scene.bus.refused = {("r1", 2)}
        await scene.drain(scene.relay())
        assert scene.seen == [("r1", 1), ("r2", 1), ("r2", 2)]
        scene.bus.refused.clear()
        await scene.drain(scene.relay())
        assert ("r1", 2) not in scene.seen  # its time has not come
        scene.clock.move(0.1)
        await scene.drain(scene.relay())
        assert scene.seen[-1] == ("r1", 2)
        assert scene.alerts == []

    run_virtually(scenario())


@pytest.mark.rule("ES19")
def test_after_ten_failures_an_event_is_dead_and_its_line_goes_on() -> None:
    async def scenario() -> None:
        scene = Scene()
        await scene.store.add_bus("kafka")
        await started(scene.store)
        scene.bus.refused = {("r1", 1)}
        dead = []
        for tries in range(1, 11):
            assert await scene.relay().deliver_line()
            dead = await scene.store.dead_letters()
            assert (len(dead), len(scene.alerts)) == ((1, 1) if tries == 10 else (0, 0))
            assert not await scene.relay().deliver_line() or tries == 10
            scene.clock.move(31)
        assert dead[0].error == "ConnectionError: broker is down"
        await scene.drain(scene.relay())
        # Event 3 is the alert, which goes to the bus like everything else.
        assert scene.seen == [("r1", 2), ("r1", 3)]
        run_id, alert = scene.alerts[0]
        assert (run_id, alert.code, alert.subject) == ("r1", "EVENT_BUS_DELIVERY_FAILED", "kafka:1")
        scene.bus.refused.clear()
        assert await scene.store.retry_dead("kafka", RunId("r1"), 1)
        await scene.drain(scene.relay())
        assert scene.seen[-1] == ("r1", 1)
        assert len(scene.alerts) == 1

    run_virtually(scenario())


@pytest.mark.rule("ES19")
def test_pauses_double_up_to_half_a_minute_and_jitter_shortens_them() -> None:
    milliseconds = [round(pause_after(n, 0).total_seconds() * 1000) for n in range(1, 12)]
    assert milliseconds == [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]
    assert pause_after(1, 1.0) == timedelta(milliseconds=50)
    assert pause_after(10_000, 0) == timedelta(seconds=30)


class Killed(BaseException):
    """The relay's process is gone."""


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_with_relays_killed_at_any_point_nothing_is_lost_and_first_deliveries_are_in_order(
    data: st.DataObject,
) -> None:
    """Relays die before or after publishing, and before or after what was delivered is removed."""

    async def scenario() -> None:
        scene = Scene()
        await scene.store.add_bus("kafka")
        expected = defaultdict(list)
        for name in ("r1", "r2", "r3"):
            lease = await started(scene.store, name)
            steps = [event(name, "StepStarted", f"s{n}") for n in range(data.draw(st.integers(0, 4)))]
            await scene.store.append(RunId(name), steps, fence=lease.fence)
            expected[name] = [record.run_seq for record in await scene.store.read(RunId(name))]

        budget = 0

        def perhaps_die() -> None:
            nonlocal budget
            budget -= 1
            if budget == 0:
                raise Killed

        class MortalBus(FailingBus):
            async def publish(self, record: EventRecord) -> None:
                perhaps_die()
                await super().publish(record)
                perhaps_die()

        scene.bus = MortalBus()
        original = scene.store.delivered

        async def delivered(*arguments: Any) -> bool:
            perhaps_die()
            answer = await original(*arguments)
            perhaps_die()
            return answer

        scene.store.delivered = delivered  # type: ignore[method-assign,assignment]
        for life in range(6):
            budget = data.draw(st.integers(1, 12))
            try:
                await scene.drain(scene.relay(f"a{life}"), scene.relay(f"b{life}"))
            except Killed:
                scene.clock.move(31)
        budget = -1
        scene.clock.move(31)
        await scene.drain(scene.relay("last"))
        first: dict[str, list[int]] = defaultdict(list)
        for run_id, seq in scene.seen:
            if seq not in first[run_id]:
                first[run_id].append(seq)
        assert first == expected

    run_virtually(scenario())


def test_a_relay_that_runs_delivers_what_comes() -> None:
    async def scenario() -> None:
        scene = Scene()
        await scene.store.add_bus("kafka")
        working = asyncio.create_task(scene.relay().run())
        await asyncio.sleep(5)
        await started(scene.store)
        await asyncio.sleep(5)
        assert scene.seen == [("r1", 1), ("r1", 2)]
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
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
