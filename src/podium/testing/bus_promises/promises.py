"""Delivery out and in: at least once, in order per key, committed by hand, nothing lost when members change."""

import asyncio
import json
import time
from collections.abc import Sequence

import pytest

from podium.log.messages import Message
from podium.ports.bus import TopicRefused
from podium.ports.events_in import Incoming
from podium.testing.bus_promises.world import BusWorld, message, records, taken


class BusPromises:
    # --- publishing -------------------------------------------------------------------------------

    def test_events_reach_their_topic_in_order_with_key_and_headers(self, world: BusWorld) -> None:
        async def scenario() -> None:
            topic = world.topic("events")
            await world.create([topic])
            bus = world.make_bus(topic)
            published = await records()
            assert await bus.publish(published) == len(published)
            await bus.close()
            found = await world.received(topic, len(published))
            assert [json.loads(one.value)["runSeq"] for one in found] == [1, 2, 3, 4]
            assert {one.key for one in found} == {b"r1"}
            assert [one.header("event_id") for one in found] == [one.event_id for one in published]
            assert [one.header("run_seq") for one in found] == ["1", "2", "3", "4"]
            for name in ("event_type", "correlation_id", "run_id", "traceparent"):
                assert all(one.header(name) for one in found), name

        world.run(scenario())

    def test_what_a_completed_step_publishes_reaches_its_topics_and_nothing_else_does(
        self, world: BusWorld
    ) -> None:
        async def scenario() -> None:
            orders, notes = world.topic("orders"), world.topic("notes")
            await world.create([orders, notes])
            bus = world.make_bus(None)
            own = [message(orders, {"n": 1}, "k"), message(notes, "text"), message(orders, [2], "k")]
            await bus.publish(await records(*own))
            # The failed step published nothing, so this is what comes next.
            await bus.publish(await records(message(orders, "last", "k"), run_id="r2"))
            await bus.close()
            found = await world.received(orders, 3)
            assert [json.loads(one.value) for one in found] == [{"n": 1}, [2], "last"]
            assert [one.key for one in found] == [b"k"] * 3
            (note,) = await world.received(notes, 1)
            assert (note.key, json.loads(note.value), note.header("event_type")) == (None, "text", "tested")

        world.run(scenario())

    def test_a_message_that_is_published_again_has_the_same_id(self, world: BusWorld) -> None:
        async def scenario() -> None:
            topic = world.topic("orders")
            await world.create([topic])
            bus = world.make_bus(None)
            published = await records(message(topic, 1), message(topic, 2))
            await bus.publish(published)
            await bus.publish(published)
            await bus.close()
            ids = [one.header("event_id") for one in await world.received(topic, 4)]
            assert ids[:2] == ids[2:]
            assert len(set(ids)) == 2

        world.run(scenario())

    def test_messages_of_many_runs_arrive_completely_and_in_the_order_of_their_key(
        self, world: BusWorld
    ) -> None:
        async def scenario() -> None:
            topic = world.topic("orders")
            await world.create([topic])
            bus = world.make_bus(None)
            runs = [f"r{number}" for number in range(10)]

            async def publish(run_id: str) -> None:
                own = [message(topic, number, run_id) for number in range(20)]
                assert await bus.publish(await records(*own, run_id=run_id)) == 4

            await asyncio.gather(*map(publish, runs))
            await bus.close()
            found = await world.received(topic, 200)
            for run_id in runs:
                own = [json.loads(one.value) for one in found if one.key == run_id.encode()]
                assert own == list(range(20)), run_id

        world.run(scenario())

    # --- receiving --------------------------------------------------------------------------------

    def test_a_message_of_another_program_comes_as_it_was_sent(self, world: BusWorld) -> None:
        async def scenario() -> None:
            topic = world.topic("in")
            await world.create([topic])
            await world.put(topic, b"key", b'{"a": 1}', [("h", b"v")])
            await world.put(topic, None, b"\xff\x00 not JSON\n", [])
            first, second = await world.received(topic, 2)
            assert (first.key, json.loads(first.value), first.header("h")) == (b"key", {"a": 1}, "v")
            assert (second.key, second.value, second.header("h")) == (None, b"\xff\x00 not JSON\n", None)

        world.run(scenario())

    def test_no_more_messages_come_than_were_asked_for_and_few_ones_without_waiting(
        self, world: BusWorld
    ) -> None:
        async def scenario() -> None:
            topic = world.topic("in")
            await world.create([topic])
            await _numbers(world, topic, 5)
            source = world.make_source(topic, "group")
            await source.open()
            first = await taken(source, 1)
            assert len(first) == 1
            started = time.monotonic()
            rest: list[Incoming] = []
            for _ in range(100):
                found = await source.receive(3)
                assert len(found) <= 3
                rest += found
                if len(rest) >= 4:
                    break
            # It would wait for a fifth one; the others are available already.
            assert time.monotonic() - started < 20
            assert _bodies([*first, *rest]) == [0, 1, 2, 3, 4]
            assert await source.receive(3) == []
            await source.close()

        world.run(scenario())

    def test_what_was_not_committed_comes_again_and_what_was_does_not(self, world: BusWorld) -> None:
        async def scenario() -> None:
            topic = world.topic("in")
            await world.create([topic])
            await _numbers(world, topic, 6)
            first = world.make_source(topic, "group")
            await first.open()
            got = await taken(first, 5)
            await first.commit(got[:2])
            await first.close()
            second = world.make_source(topic, "group")
            await second.open()
            again = await taken(second, 4)
            assert _bodies(again) == [2, 3, 4, 5]
            await second.commit(again)
            await second.close()
            await _numbers(world, topic, 1, start=6)
            third = world.make_source(topic, "group")
            await third.open()
            assert _bodies(await taken(third, 1)) == [6]
            await third.close()

        world.run(scenario())

    def test_every_group_gets_everything(self, world: BusWorld) -> None:
        async def scenario() -> None:
            topic = world.topic("in")
            await world.create([topic])
            await _numbers(world, topic, 3)
            assert _bodies(await world.received(topic, 3, group="one")) == [0, 1, 2]
            assert _bodies(await world.received(topic, 3, group="two")) == [0, 1, 2]

        world.run(scenario())

    def test_nothing_is_lost_when_a_member_joins_and_one_leaves(self, world: BusWorld) -> None:
        async def scenario() -> None:
            topic = world.topic("in")
            await world.create([topic])
            await _numbers(world, topic, 20)
            first, second = world.make_source(topic, "group"), world.make_source(topic, "group")
            await first.open()
            seen = set(_bodies(await taken(first, 5)))
            await second.open()
            await _numbers(world, topic, 20, start=20)
            # When the first one leaves, the second one receives what it had and did not commit.
            await first.close()
            for _ in range(400):
                if seen == set(range(40)):
                    break
                got = await second.receive(50)
                seen.update(_bodies(got))
                await second.commit(got)
            assert seen == set(range(40))
            await second.close()

        world.run(scenario())

    def test_a_dead_letter_is_the_message_itself_with_headers_that_say_why_and_from_where(
        self, world: BusWorld
    ) -> None:
        async def scenario() -> None:
            topic = world.topic("in")
            await world.create([topic, f"{topic}.dead"])
            await world.put(topic, b"key", b'{"password": "s3cret99"}', [("h", b"v")])
            source = world.make_source(topic, "group")
            await source.open()
            (poison,) = await taken(source, 1)
            await source.bury(poison, "EVENT_NOT_JSON")
            await source.close()
            (dead,) = await world.received(f"{topic}.dead", 1)
            assert (dead.key, json.loads(dead.value), dead.header("h")) == (
                b"key",
                {"password": "s3cret99"},
                "v",
            )
            facts = {name: dead.header(f"dead_{name}") for name in ("code", "topic", "partition", "offset")}
            assert facts == {"code": "EVENT_NOT_JSON", "topic": topic, "partition": "0", "offset": "0"}
            assert not any(b"s3cret99" in value for _, value in dead.headers)

        world.run(scenario())

    def test_messages_of_a_program_are_sent_in_order(self, world: BusWorld) -> None:
        async def scenario() -> None:
            topic = world.topic("sent")
            await world.create([topic])
            bus = world.make_bus(None)
            await bus.send([Message(topic, "k", b"1", (("h", "v"),)), Message(topic, "k", b"2", ())])
            await bus.send([Message(topic, "k", b"3", ())])
            await bus.close()
            found = await world.received(topic, 3)
            assert [(one.key, one.value) for one in found] == [(b"k", b"1"), (b"k", b"2"), (b"k", b"3")]
            assert found[0].header("h") == "v"

        world.run(scenario())

    def test_the_lag_of_a_group_is_what_it_has_not_committed(self, world: BusWorld) -> None:
        async def scenario() -> None:
            topic = world.topic("in")
            await world.create([topic, f"{topic}.dead"])
            await _numbers(world, topic, 5)
            source = world.make_source(topic, "group")
            await source.open()
            got = await taken(source, 3)
            assert await source.lag() == 5
            await source.commit(got)
            assert await source.lag() == 2
            await source.commit(await taken(source, 2))
            assert await source.lag() == 0
            await _numbers(world, topic, 1, start=5)
            assert await source.lag() == 1
            await source.close()

        world.run(scenario())

    def test_a_topic_that_does_not_exist_is_refused_at_the_start(self, world: BusWorld) -> None:
        async def scenario() -> None:
            source = world.make_source(world.topic("missing"), "group")
            with pytest.raises(TopicRefused, match="missing"):
                await source.open()
            await source.close()

        world.run(scenario())


async def _numbers(world: BusWorld, topic: str, count: int, *, start: int = 0) -> None:
    for number in range(start, start + count):
        await world.put(topic, b"k", str(number).encode(), [])


def _bodies(messages: Sequence[Incoming]) -> list[int]:
    return [json.loads(one.value) for one in messages]
