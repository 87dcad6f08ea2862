"""Sends messages to Kafka: each at least once, those of one key in order.

The producer is idempotent and never gives up a message by itself, so what it still holds is sent before
anything later, even after an outage: a caller that stops waiting and sends again causes repetitions, never
gaps or another order. A thread collects the broker's answers; the event loop wakes up once for all that
arrived together.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from podium.buses.kafka_admin import PATIENCE, KafkaAdmin
from podium.buses.kafka_errors import as_podium, is_refusal
from podium.buses.kafka_settings import UNUSABLE_SETTINGS, KafkaConnection
from podium.ports.bus import BusRefused, BusUnavailable, TopicRefused

_POLL_SECONDS: Final = 0.2
_FLUSH_SECONDS: Final = 5.0
_TOPIC_SECONDS: Final = 3.0
_PRODUCER: Final[dict[str, Any]] = {
    "enable.idempotence": True,
    "acks": "all",
    "message.timeout.ms": 0,
    # The most that the client knows: the topic decides what is too large. It may have larger ones than the client's
    # default, and each of them may become a dead letter.
    "message.max.bytes": 1_000_000_000,
    "linger.ms": 5,
    "compression.type": "lz4",
    "log_level": 0,
}


class Outgoing(msgspec.Struct, frozen=True):
    """A message, and the index of the caller's item that it belongs to."""

    index: int
    topic: str
    key: bytes | None
    value: bytes
    headers: Sequence[tuple[str, bytes]]


class _Batch:
    """Messages that a caller waits for."""

    def __init__(self, done: "asyncio.Future[None]", messages: "Sequence[Outgoing]") -> None:
        self.done = done
        self.is_abandoned = False
        self.errors: dict[int, tuple[KafkaError, str]] = {}
        self._unanswered = Counter(message.index for message in messages)
        self._left = len(messages)
        # Answers come from the thread, and for what could not be queued at all from the event loop.
        self._lock = threading.Lock()

    def answer(self, index: int, topic: str, error: KafkaError | None) -> bool:
        """Returns whether it was the last one."""
        with self._lock:
            self._left -= 1
            self._unanswered[index] -= 1
            if error is not None:
                self.errors.setdefault(index, (error, topic))
            return self._left == 0

    def first_undelivered(self) -> int | None:
        with self._lock:
            unanswered = (index for index, count in self._unanswered.items() if count)
            return min([*unanswered, *self.errors], default=None)


class KafkaSender:
    """One client of a cluster."""

    def __init__(self, connection: KafkaConnection, name: str, *, patience: float = PATIENCE) -> None:
        self.name = name
        self._connection = connection
        self._patience = patience
        self._producer: Producer | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = threading.Event()
        self._answered: list[_Batch] = []
        self._topics: set[str] = set()
        # Messages whose sender has stopped waiting, and that the producer still holds.
        self._abandoned = 0
        self._caught_up = asyncio.Event()
        self._caught_up.set()
        self._refusal: KafkaError | None = None

    async def send(self, messages: Sequence[Outgoing]) -> int | None:
        """The lowest index of which something was not delivered; None if everything was.

        Raises the error of index 0 if that was not delivered.
        """
        await self._wait_for_abandoned()
        for topic in dict.fromkeys(message.topic for message in messages):
            await self.check_topic(topic)
        batch = _Batch(asyncio.get_running_loop().create_future(), messages)
        self._produce(batch, messages)
        await self._answers(batch)
        first = batch.first_undelivered()
        if first == 0:
            raise self._problem(batch, first)
        return first

    async def reach(self) -> None:
        """Raises `BusRefused` and `BusUnavailable`."""
        await asyncio.to_thread(self._known_topics)

    async def check_topic_exists(self, topic: str) -> None:
        """Like `check_topic`, but never creates it: otherwise a misspelled name would be read forever."""
        if topic not in await asyncio.to_thread(self._known_topics):
            raise as_podium(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), self.name, topic)

    async def check_topic(self, topic: str) -> None:
        """Raises `TopicRefused`, `BusRefused` and `BusUnavailable`. If the broker creates topics
        automatically, it is created.
        """
        if topic in self._topics:
            return
        producer = self._started()
        until = asyncio.get_running_loop().time() + _TOPIC_SECONDS
        while (error := await asyncio.to_thread(self._error_of, producer, topic)) is not None:
            # A topic that was just created has no leader yet.
            if asyncio.get_running_loop().time() > until:
                raise as_podium(error, self.name, topic)
            await asyncio.sleep(0.1)
        self._topics.add(topic)

    def _known_topics(self) -> frozenset[str]:
        with KafkaAdmin(self._connection) as admin:
            return admin.topics(self._patience)

    def _error_of(self, producer: Producer, topic: str) -> KafkaError | None:
        try:
            found = producer.list_topics(topic, timeout=self._patience).topics.get(topic)
        except KafkaException as error:
            raise as_podium(self._refusal or error.args[0], self.name, topic) from None
        return found.error if found is not None else KafkaError(KafkaError._UNKNOWN_TOPIC)

    def _produce(self, batch: _Batch, messages: Sequence[Outgoing]) -> None:
        producer = self._started()
        for place, message in enumerate(messages):
            answered = partial(self._on_answer, batch, message.index, message.topic)
            headers: list[tuple[str, str | bytes | None]] = list(message.headers)
            try:
                producer.produce(
                    message.topic, message.value, message.key, headers=headers, on_delivery=answered
                )
            except (KafkaException, BufferError) as error:
                self._refuse(batch, messages[place:], error)
                return

    def _refuse(self, batch: _Batch, rest: "Sequence[Outgoing]", error: Exception) -> None:
        """The first of them cannot be sent, and the following ones must not overtake it."""
        reason = error.args[0] if isinstance(error, KafkaException) else KafkaError(KafkaError._QUEUE_FULL)
        for message in rest:
            if batch.answer(message.index, message.topic, reason):
                batch.done.set_result(None)

    async def _answers(self, batch: _Batch) -> None:
        try:
            await asyncio.wait_for(asyncio.shield(batch.done), self._patience)
        except TimeoutError:
            self._abandon(batch)
        except asyncio.CancelledError:
            self._abandon(batch)
            raise

    def _abandon(self, batch: _Batch) -> None:
        batch.is_abandoned = True
        self._abandoned += 1
        self._caught_up.clear()

    async def _wait_for_abandoned(self) -> None:
        try:
            await asyncio.wait_for(self._caught_up.wait(), self._patience)
        except TimeoutError:
            raise self._unavailable() from None

    def _unavailable(self) -> Exception:
        if self._refusal is not None:
            return as_podium(self._refusal, self.name)
        return BusUnavailable(f"{self.name} does not answer; check the address and whether the broker runs")

    def _problem(self, batch: _Batch, index: int) -> Exception:
        if index not in batch.errors:
            return self._unavailable()
        error, topic = batch.errors[index]
        problem = as_podium(error, self.name, topic)
        if isinstance(problem, TopicRefused):
            self._topics.discard(topic)
        return problem

    # --- the thread -------------------------------------------------------------------------------

    def _started(self) -> Producer:
        if self._producer is None:
            self._loop = asyncio.get_running_loop()
            self._closing = closing = threading.Event()
            on_error = partial(self._on_error, closing)
            try:
                self._producer = Producer(self._connection.settings(**_PRODUCER, error_cb=on_error))
            except KafkaException:
                raise BusRefused(f"{self.name}: {UNUSABLE_SETTINGS}") from None
            self._thread = threading.Thread(target=self._collect, args=(self._producer, closing), daemon=True)
            self._thread.start()
        return self._producer

    def _collect(self, producer: Producer, closing: threading.Event) -> None:
        while not closing.is_set():
            producer.poll(_POLL_SECONDS)
            self._wake()
        # What it still holds will never be sent, so the waiting senders have to be informed.
        producer.purge()
        producer.flush(_FLUSH_SECONDS)
        self._wake()

    def _wake(self) -> None:
        answered, self._answered = self._answered, []
        if answered and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._settle, answered)

    def _settle(self, answered: Sequence[_Batch]) -> None:
        for batch in answered:
            if batch.is_abandoned:
                self._abandoned -= 1
                if not self._abandoned:
                    self._caught_up.set()
            elif not batch.done.done():
                batch.done.set_result(None)

    def _on_answer(
        self, batch: _Batch, index: int, topic: str, error: KafkaError | None, _message: Message
    ) -> None:
        if batch.answer(index, topic, error):
            self._answered.append(batch)

    def _on_error(self, closing: threading.Event, error: KafkaError) -> None:
        if error.fatal() and closing is self._closing:
            # It sends nothing more; the next message gets a new producer.
            self._producer = None
            closing.set()
        if is_refusal(error):
            self._refusal = error

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is None:
            return
        await asyncio.to_thread(producer.flush, _FLUSH_SECONDS)
        self._closing.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
