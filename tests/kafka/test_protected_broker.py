"""Brokers that know their users: TLS and SASL work with the secrets, and what is wrong or not allowed is named."""

import asyncio
import json
import re
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from podium.buses.kafka import KafkaBus
from podium.buses.kafka_settings import KafkaConnection, parse_address
from podium.buses.kafka_source import KafkaSource
from podium.log.messages import Message
from podium.nodes.registration.reading import registration_config
from podium.operations.registration.place import Place as Namespace
from podium.testing.bus_promises.world import taken
from tests.acceptance.podium import Place, until
from tests.kafka.protected import PASSWORD, PLAIN_PASSWORD, USER, Protected, self_signed
from tests.servers import need

pytestmark = pytest.mark.timeout(400, func_only=True)

FLOW = """
inputs: {n: {type: int, required: true}}
steps:
  - {name: Say, command: "true"}
"""
NOT_SHOWN = (PASSWORD, PLAIN_PASSWORD, "wrong-s3cret", "PRIVATE KEY")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Protected]:
    found = need(lambda: Protected(tmp_path_factory.mktemp("broker")))
    yield found
    found.server.stop()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.environment["XDG_CONFIG_HOME"] = str(tmp_path / "none")
    place.write(FLOW)
    return place


def made(broker: Protected, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.server.address})
    config = {"message.timestamp.type": "LogAppendTime"}
    for answer in admin.create_topics([NewTopic(name, 1, 1, config=config) for name in names]).values():
        answer.result(60)


def secrets_of(broker: Protected, listener: str, mechanism: str | None = None) -> dict[str, str]:
    """What is right for the listener."""
    found = {}
    if listener != "LOGIN":
        found["PODIUM_KAFKA_CA"] = broker.own.certificate
    if listener == "TLS":
        found["PODIUM_KAFKA_CERTIFICATE"] = broker.client.certificate
        found["PODIUM_KAFKA_KEY"] = broker.client.key
    if mechanism is not None:
        password = PLAIN_PASSWORD if mechanism == "PLAIN" else PASSWORD
        found |= {"PODIUM_KAFKA_USERNAME": USER, "PODIUM_KAFKA_PASSWORD": password}
        found["PODIUM_KAFKA_SASL"] = mechanism
    return found


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("TLS", None),
        ("LOGIN", "SCRAM-SHA-512"),
        ("LOGIN", "SCRAM-SHA-256"),
        ("LOGIN", "PLAIN"),
        ("BOTH", "SCRAM-SHA-512"),
        ("BOTH", "PLAIN"),
    ],
)
@pytest.mark.rule("RB01")
def test_messages_are_sent_read_committed_and_buried_with_credentials_of_the_secrets(
    broker: Protected, listener: str, mechanism: str | None
) -> None:
    topic, group = f"in-{uuid.uuid4()}", f"g-{uuid.uuid4()}"
    made(broker, topic, f"{topic}.dead")
    broker.allow("TOPIC", topic, "READ", "WRITE")
    broker.allow("TOPIC", f"{topic}.dead", "WRITE")
    broker.allow("GROUP", group, "READ")
    connection = KafkaConnection(
        parse_address(broker.address(listener)), secrets_of(broker, listener, mechanism)
    )

    async def scenario() -> None:
        bus = KafkaBus(connection)
        await bus.check()
        await bus.send([Message(topic, "k", b"1", ()), Message(topic, "k", b"2", ())])
        await bus.close()
        source = KafkaSource(connection, topic, group)
        await source.open()
        found = await taken(source, 2)
        assert [one.value for one in found] == [b"1", b"2"]
        await source.bury(found[0], "EVENT_INVALID")
        await source.commit(found)
        assert await source.lag() == 0
        await source.close()

    asyncio.run(asyncio.wait_for(scenario(), 120))


def _refused(broker: Protected, what: str) -> tuple[str, dict[str, str]]:
    """An address and secrets with one thing wrong."""
    right = secrets_of(broker, "BOTH", "SCRAM-SHA-512")
    match what:
        case "password":
            return broker.address("BOTH"), {**right, "PODIUM_KAFKA_PASSWORD": "wrong-s3cret"}
        case "mechanism":
            return broker.address("LOGIN"), {**right, "PODIUM_KAFKA_SASL": "PLAIN"}
        case "authority":
            return broker.address("BOTH"), {**right, "PODIUM_KAFKA_CA": self_signed("other").certificate}
        case "key":
            shown = secrets_of(broker, "TLS")
            return broker.address("TLS"), {**shown, "PODIUM_KAFKA_KEY": "wrong-s3cret"}
        case _:
            raise AssertionError(what)


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("relay", "password"),
        ("relay", "mechanism"),
        ("relay", "authority"),
        ("relay", "key"),
        ("listen", "password"),
        ("serve", "password"),
        ("serve", "authority"),
    ],
)
@pytest.mark.rule("RB02")
def test_wrong_credentials_are_named_with_what_to_check_and_exit_code_78(
    broker: Protected, place: Place, command: str, what: str
) -> None:
    address, secrets = _refused(broker, what)
    place.run("run", "w.yaml", "--input", "n=1")
    commands = {
        "relay": ("relay", "--bus", address, "--topic", "events", "--once"),
        "listen": ("bus", "listen", "--bus", address, "--topic", "in", "--workflow", "w.yaml"),
        "serve": _serve(address, "wrong"),
    }
    done = place.run(*commands[command], code=78, env=secrets)
    assert "BUS_REFUSED" in done.stderr
    assert "PODIUM_KAFKA_" in done.stderr
    assert not any(text in done.stdout + done.stderr for text in NOT_SHOWN)


def _serve(address: str, namespace: str) -> tuple[str, ...]:
    return (
        *("registration", "serve", "--env", "test", "--namespace", namespace),
        *("--bus", address, "--consul", "memory:", "--postgres", "memory:"),
    )


def _give(broker: Protected, shown: str) -> int:
    """What the commands say; how many rights that are."""
    found = re.findall(
        r'--allow-principal "User:\$PODIUM_KAFKA_USERNAME" --operation (\w+) --(\w+) (\S+)', shown
    )
    for operation, kind, name in found:
        broker.allow(kind.upper(), name, operation.upper())
    return len(found)


@pytest.mark.rule("RB03")
def test_serve_names_every_right_that_is_missing_and_starts_when_they_are_given(
    broker: Protected, place: Place
) -> None:
    namespace = Namespace("test", f"n{uuid.uuid4().hex[:8]}", "default")
    made(broker, *namespace.topics(registration_config()))
    secrets = secrets_of(broker, "LOGIN", "SCRAM-SHA-512")
    command = _serve(broker.address("LOGIN"), namespace.namespace)
    refused = place.run(*command, code=78, env=secrets).stderr
    # Five topics are read, thirteen written, that of ticks as well; and the group reads.
    assert "TOPIC_REFUSED: 20 rights are missing" in refused
    assert _give(broker, refused) == 20
    process = place.begin(*command, "--json", env=secrets)
    try:
        line = process.stdout.readline() if process.stdout is not None else ""
        assert "serving" in line, line + process.communicate()[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == 0


@pytest.mark.rule("RB03")
def test_listen_and_relay_name_the_rights_that_are_missing(broker: Protected, place: Place) -> None:
    topic = f"in-{uuid.uuid4()}"
    made(broker, topic, f"{topic}.dead")
    secrets = secrets_of(broker, "LOGIN", "SCRAM-SHA-512")
    address = ("--bus", broker.address("LOGIN"), "--topic", topic)
    refused = place.run("bus", "listen", *address, "--workflow", "w.yaml", code=78, env=secrets).stderr
    assert "TOPIC_REFUSED" in refused
    for right in (f"Read --topic {topic}\n", f"Write --topic {topic}.dead\n", "Read --group "):
        assert right in refused
    broker.allow("TOPIC", topic, "READ")
    place.run("run", "w.yaml", "--input", "n=1")
    refused = place.run("relay", *address, "--once", code=78, env=secrets).stderr
    assert f"--operation Write --topic {topic}" in refused
    assert "--operation Read" not in refused


@pytest.mark.rule("RB03")
def test_a_group_of_consumers_of_another_kind_is_refused_and_not_waited_for(
    broker: Protected, place: Place
) -> None:
    topic = f"in-{uuid.uuid4()}"
    made(broker, topic, f"{topic}.dead")
    secrets = secrets_of(broker, "TLS")
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.server.address,
        "group.id": "taken",
        "partition.assignment.strategy": "range",
    }
    other = Consumer(settings)
    other.subscribe([topic])
    try:
        until(lambda: other.poll(0.2) is None and bool(other.assignment()), 60)
        options = ("--bus", broker.address("TLS"), "--topic", topic, "--group", "taken")
        done = place.run("bus", "listen", *options, "--workflow", "w.yaml", code=78, env=secrets)
        assert "BUS_REFUSED: the group 'taken' is in use by consumers of another kind (range)" in done.stderr
    finally:
        other.close()


@pytest.mark.rule("RB01")
def test_a_listener_with_credentials_starts_runs(broker: Protected, place: Place) -> None:
    topic = f"in-{uuid.uuid4()}"
    made(broker, topic, f"{topic}.dead")
    producer = Producer({"bootstrap.servers": broker.server.address})
    producer.produce(topic, json.dumps({"n": 1}).encode())
    assert producer.flush(60) == 0
    options = ("--bus", broker.address("TLS"), "--topic", topic, "--workflow", "w.yaml")
    listener = place.begin("bus", "listen", *options, env=secrets_of(broker, "TLS"))
    try:
        until(lambda: (place.runs / "podium.db").exists(), 60)
        until(lambda: '"COMPLETED"' in place.run("runs", "list", "--json").stdout, 60)
    finally:
        listener.send_signal(signal.SIGTERM)
        shown = "".join(listener.communicate(timeout=120))
    assert listener.returncode == 0, shown
    assert not any(text in shown for text in NOT_SHOWN)
