"""A moment as the store sees it: the wall clock for people, the boot-time clock for what decides."""

from datetime import datetime, timedelta
from typing import NamedTuple

from podium.model.times import Timestamp, timestamp
from podium.ports.clock import Clock


class Moment(NamedTuple):
    now: datetime
    elapsed: float
    boot: str

    @property
    def text(self) -> Timestamp:
        return timestamp(self.now)

    def text_after(self, wait: timedelta) -> Timestamp:
        return timestamp(self.now + wait)

    def elapsed_after(self, wait: timedelta) -> float:
        return self.elapsed + wait.total_seconds()


class Moments:
    """Where moments come from. Asked inside a transaction, so that they rise with the log."""

    def __init__(self, clock: Clock, boot: str) -> None:
        self._clock = clock
        self._boot = boot

    def __call__(self) -> Moment:
        return Moment(self._clock.now(), self._clock.elapsed(), self._boot)
