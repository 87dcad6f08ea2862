"""What agents have cost, and whether the next one can be paid.

A *purse* is a budget with what was spent of it and what is set aside: the run has one, and so has everything open that
has a `budget` of its own. An agent is launched only when every purse around it can pay, so at each launch
spent + set aside <= limit; a charge never stops anything. What it may cost is set aside: what is left of the step's own
budget, else the nearest `reserve`, else the most that its provider has cost so far. If none of that is known it runs
alone, with everything that is left.

Who cannot be paid because of what is set aside for others waits in line until one of them ends. Who could not be paid
even then holds the run: that needs a person.

Dollars are counted in billionths: whole numbers add up to the same in any order.
"""

from typing import Any, Final

from podium.log.events import EventType
from podium.log.usage import FIGURES
from podium.machine import holds
from podium.machine.accounts import BILLION, Amount, Answer, billionths, dollars
from podium.machine.agenda import Agenda
from podium.machine.tree import Phase, Stage, Visit
from podium.plan.plan import Agent

# Why a run is held, for programs.
BUDGET_EXCEEDED: Final = "BUDGET_EXCEEDED"
# More fits into no checkpoint, and nobody has it.


# --- launching ------------------------------------------------------------------------------------


def reserve(m: Agenda, visit: Visit, body: Agent) -> bool:
    """Set aside what an agent may cost; False: it waits in line, and may have stopped the run."""
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
    """The first in line tries again, if money has moved since it last did."""
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
    """For people: what is used up, and who cannot be paid."""
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
    """An attempt has ended: what was set aside goes back, and what it has cost is spent and recorded."""
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
        return  # known to be free: nothing to write down
    warned = [account.warning() for account in spending.around(visit) if account.charge(cost)]
    total = {"tokens": spending.total.tokens, "costUsd": dollars(spending.total.usd)}
    told: dict[str, Any] = {"stepId": visit.path, **figures, "total": total}
    if warned:
        told["softLimits"] = warned
    m.record(EventType.BUDGET_CHARGED, None, visit.attempt, told)


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and value is not True and value is not False and 0 <= value < 10**9
