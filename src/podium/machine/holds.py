"""Holds: nothing may move while the run is paused or over budget, and limits are suspended.

While a run is held, answers are accepted and nothing follows from them: the agenda waits. Delays keep
running; what they start is deferred. A limit notes how long the run had been held when it was armed; when it
fires, it is armed again for the time that the run was held since. So resuming scans nothing.
"""

from typing import Any

from podium.log.events import EventType
from podium.log.times import Timestamp, later, seconds_between
from podium.machine.agenda import Agenda
from podium.machine.tree import Visit


def hold(m: Agenda, reason: str, facts: dict[str, Any]) -> None:
    if reason in m.hold.reasons:
        return
    m.hold.reasons.append(reason)
    if len(m.hold.reasons) > 1:
        return
    m.hold.since = m.now
    m.hold.measured_since = m.surroundings.measured
    m.pause_cycle += 1
    m.record(EventType.RUN_PAUSED, None, m.pause_cycle, {"reason": reason, **facts})


def release(m: Agenda, facts: dict[str, Any]) -> None:
    """Remove all reasons; what was deferred continues in its order."""
    if not m.hold.reasons:
        return
    m.hold.total = _held(m)
    if m.is_taking_over:
        m.hold.taken_over = m.hold.total
    m.hold.reasons.clear()
    m.hold.since = None
    # Queued agents are checked again, and hold the run again if they still do not fit into a budget.
    m.spending.moved = True
    m.record(EventType.RUN_RESUMED, None, m.pause_cycle, facts)
    aside, m.hold.aside = m.hold.aside, []
    for visit in aside:
        _give_back(m, visit)


# --- limits ---------------------------------------------------------------------------------------


def arm(m: Agenda, visit: Visit, seconds: float) -> None:
    visit.limit_held = _held(m)
    _set(m, visit, m.after(seconds))


def disarm(m: Agenda, visit: Visit) -> None:
    if visit.limit is not None:
        m.forget(visit.limit)
        visit.limit = visit.limit_due = None
    if m.hold.aside and visit in m.hold.aside:
        m.hold.aside.remove(visit)


def is_due(m: Agenda, visit: Visit) -> bool:
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


def _give_back(m: Agenda, visit: Visit) -> None:
    held = m.hold.total - _counted_from(m, visit)
    visit.limit_held = m.hold.total
    _set(m, visit, later(visit.limit_due or m.now, held))


def _set(m: Agenda, visit: Visit, due: Timestamp) -> None:
    visit.limit_due = due
    visit.limit = m.timer_key(visit, "limit")
    m.wait(visit.limit, visit)


def _held(m: Agenda) -> float:
    if m.hold.since is None:
        return m.hold.total
    return m.hold.total + seconds_between(m.hold.measured_since, m.surroundings.measured)


def _counted_from(m: Agenda, visit: Visit) -> float:
    return max(visit.limit_held, m.hold.taken_over)
