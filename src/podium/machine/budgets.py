"""What agents have cost, and whether the next one fits into the budgets.

The run has a budget account, and so has every open composite with a `budget` of its own. An account holds
what was spent and what is reserved. An agent is launched only if it fits into every account around it, so at
each launch spent + reserved <= limit; a charge never stops anything. The reservation is what remains of the
step's own budget, else the nearest `reserve`, else the highest cost of an attempt with its provider so far.
If none of these is known, the agent runs alone, with everything that remains.

An agent that does not fit because of the reservations of others is queued until one of them ends. If it does
not fit even without them, the run is held until a person acts.

Dollars are counted in billionths: sums of integers do not depend on the order.
"""

from typing import Any, Final

from podium.log.events import EventType
from podium.log.usage import FIGURES
from podium.machine import holds, notifying
from podium.machine.accounts import BILLION, Amount, billionths, dollars
from podium.machine.agenda import Agenda
from podium.machine.spending import Answer
from podium.machine.tree import Phase, Stage, Visit
from podium.plan.plan import Agent

# Machine-readable reason of a hold.
BUDGET_EXCEEDED: Final = "BUDGET_EXCEEDED"


# --- launching ------------------------------------------------------------------------------------


def reserve(m: Agenda, visit: Visit, body: Agent) -> bool:
    """Reserve what an agent may cost; False: the agent is queued and may have held the run."""
    spending = m.spending
    spending.open(visit.path, body.work.budget)
    accounts = list(spending.around(visit))
    if not any(account.is_limited() for account in accounts) or _is_outside(visit):
        spending.release(visit)
        return True
    queue = spending.queue
    if queue and next(iter(queue)) != visit.path:
        _enqueue(m, visit)
        return False
    match spending.reserve(visit, body, accounts):
        case Answer.NOW:
            if queue.pop(visit.path, None) is not None:
                spending.moved = True
            return True
        case Answer.LATER:
            _enqueue(m, visit)
        case Answer.NEVER:
            _enqueue(m, visit)
            holds.hold(m, "budget", _shortage(m, visit, body))
    return False


def _enqueue(m: Agenda, visit: Visit) -> None:
    visit.phase = Phase.AWAITING_BUDGET
    m.spending.queue[visit.path] = visit


def call_next(m: Agenda) -> bool:
    """Retry the first agent in the queue, if an account has changed since its last try."""
    spending = m.spending
    if not spending.moved:
        return False
    spending.moved = False
    if not spending.queue:
        return False
    first = next(iter(spending.queue.values()))
    m.rules.try_again(m, first)
    return True


def _is_outside(visit: Visit) -> bool:
    """`_error` and `finally` are not subject to any budget."""
    while not visit.is_root:
        visit = visit.scope.owner
        if visit.call is not None and visit.call.stage is not Stage.MAIN:
            return True
    return False


def _shortage(m: Agenda, visit: Visit, body: Agent) -> dict[str, Any]:
    facts: dict[str, Any] = {"code": BUDGET_EXCEEDED, "stepId": visit.path}
    found = m.spending.blocking(visit, body)
    if found is not None:
        account, need = found
        needed = {"neededUsd": dollars(need.usd), "neededTokens": need.tokens}
        facts["budget"] = {**account.facts(), **needed}
    return facts


def why_held(m: Agenda) -> str:
    """A message for people: which budget is used up, and which agent does not fit."""
    first = next(iter(m.spending.queue.values()), None)
    if first is None or not isinstance(first.node.body, Agent):
        return ""
    found = m.spending.blocking(first, first.node.body)
    if found is None:
        return ""
    account, need = found
    whose = f"of step {account.path!r}" if account.path else "of the run"
    parts = []
    for limit, spent, needed, unit, scale in zip(
        account.limits, account.spent, need, ("dollars", "tokens"), (BILLION, 1), strict=True
    ):
        if limit is not None:
            parts.append(
                f"{spent / scale:.10g} of {limit / scale:.10g} {unit} are spent"
                + (f" and it may take {needed / scale:.10g}" if needed else "")
            )
    return f"{whose} does not pay for step {first.path!r}: {', '.join(parts)}"


# --- charging -------------------------------------------------------------------------------------


def charge(m: Agenda, visit: Visit, payload: dict[str, Any]) -> None:
    """An attempt has ended: release its reservation, and record what it has cost as spent."""
    spending = m.spending
    spending.release(visit)
    usage = payload.get("usage")
    if not isinstance(usage, dict):
        return
    figures = {name: usage[name] for name in FIGURES if _is_figure(usage.get(name))}
    if not figures:
        return
    cost = Amount(billionths(figures.get("costUsd", 0)), int(figures.get("tokens", 0)))
    body = visit.node.body
    if isinstance(body, Agent):
        known = spending.highest.get(body.provider, Amount())
        spending.highest[body.provider] = Amount(max(known.usd, cost.usd), max(known.tokens, cost.tokens))
    if not any(figures.values()):
        return  # known to be free: nothing to record
    accounts = list(spending.around(visit))
    used = [account for account in accounts if account.comes_to_share(cost)]
    warned = [account.warning() for account in accounts if account.charge(cost)]
    total = {"tokens": spending.total.tokens, "costUsd": dollars(spending.total.usd)}
    charged: dict[str, Any] = {"stepId": visit.path, **figures, "total": total}
    if warned:
        charged["softLimits"] = warned
    m.record(EventType.BUDGET_CHARGED, None, visit.attempt, charged)
    for account in used:
        notifying.budget_used(m, visit, account)


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and value is not True and value is not False and 0 <= value < 10**9
