"""Where events go besides the log: to other systems."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from podium.errors import PodiumError
from podium.log.alerts import Alert
from podium.log.events import EventRecord
from podium.log.ids import RunId


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


# Called with each alert once it is recorded; None for an alert that concerns no single run.
AlertHook: TypeAlias = Callable[[RunId | None, Alert], None]
