"""A producer that Kafka's client has given up is replaced."""

import asyncio

import pytest
from confluent_kafka import KafkaError

from podium.buses import kafka_producer
from podium.buses.kafka_producer import KafkaSender, Outgoing
from podium.buses.kafka_settings import KafkaConnection, parse_address
from podium.ports.bus import BusUnavailable
from tests.unit.buses.mock_broker import MockBroker


class FatalError(KafkaError):
    def fatal(self) -> bool:
        return True


def test_what_a_producer_holds_when_it_fails_for_good_is_reported_and_the_next_one_sends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        broker = MockBroker()
        broker.create("out")
        connection = KafkaConnection(parse_address(f"kafka://{broker.address}"), {})
        sender = KafkaSender(connection, "kafka", patience=20)
        with monkeypatch.context() as slow:
            slow.setitem(kafka_producer._PRODUCER, "linger.ms", 600_000)
            waiting = asyncio.create_task(sender.send([Outgoing(0, "out", b"k", b"first", ())]))
            while sender._producer is None or not len(sender._producer):
                await asyncio.sleep(0.05)
        sender._on_error(sender._closing, FatalError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER))
        async with asyncio.timeout(10):
            with pytest.raises(BusUnavailable):
                await waiting
        assert await sender.send([Outgoing(0, "out", b"k", b"second", ())]) is None
        assert broker.first("out").value() == b"second"
        await sender.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))
