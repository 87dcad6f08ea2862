"""Kafka as a bus: events to a topic, and what steps publish to the topics that they name."""

from collections.abc import Iterable, Sequence

from podium.buses.kafka_admin import PATIENCE
from podium.buses.kafka_producer import KafkaSender, Outgoing
from podium.buses.kafka_rights import KafkaRights
from podium.buses.kafka_settings import KafkaConnection
from podium.log.events import EventRecord
from podium.log.messages import Message, event_message, published_messages


class KafkaBus:
    """Events of one run have its id as key; a message of a step has the key that the step gave it."""

    def __init__(self, connection: KafkaConnection, *, patience: float = PATIENCE) -> None:
        self.name = connection.address.name
        self._topic = connection.address.topic
        self._sender = KafkaSender(connection, self.name, patience=patience)
        self._rights = KafkaRights(connection, patience=patience)

    async def check(self) -> None:
        """Raises `TopicRefused`, `BusRefused` and `BusUnavailable`."""
        await self._sender.reach()
        if self._topic is not None:
            await self._sender.check_topic(self._topic)
            await self._rights.check(writes=[self._topic])

    async def publish(self, records: Sequence[EventRecord]) -> int:
        messages = [
            _outgoing(index, message)
            for index, record in enumerate(records)
            for message in self._messages(record)
        ]
        first_missing = await self._sender.send(messages) if messages else None
        return len(records) if first_missing is None else first_missing

    def _messages(self, record: EventRecord) -> Iterable[Message]:
        if self._topic is not None:
            yield event_message(record, self._topic)
        yield from published_messages(record)

    async def send(self, messages: Sequence[Message]) -> None:
        await self._sender.send([_outgoing(0, message) for message in messages])

    async def close(self) -> None:
        await self._sender.close()


def _outgoing(index: int, message: Message) -> Outgoing:
    key = message.key.encode() if message.key is not None else None
    headers = [(name, text.encode()) for name, text in message.headers]
    return Outgoing(index, message.topic, key, message.value, headers)
