"""A clock that only moves on request."""

from datetime import UTC, datetime, timedelta


class VirtualClock:
    """Starts at noon of the first day of 2026."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
        self._elapsed = 1000.0

    def now(self) -> datetime:
        return self._now

    def elapsed(self) -> float:
        return self._elapsed

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self._now += timedelta(seconds=seconds)
        self._elapsed += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock; no time passes."""
        self._now += timedelta(seconds=seconds)
