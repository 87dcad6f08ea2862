"""Where events go besides the log: to other systems."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from podium.errors import PodiumError
from podium.log.alerts import Alert
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.messages import Message


class BusUnavailable(PodiumError):
    """The bus as a whole does not answer. It is no event's fault: what waits is delivered when the bus is back."""

    code = "BUS_UNAVAILABLE"


class TopicRefused(PodiumError):
    """A topic does not exist, or the credentials do not allow its use."""

    code = "TOPIC_REFUSED"


class BusRefused(PodiumError):
    """The bus does not accept the credentials or settings."""

    code = "BUS_REFUSED"


class EventBus(Protocol):
    """Takes events of one run in order. An event may come twice: consumers deduplicate by its id."""

    @property
    def name(self) -> str: ...

    async def publish(self, records: Sequence[EventRecord]) -> int:
        """Deliver the records of one outbox line in order; how many of them, from the first on, the bus has for good.

        Raises what is wrong with the first record if not even that was delivered, and `BusUnavailable` if the bus
        does not answer.
        """
        ...

    async def close(self) -> None: ...


class MessageBus(EventBus, Protocol):
    """A bus with topics."""

    async def send(self, messages: Sequence[Message]) -> None:
        """Returns when the bus has them. Raises `BusUnavailable` and `TopicRefused`."""
        ...


class Topics(Protocol):
    """The topics of a bus. Raises `BusUnavailable` and `BusRefused`."""

    async def missing(self, names: Sequence[str]) -> list[str]:
        """Those that do not exist."""
        ...

    async def create(self, names: Sequence[str]) -> None: ...

    async def rights_to_give(self, reads: Sequence[str], writes: Sequence[str], group: str) -> list[str]:
        """A command for each right that is missing: to read topics as this group, to write topics."""
        ...

    def how_to_create(self, name: str) -> str:
        """A command."""
        ...

    async def timed_by_senders(self, names: Sequence[str]) -> list[str]:
        """Those of them whose messages have times that their senders choose, as far as that can be seen."""
        ...

    def how_to_time(self, name: str) -> str:
        """A command after which its messages have the time of the bus."""
        ...


# Called with each alert once it is recorded; None for an alert that concerns no single run.
AlertHook: TypeAlias = Callable[[RunId | None, Alert], None]
