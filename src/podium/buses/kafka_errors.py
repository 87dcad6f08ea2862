"""Translates Kafka's errors. Only their names are shown: their texts may quote settings and messages."""

from typing import Final

from confluent_kafka import KafkaError

from podium.errors import PodiumError
from podium.ports.bus import BusRefused, BusUnavailable, MessageRefused, TopicRefused

_TOPIC: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
    }
)
_REFUSED: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.INVALID_GROUP_ID,
        KafkaError._INVALID_ARG,
    }
)
_MESSAGE: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_RECORD,
    }
)
# The group has rebalanced: its messages are delivered again, to this member or another one.
MOVED_ON: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError._NO_OFFSET,
        KafkaError._STATE,
        KafkaError._ASSIGNMENT_LOST,
    }
)
_NEXT_STEP: Final = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "create it",
    KafkaError._UNKNOWN_TOPIC: "create it",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "allow its use to the user of PODIUM_KAFKA_USERNAME",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "allow the group to the user of PODIUM_KAFKA_USERNAME",
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: "stop the other consumers of the group, or use another group",
    KafkaError._AUTHENTICATION: "check PODIUM_KAFKA_USERNAME, PODIUM_KAFKA_PASSWORD and PODIUM_KAFKA_SASL",
    KafkaError.SASL_AUTHENTICATION_FAILED: "check PODIUM_KAFKA_USERNAME and PODIUM_KAFKA_PASSWORD",
    KafkaError._SSL: "check PODIUM_KAFKA_CA, PODIUM_KAFKA_CERTIFICATE and PODIUM_KAFKA_KEY",
}


def as_podium(error: KafkaError, bus: str, topic: str | None = None) -> PodiumError:
    """The error for a caller: which part it concerns, its name, and what to do."""
    code, name = error.code(), error.name()
    if topic is not None and code in _TOPIC:
        return TopicRefused(
            f"{bus} refuses the topic {topic!r} ({name}); {_NEXT_STEP.get(code, 'check its name')}"
        )
    if code in _MESSAGE:
        return MessageRefused(
            f"{bus} refuses a message ({name}); make it smaller, or check what the topic accepts"
        )
    if code in _REFUSED:
        return BusRefused(f"{bus} refuses this ({name}); {_NEXT_STEP.get(code, 'check its settings')}")
    return BusUnavailable(f"{bus} does not answer ({name}); check the address and whether the broker runs")


def is_refusal(error: KafkaError) -> bool:
    return error.code() in _REFUSED
