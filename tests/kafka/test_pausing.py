"""Backpressure: what nothing asks for stays on the broker, and the member stays in its group."""

import asyncio
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from podium.buses.kafka_settings import KafkaConnection, parse_address
from podium.buses.kafka_source import KafkaSource
from podium.ports.events_in import Incoming
from podium.testing.bus_promises.world import taken
from services.kafka import KafkaServer

pytestmark = pytest.mark.timeout(300, func_only=True)

COUNT = 400
ROOM = 10


@pytest.fixture
def topic(shared_kafka: KafkaServer) -> str:
    """With many messages, in two partitions."""
    name = f"many-{uuid.uuid4()}"
    admin = AdminClient({"bootstrap.servers": shared_kafka.address})
    for made in admin.create_topics([NewTopic(name, 2, 1), NewTopic(f"{name}.dead", 1, 1)]).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": shared_kafka.address, "acks": "all"})
    for number in range(COUNT):
        producer.produce(name, str(number).encode(), partition=number % 2)
    assert producer.flush(60) == 0
    return name


def member(server: KafkaServer, topic: str, group: str) -> KafkaSource:
    connection = KafkaConnection(parse_address(f"kafka://{server.address}"), {})
    return KafkaSource(connection, topic, group, max_waiting=ROOM)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(300):
        if condition():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it did not happen within half a minute")


def numbers(messages: list[Incoming]) -> list[int]:
    return [int(one.value) for one in messages]


@pytest.mark.rule("RB04")
def test_no_more_messages_wait_here_than_there_is_room_for_and_all_come_in_order(
    shared_kafka: KafkaServer, topic: str
) -> None:
    async def scenario() -> None:
        source = member(shared_kafka, topic, topic)
        await source.open()
        await until(lambda: len(source._waiting) >= ROOM)
        # Long enough for many polls, each of which would add one.
        for _ in range(40):
            assert await source.lag() == COUNT
        assert len(source._waiting) == ROOM
        found = numbers(await taken(source, COUNT, limit=7))
        for partition in (0, 1):
            assert [one for one in found if one % 2 == partition] == list(range(partition, COUNT, 2))
        assert await source.receive(1) == []
        await source.close()

    asyncio.run(asyncio.wait_for(scenario(), 120))


@pytest.mark.rule("RB04")
def test_paused_partitions_are_resumed_when_there_is_room_again(
    shared_kafka: KafkaServer, topic: str
) -> None:
    async def scenario() -> None:
        source = member(shared_kafka, topic, topic)
        await source.open()
        try:
            await until(lambda: source._is_paused and len(source._waiting) >= ROOM)
            assert len(await source.receive(COUNT)) == ROOM
            await until(lambda: len(source._waiting) >= ROOM)
        finally:
            await source.close()

    asyncio.run(asyncio.wait_for(scenario(), 120))


@pytest.mark.rule("RB04")
def test_a_member_that_joins_while_others_are_paused_gets_its_share_and_nothing_is_lost(
    shared_kafka: KafkaServer, topic: str
) -> None:
    async def scenario() -> None:
        first, second = (member(shared_kafka, topic, topic) for _ in range(2))
        await first.open()
        await until(lambda: len(first._waiting) >= ROOM)
        await second.open()
        await until(lambda: len(second._waiting) >= ROOM)
        seen: set[int] = set()
        for _ in range(1000):
            for source in (first, second):
                got = list(await source.receive(20))
                seen.update(numbers(got))
                await source.commit(got)
            if len(seen) == COUNT:
                break
        assert seen == set(range(COUNT))
        await first.close()
        await second.close()

    asyncio.run(asyncio.wait_for(scenario(), 120))


@pytest.mark.rule("RB04")
def test_a_partition_that_was_revoked_while_it_was_paused_is_read_when_it_comes_back(
    shared_kafka: KafkaServer, topic: str
) -> None:
    async def scenario() -> None:
        first, second = (member(shared_kafka, topic, topic) for _ in range(2))
        await first.open()
        await until(lambda: first._is_paused and first._mine == {0, 1})
        await second.open()
        await until(lambda: len(first._mine) == len(second._mine) == 1)
        # Resumed, while the other partition is not its own.
        seen = set(numbers(await taken(first, COUNT // 2, limit=7)))
        await second.close()
        seen |= set(numbers(await taken(first, COUNT // 2, limit=7)))
        assert seen == set(range(COUNT))
        await first.close()

    asyncio.run(asyncio.wait_for(scenario(), 120))
