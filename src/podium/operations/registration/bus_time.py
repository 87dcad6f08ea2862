"""The time that runs decide by: that of this process, unless it is behind that of the bus.

A clock of this process that lags must not make deadlines of nodes that have just sent a message. What a message shows
counts for a minute: the clock may be set right, and old messages show nothing.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from podium.ports.clock import Clock
from podium.ports.events_in import Incoming

_VALID_SECONDS: Final = 60.0
_NONE: Final = timedelta()


class BusTime:
    """A `Clock`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lag = _NONE
        self._valid_until = 0.0

    def now(self) -> datetime:
        is_valid = self._clock.elapsed() < self._valid_until
        return self._clock.now() + (self._lag if is_valid else _NONE)

    def elapsed(self) -> float:
        return self._clock.elapsed()

    def saw(self, messages: Sequence[Incoming]) -> None:
        """Messages that have just come."""
        times = [one.timestamp for one in messages if one.is_timed_by_bus and one.timestamp > 0]
        if not times:
            return
        lag = datetime.fromtimestamp(max(times) / 1000, UTC) - self._clock.now()
        if lag > _NONE and (lag >= self._lag or self._clock.elapsed() >= self._valid_until):
            self._lag, self._valid_until = lag, self._clock.elapsed() + _VALID_SECONDS
