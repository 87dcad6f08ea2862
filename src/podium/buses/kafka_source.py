"""Reads a topic of Kafka as a member of a consumer group.

A thread polls continuously, so that the membership survives a busy event loop. The number of unrequested
messages is limited: when enough of them are buffered here, the partitions are paused, and resumed when there
is space. Offsets are committed only by `commit`. If a partition is assigned to another member, its buffered
messages are dropped here, because that member gets them.
"""

import asyncio
import concurrent.futures
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from operator import methodcaller
from typing import Any, Final

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from podium.buses.dead_letters import OMITTED, dead_headers
from podium.buses.kafka_admin import PATIENCE
from podium.buses.kafka_errors import MOVED_ON, as_podium, is_refusal
from podium.buses.kafka_lag import KafkaLag
from podium.buses.kafka_producer import KafkaSender, Outgoing
from podium.buses.kafka_rights import ASSIGNMENT, KafkaRights
from podium.buses.kafka_settings import UNUSABLE_SETTINGS, KafkaConnection
from podium.log.messages import DEAD_SUFFIX
from podium.ports.bus import BusRefused, BusUnavailable, MessageRefused
from podium.ports.events_in import Incoming

# Messages that are buffered before the partitions are paused; they are resumed when half of them are taken.
MAX_WAITING: Final = 500
# Or so much of large ones, besides what arrives at the same time.
MAX_WAITING_BYTES: Final = 16 * 2**20
_POLL_SECONDS: Final = 0.05
_WAIT_SECONDS: Final = 0.5
_PAUSE_SECONDS: Final = 1.0
# For the answers to the last commits.
_LAST_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 10.0
_CONSUMER: Final[dict[str, Any]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",
    "allow.auto.create.topics": False,
    # Of what the client reads ahead.
    "queued.max.messages.kbytes": 16 * 1024,
    "partition.assignment.strategy": ASSIGNMENT,
    # The partitions of a process that was killed are assigned to others after this time.
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 2_000,
    "log_level": 0,
}
# For a name that is not UTF-8 the client raises, and returns a broken list as well. A call `message.headers()` that
# Python has optimized does not see the error, and would use the list.
_HEADERS_OF: Final[Any] = methodcaller("headers")


class KafkaSource:
    """One member."""

    def __init__(
        self,
        connection: KafkaConnection,
        topic: str,
        group: str,
        *,
        patience: float = PATIENCE,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        self.name = connection.address.name
        self._topic = topic
        self._group = group
        self._connection = connection
        self._patience = patience
        self._max_waiting = max_waiting
        self._sender = KafkaSender(connection, self.name, patience=patience)
        self._lag = KafkaLag(connection, topic, group)
        self._consumer: Consumer | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._waiting: deque[Incoming] = deque()
        self._commits: deque[tuple[list[TopicPartition], concurrent.futures.Future[KafkaError | None]]] = (
            deque()
        )
        # Those that wait for the answer of the broker.
        self._committing: dict[frozenset[tuple[int, int]], concurrent.futures.Future[KafkaError | None]] = {}
        self._mine: set[int] = set()
        self._is_paused = False
        self._trouble: KafkaError | None = None
        # What ended the last consumer unexpectedly.
        self._defect: str | None = None
        self._refusal: KafkaError | None = None
        self._arrived = asyncio.Event()

    async def open(self) -> None:
        # First, because topics that the user may not see look like missing ones.
        rights = KafkaRights(self._connection, patience=self._patience)
        await rights.check(reads=[self._topic], writes=[self._topic + DEAD_SUFFIX], group=self._group)
        await self._sender.check_topic_exists(self._topic)
        await self._sender.check_topic(self._topic + DEAD_SUFFIX)
        try:
            self._consumer = consumer = self._joined()
        except KafkaException:
            raise BusRefused(f"{self.name}: {UNUSABLE_SETTINGS}") from None
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._serve, args=(consumer, loop), daemon=True)
        self._thread.start()

    def _joined(self) -> Consumer:
        consumer = Consumer(
            self._connection.settings(
                **_CONSUMER,
                **{"group.id": self._group},
                error_cb=self._on_error,
                on_commit=self._on_commit,
            )
        )
        consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )
        return consumer

    async def receive(self, limit: int) -> Sequence[Incoming]:
        if not self._waiting:
            self._arrived.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), _WAIT_SECONDS)
        defect, self._defect = self._defect, None
        if defect is not None:
            raise BusUnavailable(
                f"{self.name}: reading ended with {defect}; it starts again where it was committed"
            )
        trouble, self._trouble = self._refusal or self._trouble, None
        if trouble is not None:
            self._refusal = None
            raise as_podium(trouble, self.name, self._topic)
        with self._lock:
            return [self._waiting.popleft() for _ in range(min(limit, len(self._waiting)))]

    async def commit(self, messages: Sequence[Incoming]) -> None:
        done: dict[int, int] = {}
        for message in messages:
            if message.partition in self._mine:
                done[message.partition] = max(done.get(message.partition, 0), message.offset + 1)
        if not done or self._consumer is None:
            return
        offsets = [TopicPartition(self._topic, partition, offset) for partition, offset in done.items()]
        # By the thread: a commit from another thread while the client polls would wait for it forever.
        committed: concurrent.futures.Future[KafkaError | None] = concurrent.futures.Future()
        self._commits.append((offsets, committed))
        try:
            error = await asyncio.wait_for(asyncio.wrap_future(committed), self._patience)
        except TimeoutError:
            error = KafkaError(KafkaError._TIMED_OUT)
        if error is not None and error.code() not in MOVED_ON:
            raise as_podium(error, self.name, self._topic)

    async def lag(self) -> int | None:
        if self._thread is None or self._closing.is_set():
            return None
        return await self._lag.measure()

    async def bury(self, message: Incoming, code: str) -> None:
        topic, why = message.topic + DEAD_SUFFIX, dead_headers(message, code)
        headers = (*message.headers, *dead_headers(message, code))
        try:
            await self._sender.send([Outgoing(0, topic, message.key, message.value, headers)])
        except MessageRefused:
            # It must not stop its partition: the headers say where it is. A compacted topic wants a key.
            key = f"{message.partition}/{message.offset}".encode()
            await self._sender.send([Outgoing(0, topic, key, b"", (*why, OMITTED))])

    async def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            # The client waits for a broker that is away; then the group notices by itself that a member has gone.
            await asyncio.to_thread(self._thread.join, _CLOSE_SECONDS)
        await self._lag.close()
        await self._sender.close()

    # --- the thread -------------------------------------------------------------------------------

    def _serve(self, consumer: Consumer, loop: asyncio.AbstractEventLoop) -> None:
        """A consumer that ends unexpectedly is replaced: without one, the topic would fall silent without a
        message.
        """
        first: Consumer | None = consumer
        while True:
            try:
                return self._poll(first or self._joined(), loop)
            except Exception as error:
                first = None
                self._forget(type(error).__name__, loop)
            if self._closing.wait(_PAUSE_SECONDS):
                return None

    def _forget(self, defect: str, loop: asyncio.AbstractEventLoop) -> None:
        """Messages buffered here are delivered again: nothing after a lost message may be committed."""
        with self._lock:
            self._mine.clear()
            self._waiting.clear()
        self._is_paused = False
        self._defect = defect
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._arrived.set)

    def _poll(self, consumer: Consumer, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while not self._closing.is_set():
                self._pause_or_resume(consumer)
                self._take(self._consume(consumer), loop)
                self._commit_asked(consumer)
        finally:
            self._commit_asked(consumer)
            until = time.monotonic() + _LAST_SECONDS
            while self._committing and time.monotonic() < until:
                consumer.poll(_POLL_SECONDS)  # what comes with the answers comes again
            self._committing.clear()
            # Leaves the group, so that the others need not wait for a timeout.
            consumer.close()

    def _commit_asked(self, consumer: Consumer) -> None:
        """Without waiting for the answers: a broker that is away gives none."""
        while self._commits:
            offsets, committed = self._commits.popleft()
            self._committing[_places(offsets)] = committed
            try:
                consumer.commit(offsets=offsets, asynchronous=True)
            except KafkaException as problem:
                self._on_commit(problem.args[0], offsets)

    def _on_commit(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        committed = self._committing.pop(_places(offsets), None)
        failed = next((one.error for one in offsets if one.error is not None), None)
        if committed is not None and committed.set_running_or_notify_cancel():
            committed.set_result(error or failed)

    def _consume(self, consumer: Consumer) -> list[Message]:
        """Waits for the first message only: asked for several, the client would wait until it has all of
        them.
        """
        found = consumer.consume(1, _POLL_SECONDS)
        room = self._max_waiting - len(self._waiting) - len(found)
        return [*found, *consumer.consume(room, 0)] if found and room > 0 else found

    def _take(self, found: Sequence[Message], loop: asyncio.AbstractEventLoop) -> None:
        arrived = [_incoming(message) for message in found if message.error() is None]
        troubles = [error for message in found if (error := message.error()) is not None]
        with self._lock:
            self._waiting.extend(one for one in arrived if one.partition in self._mine)
        if troubles:
            self._trouble = troubles[-1]
        if found and not loop.is_closed():
            loop.call_soon_threadsafe(self._arrived.set)

    def _pause_or_resume(self, consumer: Consumer) -> None:
        with self._lock:
            fill = max(
                len(self._waiting) / self._max_waiting, sum(map(_size, self._waiting)) / MAX_WAITING_BYTES
            )
        if not self._is_paused and fill >= 1:
            consumer.pause(consumer.assignment())
            self._is_paused = True
        elif self._is_paused and fill <= 1 / 2:
            consumer.resume(consumer.assignment())
            self._is_paused = False

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        with self._lock:
            self._mine.update(one.partition for one in partitions)
        consumer.incremental_assign(partitions)
        # A partition that was revoked while it was paused is still paused when it is assigned again.
        (consumer.pause if self._is_paused else consumer.resume)(partitions)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {one.partition for one in partitions}
        with self._lock:
            self._mine -= gone
            self._waiting = deque(one for one in self._waiting if one.partition not in gone)
        consumer.incremental_unassign(partitions)

    def _on_error(self, error: KafkaError) -> None:
        if is_refusal(error):
            self._refusal = error


def _places(offsets: Sequence[TopicPartition]) -> frozenset[tuple[int, int]]:
    return frozenset((one.partition, one.offset) for one in offsets)


def _size(message: Incoming) -> int:
    return len(message.value)


def _incoming(message: Message) -> Incoming:
    kind, timestamp = message.timestamp()
    key, value = message.key(), message.value()
    headers = _headers(message)
    return Incoming(
        topic=message.topic() or "",
        partition=_number(message.partition()),
        offset=_number(message.offset()),
        key=_bytes(key) if key is not None else None,
        value=_bytes(value) if value is not None else b"",
        headers=headers or (),
        timestamp=timestamp if kind != TIMESTAMP_NOT_AVAILABLE else 0,
        is_timed_by_bus=kind == TIMESTAMP_LOG_APPEND_TIME,
        has_unreadable_headers=headers is None,
    )


def _headers(message: Message) -> tuple[tuple[str, bytes], ...] | None:
    """None if the client cannot decode the name of one: then it returns no other one either."""
    try:
        headers: Any = _HEADERS_OF(message) or ()
    except SystemError:
        return None
    return tuple((name, _bytes(value)) for name, value in headers)


def _number(value: int | None) -> int:
    assert value is not None
    return value


def _bytes(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""
