"""What goes over Kafka: messages of nodes, sent one to five times in any order; and all that is published."""

import heapq
import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from tests.registration.checker import Published
from tests.registration.simulated import Sent

PUBLISHED: Final = {
    f"onex.evt.{name}.v1": event
    for name, event in {
        "node-registration-result": "NodeRegistrationResultEvent",
        "node-registration-initiated": "NodeRegistrationInitiated",
        "node-registration-accepted": "NodeRegistrationAccepted",
        "node-registration-rejected": "NodeRegistrationRejected",
        "node-registration-ack-timed-out": "NodeRegistrationAckTimedOut",
        "node-registration-ack-received": "NodeRegistrationAckReceived",
        "node-became-active": "NodeBecameActive",
        "node-liveness-expired": "NodeLivenessExpired",
    }.items()
}
READ: Final = (
    "onex.evt.node-introspection.v1",
    "onex.evt.registry-request-introspection.v1",
    "onex.cmd.node-registration-acked.v1",
    "onex.internal.runtime-tick.v1",
    "onex.evt.node-heartbeat.v1",
)
_FLUSH_SECONDS: Final = 120.0
_MAX_WAITING: Final = 100_000


class Deliverer:
    """Sends each message `copies` times, each after a pause of its own: repeated, and in any order."""

    def __init__(
        self, address: str, prefix: str, random: Random, *, copies: int = 5, spread: float = 1.0
    ) -> None:
        self._prefix = prefix
        self._random = random
        self._copies = copies
        self._spread = spread
        self._waiting: list[tuple[float, int, Sent]] = []
        self._count = 0
        self.failed = 0
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "message.timeout.ms": 300_000,
                "linger.ms": 5,
                "log_level": 0,
            }
        )

    def send(self, messages: Iterable[Sent]) -> None:
        now = time.monotonic()
        for message in messages:
            for _ in range(self._random.randint(1, self._copies)):
                self._count += 1
                due = now + self._random.uniform(0, self._spread)
                heapq.heappush(self._waiting, (due, self._count, message))
        if len(self._waiting) > _MAX_WAITING:
            raise RuntimeError("more messages wait than the simulation may have")

    def pump(self) -> None:
        """What is due now goes to Kafka."""
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            self._produce(heapq.heappop(self._waiting)[2])
        self._producer.poll(0)

    def finish(self) -> None:
        while self._waiting:
            self._produce(heapq.heappop(self._waiting)[2])
        if self._producer.flush(_FLUSH_SECONDS) or self.failed:
            raise RuntimeError("Kafka did not accept all messages of the nodes")

    @property
    def sent(self) -> int:
        return self._count

    def _produce(self, message: Sent) -> None:
        topic, value = f"{self._prefix}.{message.topic}", json.dumps(message.body).encode()
        self._producer.produce(topic, value, message.key.encode(), on_delivery=self._delivered)

    def _delivered(self, error: Any, _message: Message) -> None:
        self.failed += error is not None


class Recorder:
    """Reads the published topics and the dead letters from their first message on, in a thread of its own."""

    def __init__(self, address: str, prefix: str, hear: Callable[[Published], None]) -> None:
        self._prefix = prefix
        self._hear = hear
        self.events: list[Published] = []
        self.dead: list[str] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._topics = [f"{prefix}.{one}" for one in (*PUBLISHED, *(f"{one}.dead" for one in READ))]
        # By topic and partition: the offset after the last message that was read.
        self._read_to: dict[tuple[str, int], int] = {}
        self._admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": f"recorder-{id(self)}-{time.time_ns()}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
            }
        )
        self._consumer.subscribe(self._topics)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            self._take(message)
            with self._lock:
                place = (message.topic() or "", message.partition() or 0)
                self._read_to[place] = (message.offset() or 0) + 1

    def _take(self, message: Message) -> None:
        topic = (message.topic() or "").removeprefix(f"{self._prefix}.")
        headers = {name: (value or b"").decode() for name, value in _headers(message)}
        if topic.endswith(".dead"):
            with self._lock:
                self.dead.append(f"{topic} {headers}")
            return
        body = json.loads(message.value() or b"null")
        event = Published(PUBLISHED[topic], headers["event_id"], headers["run_id"], body)
        with self._lock:
            self.events.append(event)
        self._hear(event)

    def catch_up(self, seconds: float = 60.0) -> None:
        """Wait until everything that is in the topics now was read."""
        until = time.monotonic() + seconds
        while self._behind():
            if time.monotonic() > until:
                raise TimeoutError(f"published events were not read within {seconds:.0f} s")
            time.sleep(0.1)

    def _behind(self) -> bool:
        try:
            latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
            ends = self._admin.list_offsets(dict.fromkeys(self._places(), latest))
            return any(self._is_behind(place, one.result(30).offset) for place, one in ends.items())
        except KafkaException:
            return True

    def _places(self) -> list[TopicPartition]:
        known = self._admin.list_topics(timeout=30).topics
        return [TopicPartition(name, one) for name in self._topics for one in known[name].partitions]

    def _is_behind(self, place: TopicPartition, end: int) -> bool:
        with self._lock:
            return self._read_to.get((place.topic, place.partition), 0) < end

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(30)
        self._consumer.close()


def _headers(message: Message) -> Sequence[tuple[str, bytes | None]]:
    found: Any = message.headers() or ()
    return list(found.items()) if isinstance(found, dict) else list(found)
