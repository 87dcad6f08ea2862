"""How many messages a consumer group has not committed, queried by a client of its own.

The polling client cannot be used: its queries wait behind the fetch that waits for messages, and it receives
no messages while it waits for the answers.
"""

import asyncio
import threading
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from podium.buses.kafka_settings import KafkaConnection

_ANSWER_SECONDS: Final = 2.0


class KafkaLag:
    """The lag of one topic. The client does not subscribe, so it is not a member of the group."""

    def __init__(self, connection: KafkaConnection, topic: str, group: str) -> None:
        self._settings = connection.settings(
            **{"group.id": group, "enable.auto.commit": False, "log_level": 0},
            error_cb=lambda _error: None,
        )
        self._topic = topic
        self._lock = threading.Lock()
        self._client: Consumer | None = None
        self._is_closed = False

    async def measure(self) -> int | None:
        """In all partitions; None if the broker does not answer."""
        return await asyncio.to_thread(self._measure)

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _measure(self) -> int | None:
        with self._lock:
            if self._is_closed:
                return None
            if self._client is None:
                self._client = Consumer(self._settings)
            try:
                return self._asked(self._client)
            except KafkaException:
                return None

    def _asked(self, client: Consumer) -> int | None:
        known = client.list_topics(self._topic, timeout=_ANSWER_SECONDS).topics[self._topic]
        places = [TopicPartition(self._topic, number) for number in known.partitions]
        total = 0
        for place in client.committed(places, timeout=_ANSWER_SECONDS):
            if self._is_closed:
                return None
            low, high = client.get_watermark_offsets(place, timeout=_ANSWER_SECONDS)
            # Without a committed offset, all messages that the broker still has.
            total += max(0, high - (place.offset if place.offset >= 0 else low))
        return total

    def _close(self) -> None:
        self._is_closed = True
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None
