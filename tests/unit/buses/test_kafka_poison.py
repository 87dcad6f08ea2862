"""Whatever a message is like, its topic continues behind it."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import pytest
from confluent_kafka import Consumer, Message

from podium.buses import kafka_producer, kafka_source
from podium.buses.kafka_rights import KafkaRights
from podium.buses.kafka_settings import KafkaConnection, parse_address
from podium.buses.kafka_source import KafkaSource
from podium.nodes.registration.decoding import Refused
from podium.operations.event_requests import Poison, _body_of
from podium.operations.registration.starting import read_body
from podium.ports.bus import BusUnavailable
from podium.ports.events_in import Incoming
from podium.testing.bus_promises.world import taken
from podium.testing.clock import VirtualClock
from tests.unit.buses.mock_broker import MockBroker

# More than the client sends by default, and as much as topics take by default.
LARGE = b"x" * 1_040_000
# Calls after which Python has optimized one.
WARM = 30


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> MockBroker:
    async def may_do_everything(*_: object, **__: object) -> None: ...

    # The broker for tests has no access control, and no answer to questions about it.
    monkeypatch.setattr(KafkaRights, "check", may_do_everything)
    broker = MockBroker()
    broker.create("in", "in.dead")
    return broker


def reading(
    broker: MockBroker, work: Callable[[KafkaSource], Awaitable[None]], *, patience: float = 10
) -> None:
    async def scenario() -> None:
        connection = KafkaConnection(parse_address(f"kafka://{broker.address}"), {})
        source = KafkaSource(connection, "in", "group", patience=patience)
        await source.open()
        try:
            await work(source)
        finally:
            await source.close()

    asyncio.run(asyncio.wait_for(scenario(), 100))


def bury_first(broker: MockBroker) -> Incoming:
    """What is in the dead-letter topic then."""

    async def bury(source: KafkaSource) -> None:
        (poison,) = await taken(source, 1, limit=1)
        await source.bury(poison, "EVENT_TOO_LARGE")

    reading(broker, bury)
    return kafka_source._incoming(broker.first("in.dead"))


def test_a_header_whose_name_cannot_be_decoded_marks_its_message_and_the_next_one_follows(
    broker: MockBroker,
) -> None:
    async def read(source: KafkaSource) -> None:
        *_, before, poison, after = await taken(source, WARM + 2)
        assert (before.value, poison.value, after.value) == (b"fine", b"poison", b"last")
        assert (before.header("h"), poison.headers, after.header("h")) == ("v", (), None)
        assert [one.has_unreadable_headers for one in (before, poison, after)] == [False, True, False]
        with pytest.raises(Poison, match="EVENT_HEADERS_UNREADABLE"):
            _body_of(poison)
        with pytest.raises(Refused, match="EVENT_HEADERS_UNREADABLE"):
            read_body(poison, "NodeIntrospectionEvent", VirtualClock())

    broker.put("in", *[b"fine"] * WARM, headers=[("h", b"v")])
    broker.put_with_raw_header("in", b"poison", b"\xff\xfe", b"v")
    broker.put("in", b"last")
    reading(broker, read)


def test_a_message_as_large_as_its_topic_takes_becomes_a_dead_letter(broker: MockBroker) -> None:
    broker.put("in", LARGE, headers=[("h", b"v")], **{"message.max.bytes": 2_000_000})
    dead = bury_first(broker)
    assert (dead.value == LARGE, dead.header("h"), dead.header("dead_code")) == (True, "v", "EVENT_TOO_LARGE")
    assert dead.header("dead_omitted") is None


def test_of_a_message_that_the_dead_letter_topic_does_not_take_its_place_is_there(
    broker: MockBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The broker for tests takes everything, so that the client has to refuse it.
    monkeypatch.setitem(kafka_producer._PRODUCER, "message.max.bytes", 1_000_000)
    broker.put("in", LARGE, headers=[("h", b"v")], **{"message.max.bytes": 2_000_000})
    dead = bury_first(broker)
    assert (dead.value, dead.header("h")) == (b"", None)
    assert dead.key == f"{dead.header('dead_partition')}/{dead.header('dead_offset')}".encode()
    facts = [dead.header(f"dead_{name}") for name in ("code", "topic", "offset", "omitted")]
    assert facts == ["EVENT_TOO_LARGE", "in", "0", "true"]


def test_a_consumer_that_ends_unexpectedly_is_reported_and_replaced_and_nothing_is_lost(
    broker: MockBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert, failures = kafka_source._incoming, [RuntimeError("a text that nobody may see")]

    def failing(message: Message) -> Incoming:
        if message.value() == b"2" and failures:
            raise failures.pop()
        return convert(message)

    async def read(source: KafkaSource) -> None:
        (first,) = await taken(source, 1, limit=1)
        await source.commit([first])
        for number in (1, 2, 3):
            broker.put("in", str(number).encode())
        with pytest.raises(BusUnavailable, match="RuntimeError") as caught:
            await taken(source, 3)
        assert "nobody" not in str(caught.value)
        assert [one.value for one in await taken(source, 3)] == [b"1", b"2", b"3"]

    broker.put("in", b"0")
    monkeypatch.setattr(kafka_source, "_incoming", failing)
    reading(broker, read)


def test_large_messages_that_nothing_asks_for_stay_on_the_broker(
    broker: MockBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The broker for tests keeps no more than 5 MB.
    monkeypatch.setattr(kafka_source, "MAX_WAITING_BYTES", 1_000_000)
    monkeypatch.setitem(kafka_source._CONSUMER, "queued.max.messages.kbytes", 200)
    count = 40

    async def read(source: KafkaSource) -> None:
        while not source._is_paused:
            await asyncio.sleep(0.05)
        # Long enough for many polls.
        await asyncio.sleep(1)
        assert 10 <= len(source._waiting) < count / 2
        assert len(await taken(source, count)) == count

    broker.put("in", *[b"x" * 100_000] * count)
    reading(broker, read)


def test_a_commit_to_a_broker_that_is_away_fails_in_time_and_the_source_can_be_closed(
    broker: MockBroker,
) -> None:
    async def read(source: KafkaSource) -> None:
        found = await taken(source, 1)
        broker.stop()
        started = time.monotonic()
        with pytest.raises(BusUnavailable):
            await source.commit(found)
        assert time.monotonic() - started < 20

    broker.put("in", b"1")
    reading(broker, read, patience=2)


def test_a_client_that_waits_for_its_broker_does_not_keep_the_source_from_closing(
    broker: MockBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    class Waiting(Consumer):
        def close(self) -> None:
            released.wait(60)
            super().close()

    async def scenario() -> None:
        connection = KafkaConnection(parse_address(f"kafka://{broker.address}"), {})
        source = KafkaSource(connection, "in", "group", patience=10)
        await source.open()
        await source.close()
        assert not released.is_set()
        released.set()

    monkeypatch.setattr(kafka_source, "Consumer", Waiting)
    monkeypatch.setattr(kafka_source, "_CLOSE_SECONDS", 1.0)
    asyncio.run(asyncio.wait_for(scenario(), 40))
