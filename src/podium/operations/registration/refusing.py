"""Messages that can never be used: a dead letter with a code, and one alert per code and minute."""

from datetime import datetime
from typing import Final

from podium.log.alerts import Alert, AlertCode
from podium.operations.receipts import Receipts
from podium.operations.registration.counting import Counts
from podium.operations.registration.view import ServeView
from podium.ports.clock import Clock
from podium.ports.events_in import EventSource, Incoming
from podium.ports.metrics import ALERTS
from podium.ports.telemetry import Telemetry
from podium.runtime.alerts import Alerting

# More than a batch of every topic.
_MAX_REMEMBERED: Final = 10_000


class Refusals:
    def __init__(
        self,
        alerting: Alerting,
        clock: Clock,
        counts: Counts,
        view: ServeView,
        receipts: Receipts,
        telemetry: Telemetry,
    ) -> None:
        self._alerting = alerting
        self._clock = clock
        self._counts = counts
        self._view = view
        self._receipts = receipts
        self._telemetry = telemetry
        # The minute of the last alert, by code.
        self._alerted: dict[str, datetime] = {}
        # Messages that may be handled again, because others of their batch could not be handled yet.
        self._buried: set[tuple[str, int, int, int]] = set()

    async def bury(self, source: EventSource, message: Incoming, code: str) -> None:
        """Returns when the dead letter is on the bus. Raises what `EventSource.bury` raises."""
        place = (message.topic, message.partition, message.offset, message.timestamp)
        if place in self._buried:
            return
        await source.bury(message, code)
        if len(self._buried) >= _MAX_REMEMBERED:
            self._buried.clear()
        self._buried.add(place)
        self._counts.dead[code] += 1
        self._receipts.is_dead(message, code)
        self._view.dead(message.topic, message.partition, message.offset, code)
        self.alert(
            AlertCode.REGISTRATION_EVENT_REFUSED,
            code,
            f"messages are refused with {code}; they are in {message.topic}.dead",
        )

    def alert(self, alert: AlertCode, code: str, message: str) -> None:
        """At most one per code and minute."""
        minute = self._clock.now().replace(second=0, microsecond=0)
        if self._alerted.get(code) == minute:
            return
        self._alerted[code] = minute
        self._counts.alerts[code] += 1
        self._telemetry.count(ALERTS, code)
        self._alerting.notify(Alert(alert, f"{code}:{minute.isoformat()}", message))
        self._view.alert(code, message)
