"""Why nothing may move: pause, budget. And limits, which stand still meanwhile.

While a run is held, answers are taken in and nothing follows from them: the agenda waits. Delays run on; what they
start is parked. A limit notes how long the run had been held when it was armed; when it fires, the time held since is
given back by arming it again. So resuming scans nothing.
"""

from typing import TYPE_CHECKING, Any

from podium.log.events import EventType
from podium.log.times import Timestamp, later, seconds_between
from podium.machine.tree import Visit

if TYPE_CHECKING:
    from podium.machine.machine import Machine


class Hold:
    """The reasons, since when, and how long in all."""

    __slots__ = ("aside", "measured_since", "reasons", "since", "taken_over", "total")

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.since: Timestamp | None = None
        # The same moment on the clock by which durations are measured.
        self.measured_since: Timestamp = ""
        self.total = 0.0
        # How much of it was taken over from an earlier run: the limits of this one are not extended by that.
        self.taken_over = 0.0
        # Limits that fired during the hold.
        self.aside: list[Visit] = []


def hold(m: "Machine", reason: str, facts: dict[str, Any]) -> None:
    if reason in m.hold.reasons:
        return
    m.hold.reasons.append(reason)
    if len(m.hold.reasons) > 1:
        return
    m.hold.since = m.now
    m.hold.measured_since = m.surroundings.measured
    m.pause_cycle += 1
    m.record(EventType.RUN_PAUSED, None, m.pause_cycle, {"reason": reason, **facts})


def release(m: "Machine", facts: dict[str, Any]) -> None:
    """All reasons go; what was parked goes on in its order."""
    if not m.hold.reasons:
        return
    m.hold.total = _held(m)
    if m.is_taking_over:
        m.hold.taken_over = m.hold.total
    m.hold.reasons.clear()
    m.hold.since = None
    # Whoever could not be paid is asked again, and holds the run again if it still cannot.
    m.spending.moved = True
    m.record(EventType.RUN_RESUMED, None, m.pause_cycle, facts)
    aside, m.hold.aside = m.hold.aside, []
    for visit in aside:
        _give_back(m, visit)


# --- limits ---------------------------------------------------------------------------------------


def arm(m: "Machine", visit: Visit, seconds: float) -> None:
    visit.limit_held = _held(m)
    _set(m, visit, m.after(seconds))


def disarm(m: "Machine", visit: Visit) -> None:
    if visit.limit is not None:
        m.forget(visit.limit)
        visit.limit = visit.limit_due = None
    if m.hold.aside and visit in m.hold.aside:
        m.hold.aside.remove(visit)


def is_due(m: "Machine", visit: Visit) -> bool:
    """A limit has fired: whether its time is really over."""
    visit.limit = None
    if m.hold.reasons:
        m.hold.aside.append(visit)
        return False
    if m.hold.total > (visit.limit_held if m.is_taking_over else _counted_from(m, visit)):
        _give_back(m, visit)
        return False
    visit.limit_due = None
    return True


def _give_back(m: "Machine", visit: Visit) -> None:
    held = m.hold.total - _counted_from(m, visit)
    visit.limit_held = m.hold.total
    _set(m, visit, later(visit.limit_due or m.now, held))


def _set(m: "Machine", visit: Visit, due: Timestamp) -> None:
    visit.limit_due = due
    visit.limit = m.timer_key(visit, "limit")
    m.wait(visit.limit, visit)


def _held(m: "Machine") -> float:
    if m.hold.since is None:
        return m.hold.total
    return m.hold.total + seconds_between(m.hold.measured_since, m.surroundings.measured)


def _counted_from(m: "Machine", visit: Visit) -> float:
    return max(visit.limit_held, m.hold.taken_over)
