"""The original time of events that were copied from an earlier run.

Events that a rerun copies have the time of the rerun, so that its limits start again. But decisions of the
earlier run that depended on time were based on when the events were first recorded: how long a pause lasted,
how long a loop had been running. So durations are measured by this clock. It shows the original time while
copied events are folded, and continues from there; without any it shows the time of the run.
"""

from typing import Any

import msgspec

from podium.log.times import Timestamp, is_timestamp, later, seconds_between


class RecalledTime(msgspec.Struct):
    """The last original time of a copied event, and the time in this run at that moment."""

    recorded: Timestamp | None = None
    here: Timestamp = ""

    def recall(self, taken_over: dict[str, Any], here: Timestamp) -> None:
        """`taken_over`: the payload of such an event. Time never runs backwards."""
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
