"""Why nothing may move: pause, budget. And limits, which stand still meanwhile.

While a run is held, answers are taken in and nothing follows from them: the agenda waits. Delays run on; what they
start is parked. A limit notes how long the run had been held when it was armed; when it fires, the time held since is
given back by arming it again. So resuming scans nothing.
"""

from typing import TYPE_CHECKING, Any

from podium.core.machine import attempts
from podium.core.machine.tree import Stage, Visit
from podium.model.events import EventType
from podium.model.plan import Agent, Budget
from podium.model.times import Timestamp, later, seconds_between

if TYPE_CHECKING:
    from podium.core.machine.machine import Machine


class Hold:
    """The reasons, since when, and how long in all."""

    __slots__ = ("aside", "reasons", "since", "total")

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.since: Timestamp | None = None
        self.total = 0.0
        # Limits that fired during the hold.
        self.aside: list[Visit] = []


def hold(m: "Machine", reason: str, facts: dict[str, Any]) -> None:
    if reason in m.hold.reasons:
        return
    m.hold.reasons.append(reason)
    if len(m.hold.reasons) > 1:
        return
    m.hold.since = m.now
    m.pause_cycle += 1
    m.record(EventType.RUN_PAUSED, None, m.pause_cycle, {"reason": reason, **facts})


def release(m: "Machine", facts: dict[str, Any]) -> None:
    """All reasons go; what was parked goes on in its order."""
    if not m.hold.reasons:
        return
    assert m.hold.since is not None
    m.hold.total += seconds_between(m.hold.since, m.now)
    m.hold.reasons.clear()
    m.hold.since = None
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
    if m.hold.total > visit.limit_held:
        _give_back(m, visit)
        return False
    visit.limit_due = None
    return True


def _give_back(m: "Machine", visit: Visit) -> None:
    assert visit.limit_due is not None
    held = m.hold.total - visit.limit_held
    visit.limit_held = m.hold.total
    _set(m, visit, later(visit.limit_due, held))


def _set(m: "Machine", visit: Visit, due: Timestamp) -> None:
    visit.limit_due = due
    visit.limit = m.timer_key(visit, "limit")
    m.wait(visit.limit, visit)


def _held(m: "Machine") -> float:
    if m.hold.since is None:
        return m.hold.total
    return m.hold.total + seconds_between(m.hold.since, m.now)


# --- budget ---------------------------------------------------------------------------------------


class Spending:
    """What agents have cost. A launch that cannot be paid holds the run; a charge never does."""

    __slots__ = ("budget", "highest", "reserved", "tokens", "usd")

    def __init__(self, budget: Budget | None) -> None:
        self.budget = budget
        self.usd = 0.0
        self.tokens = 0
        self.reserved: dict[str, float] = {}
        # The highest cost of a step so far, by provider.
        self.highest: dict[str, float] = {}

    def reserve(self, visit: Visit, body: Agent) -> bool:
        if self.budget is None or _is_outside(visit):
            return True
        own = body.work.budget.usd if body.work.budget is not None else None
        known = self.highest.get(body.provider, 0.0)
        need = own if own is not None else self.budget.reserve if self.budget.reserve is not None else known
        if self.budget.usd is not None:
            planned = self.usd + sum(self.reserved.values())
            if planned + need > self.budget.usd or planned >= self.budget.usd:
                return False
        if self.budget.tokens is not None and self.tokens >= self.budget.tokens:
            return False
        self.reserved[visit.path] = need
        return True

    def release(self, visit: Visit) -> None:
        """What was set aside for a task that will not be charged."""
        self.reserved.pop(visit.path, None)

    def charge(self, visit: Visit, payload: dict[str, Any]) -> None:
        self.release(visit)
        usage = payload.get("usage")
        if not isinstance(usage, dict):
            return
        cost, tokens = usage.get("costUsd"), usage.get("tokens")
        if isinstance(cost, int | float):
            self.usd += cost
            body = visit.node.body if visit.node is not None else None
            if isinstance(body, Agent):
                self.highest[body.provider] = max(self.highest.get(body.provider, 0.0), cost)
        if isinstance(tokens, int):
            self.tokens += tokens


def wait_for_budget(m: "Machine", visit: Visit) -> None:
    """It stays before its body, and is the first to go on."""
    m.agenda.appendleft((attempts.start, visit))
    hold(m, "budget", {"stepId": visit.path})


def _is_outside(visit: Visit) -> bool:
    """`_error` and `finally` are not subject to the budget."""
    scope = visit.scope
    while scope is not None:
        if scope.owner.call is not None and scope.owner.call.stage is not Stage.MAIN:
            return True
        scope = scope.owner.scope
    return False
