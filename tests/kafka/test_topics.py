"""Topics of a Kafka cluster: which are missing, and that they can be created."""

import asyncio
import uuid

from podium.buses.kafka_settings import KafkaConnection, parse_address
from podium.buses.kafka_topics import KafkaTopics
from services import kafka


def test_missing_topics_are_created_also_by_two_processes_side_by_side(
    shared_kafka: kafka.KafkaServer,
) -> None:
    names = [f"topics-{uuid.uuid4().hex[:12]}-{number}" for number in range(18)]
    address = parse_address(f"kafka://{shared_kafka.address}", None)
    topics = [KafkaTopics(KafkaConnection(address, {})) for _ in range(2)]

    async def scenario() -> None:
        assert await topics[0].missing(names) == names
        await asyncio.gather(*(one.create(names) for one in topics))
        assert await topics[0].missing(names) == []

    asyncio.run(scenario())
