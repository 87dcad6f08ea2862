"""Messages that come in: what a workflow can be started by.

A consumer is a member of a group. The bus hands each partition to one member, remembers how far the group has come in
it, and hands a message out again until that is committed: at least once, in the order of the partition.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the bus handed it out."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()
    # Milliseconds since 1970, as the bus has it; a topic that was made again has other ones at the same offsets.
    timestamp: int = 0
    # Whether that is the time at which the bus received it; else a sender chose it.
    is_timed_by_bus: bool = True

    def header(self, name: str) -> str | None:
        """The last one of this name, if it is readable."""
        for known, value in reversed(self.headers):
            if known == name:
                return value.decode(errors="replace")
        return None


class EventSource(Protocol):
    """One member of a group, for one topic."""

    @property
    def name(self) -> str: ...

    async def open(self) -> None:
        """Join the group. Raises `BusUnavailable`, `BusRefused` and `TopicRefused`."""
        ...

    async def receive(self, limit: int) -> Sequence[Incoming]:
        """The next messages, at most `limit`: waits a while for the first, never for the others. Empty if none came.

        Messages that nothing asks for stay on the bus: its partitions are paused while enough are waiting here.
        """
        ...

    async def commit(self, messages: Sequence[Incoming]) -> None:
        """The group has done with these and all before them. A partition that was handed to another member is left."""
        ...

    async def lag(self) -> int | None:
        """How many messages of the topic the group has not committed, in all partitions; None if that is unknown."""
        ...

    async def bury(self, message: Incoming, code: str) -> None:
        """Put it into the dead-letter topic, unchanged; headers say why and from where. Returns when it is there.

        Raises `BusUnavailable` and `TopicRefused`.
        """
        ...

    async def close(self) -> None:
        """Leave the group; another member takes over what this one had."""
        ...
