"""Buses to be tested, each with topics of its own."""

import asyncio
import uuid
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from podium.buses.json_topics import JsonTopicsBus, JsonTopicsSource, append_message
from podium.buses.kafka import KafkaBus
from podium.buses.kafka_settings import KafkaConnection, parse_address
from podium.buses.kafka_source import KafkaSource
from podium.buses.memory import MemoryBus, MemorySource, MemoryTopics
from podium.testing.bus_promises import BusWorld

Headers = Sequence[tuple[str, bytes]]


def memory_world(
    bus: type[MemoryBus] = MemoryBus,
    source: type[MemorySource] = MemorySource,
    topics: MemoryTopics | None = None,
) -> BusWorld:
    kept = topics or MemoryTopics()

    async def create(names: Sequence[str]) -> None:
        for name in names:
            kept.topics[name]

    async def put(topic: str, key: bytes | None, value: bytes, headers: Headers) -> None:
        kept.put(topic, key, value, tuple(headers))

    return BusWorld(
        lambda topic: bus("memory", kept, topic), lambda topic, group: source(kept, topic, group), create, put
    )


def files_world(folder: Path) -> BusWorld:
    async def create(names: Sequence[str]) -> None:
        for name in names:
            (folder / f"{name}.jsonl").touch()

    async def put(topic: str, key: bytes | None, value: bytes, headers: Headers) -> None:
        append_message(folder, topic, key, headers, value)

    return BusWorld(
        lambda topic: JsonTopicsBus(folder, "jsonl", topic),
        lambda topic, group: JsonTopicsSource(folder, topic, group),
        create,
        put,
    )


def kafka_world(address: str, *, partitions: int = 1) -> BusWorld:
    admin = AdminClient({"bootstrap.servers": address})
    producer = Producer({"bootstrap.servers": address, "acks": "all"})

    async def create(names: Sequence[str]) -> None:
        made = admin.create_topics([NewTopic(name, partitions, 1) for name in names])
        for future in made.values():
            await asyncio.to_thread(future.result)

    async def put(topic: str, key: bytes | None, value: bytes, headers: Headers) -> None:
        producer.produce(topic, value, key, headers=list(headers))
        assert await asyncio.to_thread(producer.flush, 60) == 0

    def connection(topic: str | None) -> KafkaConnection:
        return KafkaConnection(parse_address(f"kafka://{address}", topic), {})

    return BusWorld(
        lambda topic: KafkaBus(connection(topic)),
        lambda topic, group: KafkaSource(connection(None), topic, group),
        create,
        put,
        prefix=f"t{uuid.uuid4().hex[:12]}-",
    )
