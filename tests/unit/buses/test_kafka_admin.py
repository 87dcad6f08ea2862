"""A client for queries is closed when they are answered, and when they are given up."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from podium.buses.kafka_producer import KafkaSender
from podium.buses.kafka_rights import KafkaRights
from podium.buses.kafka_settings import KafkaConnection, parse_address
from podium.buses.kafka_topics import KafkaTopics
from podium.errors import PodiumError
from tests.unit.buses.mock_broker import MockBroker

Query = Callable[[KafkaConnection], Awaitable[object]]
QUERIES: dict[str, Query] = {
    "reach": lambda known: KafkaSender(known, "kafka", patience=1).reach(),
    "topic": lambda known: KafkaSender(known, "kafka", patience=1).check_topic_exists("in"),
    "rights": lambda known: KafkaRights(known, patience=0.5).missing(reads=["in"]),
    "group": lambda known: KafkaRights(known, patience=0.5).missing(group="group"),
    "missing topics": lambda known: KafkaTopics(known, patience=0.5).missing(["in", "other"]),
    "creating topics": lambda known: KafkaTopics(known, patience=0.5).create(["other"]),
    "times of topics": lambda known: KafkaTopics(known, patience=0.5).timed_by_senders(["in"]),
}


def threads_of_clients() -> int:
    """Of those for queries: no other client has a thread with this name."""
    return sum(one.read_text().startswith("rdk:bg") for one in Path("/proc/self/task").glob("*/comm"))


def are_left(before: int) -> bool:
    """Threads that have ended may be listed for another moment."""
    until = time.monotonic() + 5
    while threads_of_clients() > before:
        if time.monotonic() > until:
            return True
        time.sleep(0.01)
    return False


def ask(query: Query, address: str) -> None:
    connection = KafkaConnection(parse_address(f"kafka://{address}"), {})
    # The broker for tests does not answer all of them.
    with suppress(PodiumError):
        asyncio.run(query(connection))  # type: ignore[arg-type]


@pytest.mark.rule("RB06")
@pytest.mark.parametrize("query", QUERIES)
def test_no_client_is_left_that_could_end_the_process_when_a_broker_comes_back(query: str) -> None:
    broker = MockBroker()
    broker.create("in")
    before = threads_of_clients()
    ask(QUERIES[query], broker.address)
    assert not are_left(before)
    broker.stop()


@pytest.mark.rule("RB06")
def test_no_client_is_left_when_no_broker_answers() -> None:
    before = threads_of_clients()
    ask(QUERIES["group"], "127.0.0.1:1")
    assert not are_left(before)
