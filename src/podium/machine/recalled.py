"""The time of what was taken over from an earlier run.

Events that a rerun takes over carry the time of the rerun, so that its limits start again. But what followed from the
time in the earlier run was decided by when they were recorded first: how long a pause lasted, how long a loop had been
running. So durations are measured by this clock. It shows the recorded time while events are taken over, and
continues from there; without any it shows the time of the run.
"""

from typing import Any

from podium.log.times import Timestamp, is_timestamp, later, seconds_between


class RecalledTime:
    """The last recorded time that was taken over, and what time it was then in this run."""

    __slots__ = ("here", "recorded")

    def __init__(self) -> None:
        self.recorded: Timestamp | None = None
        self.here: Timestamp = ""

    def recall(self, taken_over: dict[str, Any], here: Timestamp) -> None:
        """`taken_over`: the payload of such an event. Time never runs back."""
        recorded = taken_over.get("recordedAt")
        if not isinstance(recorded, str) or not is_timestamp(recorded):
            return
        if self.recorded is None or recorded > self.recorded:
            self.recorded = recorded
        self.here = here

    def at(self, here: Timestamp) -> Timestamp:
        if self.recorded is None:
            return here
        return self.recorded if here == self.here else later(self.recorded, seconds_between(self.here, here))
