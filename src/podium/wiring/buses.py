"""Opens buses for sending and receiving events."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from podium.errors import PodiumError
from podium.text import shortened, without_credentials
from podium.wiring.engines import seconds_or
from podium.wiring.plans import secret_lookup

if TYPE_CHECKING:
    from podium.buses.kafka_settings import KafkaConnection
    from podium.ports.bus import EventBus, MessageBus, Topics
    from podium.ports.events_in import EventSource


class UnknownBus(PodiumError):
    """The address of a bus that is not supported."""

    code = "UNKNOWN_BUS"


async def open_bus(address: str, topic: str | None = None) -> "EventBus":
    """The bus for an address: `jsonl:FILE`, `jsonl:FOLDER/` or `kafka://HOST:PORT`.

    Its name contains everything that distinguishes it from others: two files, or two topics for events, are
    two buses. Raises `UnknownBus`, `ExtraMissing`, `BusRefused`, `BusUnavailable` and `TopicRefused`.
    """
    kind, _, rest = address.partition(":")
    if kind == "jsonl" and rest.endswith("/"):
        from podium.buses.json_topics import JsonTopicsBus

        folder = Path(rest).absolute()
        topics = JsonTopicsBus(folder, f"jsonl:{folder}/" + (f"#{topic}" if topic else ""), topic)
        topics.check()
        return topics
    if kind == "jsonl" and rest:
        if topic is not None:
            raise UnknownBus(
                f"the file {rest!r} has no topics; leave --topic out, or name a folder: {address}/"
            )
        from podium.buses.jsonl import JsonLinesBus

        path = Path(rest).absolute()
        bus = JsonLinesBus(path, f"jsonl:{path}")
        bus.check()
        return bus
    connection = _kafka_connection(address, topic)
    from podium.buses.kafka import KafkaBus

    kafka = KafkaBus(connection)
    try:
        await kafka.check()
    except BaseException:
        await kafka.close()
        raise
    return kafka


def open_source(address: str, topic: str, group: str) -> "EventSource":
    """A member of a group that reads a topic. Raises `UnknownBus`, `ExtraMissing` and `BusRefused`."""
    kind, _, rest = address.partition(":")
    if kind == "jsonl" and rest:
        from podium.buses.json_topics import JsonTopicsSource

        return JsonTopicsSource(Path(rest).absolute(), topic, group)
    connection = _kafka_connection(address, topic)
    from podium.buses.kafka_source import KafkaSource

    return KafkaSource(connection, topic, group)


def open_topics(address: str) -> "Topics":
    """The topics of a bus. Raises `UnknownBus`, `ExtraMissing` and `BusRefused`."""
    kind, _, rest = address.partition(":")
    if kind == "jsonl" and rest.endswith("/"):
        from podium.buses.json_topics import JsonTopics

        return JsonTopics(Path(rest).absolute())
    if kind == "jsonl":
        raise UnknownBus(f"the file {shortened(rest, 200)!r} has no topics; name a folder: {address}/")
    connection = _kafka_connection(address, None)
    from podium.buses.kafka_topics import KafkaTopics

    return KafkaTopics(connection)


async def open_message_bus(address: str) -> "MessageBus":
    """Like `open_bus`, for a bus with topics."""
    from typing import cast

    return cast("MessageBus", await open_bus(address))


def has_topics(address: str) -> bool:
    """Whether steps can publish to topics there."""
    return not address.startswith("jsonl:") or address.endswith("/")


def _kafka_connection(address: str, topic: str | None) -> "KafkaConnection":
    """Created before anything of Kafka is imported, because the package may be missing."""
    from podium.buses.kafka_settings import KafkaConnection, parse_address

    try:
        parsed = parse_address(address, topic)
    except ValueError as error:
        shown = shortened(without_credentials(address), 200)
        raise UnknownBus(f"unsupported bus {shown!r}: {error}") from None
    return KafkaConnection(parsed, secret_lookup())


def relay_claim() -> timedelta:
    """How long a relay that does not answer keeps the events of a run from other relays."""
    from podium.runtime.relay import CLAIM_TTL

    return seconds_or(None, "PODIUM_LEASE", CLAIM_TTL)
