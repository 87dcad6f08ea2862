"""Incoming messages that can start a workflow.

A consumer is a member of a group. The bus assigns each partition to one member, remembers the group's
position in it, and delivers a message again until that is committed: at least once, in the order of the
partition.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

# The code of the dead letter.
HEADERS_UNREADABLE: Final = "EVENT_HEADERS_UNREADABLE"


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the bus delivered it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()
    # Milliseconds since 1970, as reported by the bus; a topic that was created again has other times at the
    # same offsets.
    timestamp: int = 0
    # Whether that is the time at which the bus received it; otherwise the sender chose it.
    is_timed_by_bus: bool = True
    # Its headers have a name that is not UTF-8. Then none of them is here, and the message cannot be used.
    has_unreadable_headers: bool = False

    def header(self, name: str) -> str | None:
        """The last header of this name, if it is readable."""
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
        """The next messages, at most `limit`: waits a while for the first, never for the others. Empty if
        none arrived.

        Messages that are not requested stay on the bus: its partitions are paused while enough of them are
        buffered here.
        """
        ...

    async def commit(self, messages: Sequence[Incoming]) -> None:
        """The group has processed these and all before them. Partitions that were assigned to another member
        are skipped.
        """
        ...

    async def lag(self) -> int | None:
        """How many messages of the topic the group has not committed, in all partitions; None if unknown."""
        ...

    async def bury(self, message: Incoming, code: str) -> None:
        """Move it to the dead-letter topic, unchanged; headers say why and from where. Returns when it is
        stored.

        Raises `BusUnavailable` and `TopicRefused`.
        """
        ...

    async def close(self) -> None:
        """Leave the group; another member takes over this one's partitions."""
        ...
