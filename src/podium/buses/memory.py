"""A bus in memory, for tests and for listeners in the same process."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from podium.buses.dead_letters import dead_headers
from podium.log.events import EventRecord
from podium.log.messages import DEAD_SUFFIX, Message, event_message, published_messages
from podium.ports.bus import TopicRefused
from podium.ports.events_in import Incoming

_WAIT_SECONDS: Final = 0.2


class MemoryTopics:
    """Topics of one partition each, and the positions of groups in them."""

    def __init__(self) -> None:
        self.topics: defaultdict[str, list[Incoming]] = defaultdict(list)
        self.committed: dict[tuple[str, str], int] = {}
        # The reader of a topic for a group: the member that joined last.
        self.members: dict[tuple[str, str], object] = {}
        self.changed = asyncio.Event()

    def add(self, message: Message) -> None:
        headers = tuple((name, value.encode()) for name, value in message.headers)
        key = message.key.encode() if message.key is not None else None
        self.put(message.topic, key, message.value, headers)

    def put(
        self, topic: str, key: bytes | None, value: bytes, headers: tuple[tuple[str, bytes], ...] = ()
    ) -> None:
        kept = self.topics[topic]
        kept.append(
            Incoming(topic=topic, partition=0, offset=len(kept), key=key, value=value, headers=headers)
        )
        self.changed.set()
        self.changed = asyncio.Event()


class MemoryBus:
    """Keeps what was published. Events are added to `topic` of `topics`, what steps publish to the topics
    that they name.
    """

    def __init__(
        self, name: str = "memory", topics: MemoryTopics | None = None, topic: str | None = None
    ) -> None:
        self.name = name
        self.published: list[EventRecord] = []
        self._topics = topics
        self._topic = topic
        self._listeners: list[Callable[[EventRecord], None]] = []

    def listen(self, listener: Callable[[EventRecord], None]) -> None:
        self._listeners.append(listener)

    async def publish(self, records: Sequence[EventRecord]) -> int:
        for record in records:
            self._take(record)
        return len(records)

    def _take(self, record: EventRecord) -> None:
        self.published.append(record)
        if self._topics is not None:
            own = [event_message(record, self._topic)] if self._topic is not None else []
            for message in [*own, *published_messages(record)]:
                self._topics.add(message)
        for listener in self._listeners:
            listener(record)

    async def send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if self._topics is not None:
                self._topics.add(message)

    async def close(self) -> None:
        pass


class MemorySource:
    """A member of a group. The member that joins last gets the topic, as after a rebalance."""

    def __init__(self, topics: MemoryTopics, topic: str, group: str) -> None:
        self.name = f"memory:{topic}"
        self._topics = topics
        self._topic = topic
        self._place = (topic, group)
        self._next = 0

    async def open(self) -> None:
        if self._topic not in self._topics.topics:
            raise TopicRefused(f"topic {self._topic!r} does not exist; create it")
        self._topics.members[self._place] = self
        self._next = self._topics.committed.get(self._place, 0)

    async def receive(self, limit: int) -> Sequence[Incoming]:
        if not self._is_mine or self._next >= len(self._topics.topics[self._topic]):
            await self._wait()
        if not self._is_mine:
            return []
        found = self._topics.topics[self._topic][self._next : self._next + limit]
        self._next += len(found)
        return found

    async def _wait(self) -> None:
        try:
            await asyncio.wait_for(self._topics.changed.wait(), _WAIT_SECONDS)
        except TimeoutError:
            return

    async def commit(self, messages: Sequence[Incoming]) -> None:
        if self._is_mine and messages:
            known = self._topics.committed.get(self._place, 0)
            self._topics.committed[self._place] = max(known, *(one.offset + 1 for one in messages))

    async def lag(self) -> int | None:
        return len(self._topics.topics[self._topic]) - self._topics.committed.get(self._place, 0)

    async def bury(self, message: Incoming, code: str) -> None:
        headers = (*message.headers, *dead_headers(message, code))
        self._topics.put(message.topic + DEAD_SUFFIX, message.key, message.value, headers)

    async def close(self) -> None:
        if self._is_mine:
            del self._topics.members[self._place]

    @property
    def _is_mine(self) -> bool:
        return self._topics.members.get(self._place) is self
