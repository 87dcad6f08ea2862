"""A moment as the store sees it: the wall clock for people, the boot-time clock for decisions."""

from datetime import datetime, timedelta

import msgspec

from podium.log.times import Timestamp, timestamp
from podium.ports.clock import Clock


class Moment(msgspec.Struct, frozen=True):
    now: datetime
    text: Timestamp
    elapsed: float
    boot: str

    def text_after(self, wait: timedelta) -> Timestamp:
        return timestamp(self.now + wait)

    def elapsed_after(self, wait: timedelta) -> float:
        return self.elapsed + wait.total_seconds()


class Moments:
    """The source of moments. Called inside a transaction, so that they rise with the log."""

    def __init__(self, clock: Clock, boot: str) -> None:
        self._clock = clock
        self._boot = boot

    def __call__(self) -> Moment:
        now = self._clock.now()
        return Moment(now, timestamp(now), self._clock.elapsed(), self._boot)
