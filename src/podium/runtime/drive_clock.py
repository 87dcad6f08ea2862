"""The clock of a running driver: the wall clock as it was at the start, moved on by time that passes.

A wall clock can be set while a run waits. Read again each time, one set back a day would delay a retry of four seconds
by a day, and one set forward would end an hour at once. So it is read once; after a restart it decides again.
"""

from datetime import datetime, timedelta
from typing import Final

from podium.log.times import Timestamp, moment
from podium.ports.clock import Clock

# Timers are looked at this often: the event loop's own clock does not count the time that a machine sleeps.
MAX_WAIT_SECONDS: Final = 30.0


class DriveClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start = clock.now()
        self._elapsed_at_start = clock.elapsed()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._clock.elapsed() - self._elapsed_at_start)

    def elapsed(self) -> float:
        return self._clock.elapsed()

    def advance_to(self, recorded: Timestamp) -> None:
        """Not earlier than what is in the log: other processes, and drivers before this one, have other clocks."""
        if recorded:
            behind = moment(recorded) - self.now()
            self._start += max(behind, timedelta())

    def deadline(self, due: Timestamp) -> float:
        """When it is due, by `elapsed`: setting or advancing a clock does not change that any more."""
        return self._clock.elapsed() + (moment(due) - self.now()).total_seconds()
