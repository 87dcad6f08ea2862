"""Errors of Kafka never become part of ours: their texts quote settings and messages."""

import pytest
from confluent_kafka import KafkaError

from podium.buses.kafka_errors import as_podium

TEXT = "sasl.password=hunter2 of zaphod@example.org at 10.1.2.3: {payload}"
CODES = sorted(
    {
        value
        for name, value in vars(KafkaError).items()
        if name.strip("_").isupper() and isinstance(value, int)
    }
)


@pytest.mark.parametrize("topic", [None, "orders"])
def test_no_error_of_kafka_is_quoted(topic: str | None) -> None:
    assert len(CODES) > 100
    for code in CODES:
        error = as_podium(KafkaError(code, TEXT), "kafka://broker:9092", topic)
        shown = f"{error} {error!r} {error.__cause__}"
        assert not any(word in shown for word in ("hunter2", "zaphod", "10.1.2.3", "payload")), code
        assert error.code in ("BUS_UNAVAILABLE", "BUS_REFUSED", "TOPIC_REFUSED", "MESSAGE_REFUSED")
