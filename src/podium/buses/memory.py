"""A bus in memory, for tests and for listeners in the same process."""

from collections.abc import Callable

from podium.log.events import EventRecord


class MemoryBus:
    def __init__(self, name: str = "memory") -> None:
        self.name = name
        self.published: list[EventRecord] = []
        self._listeners: list[Callable[[EventRecord], None]] = []

    def listen(self, listener: Callable[[EventRecord], None]) -> None:
        self._listeners.append(listener)

    async def publish(self, record: EventRecord) -> None:
        self.published.append(record)
        for listener in self._listeners:
            listener(record)
