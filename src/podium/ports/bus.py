"""Where events go besides the log: to whoever wants to hear of them."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from podium.log.alerts import Alert
from podium.log.events import EventRecord
from podium.log.ids import RunId


class EventBus(Protocol):
    """Takes events one by one; who listens deduplicates by run and `run_seq`, for an event may come twice."""

    @property
    def name(self) -> str: ...

    async def publish(self, record: EventRecord) -> None:
        """Returns when the bus has the event for good; raises anything if it has not."""
        ...


# Told about each alert once it is recorded; None for an alert that concerns no single run.
AlertHook: TypeAlias = Callable[[RunId | None, Alert], None]
