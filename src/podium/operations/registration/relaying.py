"""The bus as the service registers it: under a name of its own, so that `podium relay` has another line."""

from collections.abc import Sequence

from podium.log.events import EventRecord
from podium.operations.registration.place import Place
from podium.ports.bus import EventBus


class RegistrationBus:
    """An `EventBus`. Only what runs of this environment and namespace publish is delivered."""

    def __init__(self, bus: EventBus, place: Place) -> None:
        self.name = f"{bus.name}#registration.{place.name}"
        self._bus = bus
        self._place = place

    async def publish(self, records: Sequence[EventRecord]) -> int:
        # A line has the events of one run.
        run = records[0].run
        if (run.environment_id, run.project_id) != (self._place.env, self._place.namespace):
            return len(records)
        return await self._bus.publish(records)

    async def close(self) -> None:
        """The bus is closed by its owner."""
