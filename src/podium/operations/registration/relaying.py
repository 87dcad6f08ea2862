"""The bus as the service registers it: under a name of its own, so that `podium relay` has another line.

What the relay cannot deliver is shown without a text of the bus.
"""

from collections.abc import Sequence

from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.operations.registration.place import Place
from podium.operations.registration.view import ServeView
from podium.ports.bus import EventBus
from podium.runtime.relay import RelayView


class RegistrationBus:
    """An `EventBus`. Delivers only what runs of this environment and namespace publish."""

    def __init__(self, bus: EventBus, place: Place) -> None:
        self.name = f"{bus.name}#registration.{place.name}"
        self._bus = bus
        self._place = place

    async def publish(self, records: Sequence[EventRecord]) -> int:
        # A line contains the events of one run only.
        run = records[0].run
        if (run.environment_id, run.project_id) != (self._place.env, self._place.namespace):
            return len(records)
        return await self._bus.publish(records)

    async def close(self) -> None:
        """The bus is closed by its owner."""


class RelayTroubles(RelayView):
    """Shown once, until something is delivered again."""

    def __init__(self, subject: str, view: ServeView) -> None:
        self._subject = subject
        self._view = view
        self._is_shown = False

    def delivered(self, run_id: RunId, count: int, through_seq: int) -> None:
        if self._is_shown:
            self._is_shown = False
            self._view.back(self._subject)

    def failed(self, run_id: RunId, run_seq: int, failures: int, error: str, *, is_dead: bool) -> None:
        self._show("the bus refuses an event; see `podium outbox list`")

    def bus_is_away(self, reason: str) -> None:
        # Of an adapter, with names and codes only.
        self._show(reason)

    def _show(self, reason: str) -> None:
        if not self._is_shown:
            self._is_shown = True
            self._view.trouble(self._subject, reason)
