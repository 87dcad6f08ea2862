"""Delivery of events to other systems."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from podium.errors import PodiumError
from podium.log.alerts import Alert
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.messages import Message


class BusUnavailable(PodiumError):
    """The bus as a whole does not answer. No event is at fault: waiting events are delivered when the bus is
    back.
    """

    code = "BUS_UNAVAILABLE"


class DeliveryPostponed(PodiumError):
    """This process cannot deliver an event, but another one may be able to. The event does not become a dead
    letter.
    """

    code = "DELIVERY_POSTPONED"


class TopicRefused(PodiumError):
    """A topic does not exist, or the credentials do not allow its use."""

    code = "TOPIC_REFUSED"


class BusRefused(PodiumError):
    """The bus does not accept the credentials or settings."""

    code = "BUS_REFUSED"


class MessageRefused(PodiumError):
    """The topic does not accept a message: it is too large, or breaks a rule of the topic."""

    code = "MESSAGE_REFUSED"


class EventBus(Protocol):
    """Accepts the events of one run in order. An event may be delivered twice: consumers deduplicate by its
    id.
    """

    @property
    def name(self) -> str: ...

    async def publish(self, records: Sequence[EventRecord]) -> int:
        """Deliver the records of one run in order; returns how many of them, from the first on, the bus has
        accepted.

        Raises the first record's problem if not even that was delivered, and `BusUnavailable` if the bus does
        not answer.
        """
        ...

    async def close(self) -> None: ...


class MessageBus(EventBus, Protocol):
    """A bus with topics."""

    async def send(self, messages: Sequence[Message]) -> None:
        """Returns when the bus has them. Raises `BusUnavailable`, `TopicRefused` and `MessageRefused`."""
        ...


class Topics(Protocol):
    """The topics of a bus. Raises `BusUnavailable` and `BusRefused`."""

    async def missing(self, names: Sequence[str]) -> list[str]:
        """The names of topics that do not exist."""
        ...

    async def create(self, names: Sequence[str]) -> None: ...

    async def rights_to_give(self, reads: Sequence[str], writes: Sequence[str], group: str) -> list[str]:
        """A command for each missing permission: to read topics as this group, to write topics."""
        ...

    def how_to_create(self, name: str) -> str:
        """A command that creates the topic."""
        ...

    async def timed_by_senders(self, names: Sequence[str]) -> list[str]:
        """The topics whose message times are set by the senders, as far as that can be determined."""
        ...

    def how_to_time(self, name: str) -> str:
        """A command that makes the bus set the times of the topic's messages."""
        ...


# Called with each alert once it is recorded; None for an alert that concerns no single run.
AlertHook: TypeAlias = Callable[[RunId | None, Alert], None]
