"""The clock of a running driver: the wall clock at the start, advanced by elapsed time.

A wall clock can be set while a run waits. If it were read each time, setting it back a day would delay a
retry of four seconds by a day, and setting it forward would immediately end an hour's wait. So it is read
only once, and again after a restart.
"""

from datetime import datetime, timedelta
from typing import Final

from podium.log.times import Timestamp, moment
from podium.ports.clock import Clock

# Maximum time between checks of timers: the event loop's clock does not count time while the machine is
# suspended.
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
        """Never earlier than what is in the log: other processes and earlier drivers have different clocks."""
        if recorded:
            behind = moment(recorded) - self.now()
            self._start += max(behind, timedelta())

    def deadline(self, due: Timestamp) -> float:
        """When it is due, by `elapsed`: setting or advancing a clock no longer changes that."""
        return self._clock.elapsed() + (moment(due) - self.now()).total_seconds()
