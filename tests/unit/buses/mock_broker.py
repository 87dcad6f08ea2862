"""The broker that librdkafka has for tests: in this process, without Java, ready at once."""

import ctypes
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import Consumer, Message, Producer, TopicPartition, cimpl

# Of `rdkafka.h`: what the next argument of `rd_kafka_producev` is.
_END, _TOPIC, _PARTITION, _VALUE, _FLAGS, _HEADERS = 0, 1, 3, 4, 7, 10
_COPY: Final = 2
_MAX_REASON: Final = 500


class MockBroker:
    """Lives as long as its client. Everything is sent to the first partition."""

    def __init__(self) -> None:
        self._client = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock:1", "log_level": 0})
        (broker,) = self._client.list_topics(timeout=30).brokers.values()
        self.address = f"{broker.host}:{broker.port}"

    def stop(self) -> None:
        del self._client

    def create(self, *topics: str) -> None:
        for topic in topics:
            self._client.list_topics(topic, timeout=30)

    def put(self, topic: str, *values: bytes, headers: Sequence[tuple[str, bytes]] = (), **more: Any) -> None:
        producer = Producer({"bootstrap.servers": self.address, "log_level": 0, **more})
        for value in values:
            producer.produce(topic, value, headers=list(headers), partition=0)
        assert producer.flush(30) == 0

    def first(self, topic: str) -> Message:
        """The first message of a topic, whatever its partition."""
        reader = Consumer({"bootstrap.servers": self.address, "group.id": "reader", "log_level": 0})
        partitions = reader.list_topics(topic, timeout=30).topics[topic].partitions
        reader.assign([TopicPartition(topic, number, 0) for number in partitions])
        found = reader.poll(30)
        reader.close()
        assert found is not None
        return found

    def put_with_raw_header(self, topic: str, value: bytes, name: bytes, content: bytes) -> None:
        """As programs in C can: the client for Python encodes the names of headers."""
        library = ctypes.CDLL(cimpl.__file__)
        for function in ("rd_kafka_new", "rd_kafka_conf_new", "rd_kafka_headers_new"):
            getattr(library, function).restype = ctypes.c_void_p
        reason = ctypes.create_string_buffer(_MAX_REASON)
        settings = ctypes.c_void_p(library.rd_kafka_conf_new())
        library.rd_kafka_conf_set(
            settings, b"bootstrap.servers", self.address.encode(), reason, ctypes.c_size_t(_MAX_REASON)
        )
        client = ctypes.c_void_p(library.rd_kafka_new(0, settings, reason, ctypes.c_size_t(_MAX_REASON)))
        headers = ctypes.c_void_p(library.rd_kafka_headers_new(ctypes.c_size_t(1)))
        sizes = [ctypes.c_ssize_t(len(one)) for one in (name, content)]
        library.rd_kafka_header_add(headers, name, sizes[0], content, sizes[1])
        arguments: list[Any] = [ctypes.c_int(_TOPIC), ctypes.c_char_p(topic.encode())]
        arguments += [ctypes.c_int(_PARTITION), ctypes.c_int32(0)]
        arguments += [ctypes.c_int(_VALUE), ctypes.c_char_p(value), ctypes.c_size_t(len(value))]
        arguments += [ctypes.c_int(_FLAGS), ctypes.c_int(_COPY)]
        arguments += [ctypes.c_int(_HEADERS), headers, ctypes.c_int(_END)]
        assert library.rd_kafka_producev(client, *arguments) == 0
        assert library.rd_kafka_flush(client, 30_000) == 0
        library.rd_kafka_destroy(client)
