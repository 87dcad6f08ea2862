"""`podium relay --bus kafka://..`: events reach a topic in order, with headers; what is wrong is named."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message

from services.kafka import KafkaServer
from tests.acceptance.podium import Place

pytestmark = pytest.mark.timeout(300, func_only=True)

FLOW = 'steps: [{name: One, command: "true"}, {name: Two, command: "true"}]\n'


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.environment["XDG_CONFIG_HOME"] = str(tmp_path / "none")
    place.write(FLOW)
    return place


def messages_in(server: KafkaServer, topic: str, count: int) -> list[Message]:
    settings = {
        "bootstrap.servers": server.address,
        "group.id": str(uuid.uuid4()),
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        found: list[Message] = []
        while len(found) < count:
            found += [one for one in consumer.consume(1, 1.0) if one.error() is None]
        return found
    finally:
        consumer.close()


def headers_of(message: Message) -> dict[str, str]:
    found: Any = message.headers()
    return {name: value.decode() for name, value in found}


def test_events_of_a_run_reach_a_topic_in_order_with_their_headers(
    place: Place, shared_kafka: KafkaServer
) -> None:
    topic = f"events-{uuid.uuid4()}"
    place.run("run", "w.yaml", "--run-id", "r1")
    place.run("relay", "--bus", f"kafka://{shared_kafka.address}", "--topic", topic, "--once")
    log = place.events("r1")
    found = messages_in(shared_kafka, topic, len(log))
    assert [json.loads(message.value() or b"") for message in found] == log
    assert {message.key() for message in found} == {b"r1"}
    first = headers_of(found[0])
    assert first["event_id"] == log[0]["eventId"]
    assert (first["run_id"], first["run_seq"], first["correlation_id"]) == ("r1", "1", "r1")
    assert first["traceparent"].startswith("00-")


def test_a_broker_that_does_not_answer_is_named_with_exit_code_69(place: Place) -> None:
    place.run("run", "w.yaml")
    done = place.run("relay", "--bus", "kafka://127.0.0.1:1", "--topic", "events", "--once", code=69)
    assert "BUS_UNAVAILABLE: kafka://127.0.0.1:1/events does not answer" in done.stderr


def test_an_address_with_credentials_is_refused_and_not_repeated(place: Place) -> None:
    place.run("run", "w.yaml")
    done = place.run("relay", "--bus", "kafka://me:s3cret99@127.0.0.1:1", "--once", code=64)
    assert "UNKNOWN_BUS" in done.stderr
    assert "PODIUM_KAFKA_PASSWORD" in done.stderr
    assert "s3cret99" not in done.stderr


def test_a_missing_package_is_named_with_what_to_install(place: Place, tmp_path: Path) -> None:
    (tmp_path / "hidden" / "confluent_kafka").mkdir(parents=True)
    hidden = tmp_path / "hidden" / "sitecustomize.py"
    hidden.write_text("import sys\nsys.modules['confluent_kafka'] = None\n")
    place.run("run", "w.yaml")
    place.environment["PYTHONPATH"] = str(tmp_path / "hidden")
    done = place.run("relay", "--bus", "kafka://127.0.0.1:1", "--topic", "events", code=78)
    assert "pip install 'podium[kafka]'" in done.stderr


def test_a_user_name_without_a_password_is_refused(place: Place) -> None:
    place.run("run", "w.yaml")
    place.environment["PODIUM_KAFKA_USERNAME"] = "somebody"
    done = place.run("relay", "--bus", "kafka://127.0.0.1:1", "--topic", "events", code=78)
    assert "BUS_REFUSED: PODIUM_KAFKA_USERNAME is set and PODIUM_KAFKA_PASSWORD is not" in done.stderr
