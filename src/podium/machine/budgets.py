"""What agents have cost, and whether the next one can be paid.

A *purse* is a budget with what was spent of it and what is set aside: the run has one, and so has everything open that
has a `budget` of its own. An agent is launched only when every purse around it can pay, so at each launch
spent + set aside <= limit; a charge never stops anything. What it may cost is set aside: what is left of the step's own
budget, else the nearest `reserve`, else the most that its provider has cost so far. If none of that is known it runs
alone, with everything that is left.

Who cannot be paid because of what is set aside for others stands in line until one of them ends. Who could not be paid
even then holds the run: that needs a person.

Dollars are counted in billionths: whole numbers add up to the same in any order.
"""

from collections import OrderedDict
from collections.abc import Iterator
from enum import IntEnum, auto
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from podium.log.events import EventType
from podium.log.usage import FIGURES
from podium.machine import attempts, holds
from podium.machine.tree import RUN_PATH, Phase, Stage, Visit
from podium.plan.loading import plan_path
from podium.plan.plan import Agent, Budget

if TYPE_CHECKING:
    from podium.machine.machine import Machine

# Why a run stands still, for programs.
BUDGET_EXCEEDED: Final = "BUDGET_EXCEEDED"
_BILLION: Final = 10**9
# More fits into no checkpoint, and nobody has it.
_MOST: Final = 10**18


class Amount(NamedTuple):
    """Billionths of a dollar, and tokens."""

    usd: int = 0
    tokens: int = 0


class BudgetAccount:
    """One budget: what was spent of it, what is set aside."""

    __slots__ = ("alone", "budget", "path", "reserved", "spent", "under_way", "warned")

    def __init__(self, path: str, budget: Budget | None) -> None:
        # Of what the budget is: a step's path; the run has none.
        self.path = path
        self.budget = budget
        self.spent = Amount()
        self.reserved = Amount()
        # Agents for which something is set aside, if only nothing.
        self.under_way = 0
        # The agent that nobody may run beside.
        self.alone: str | None = None
        # That the soft limit was reached has been told.
        self.warned = False

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """The hard limits: billionths of a dollar, tokens."""
        if self.budget is None:
            return None, None
        usd, tokens = self.budget.usd, self.budget.tokens
        return None if usd is None else _billionths(usd), None if tokens is None else min(int(tokens), _MOST)

    def is_limited(self) -> bool:
        return self.budget is not None and (self.budget.usd is not None or self.budget.tokens is not None)

    def hold(self, amount: Amount, path: str, *, alone: bool) -> None:
        self.reserved = Amount(self.reserved.usd + amount.usd, self.reserved.tokens + amount.tokens)
        self.under_way += 1
        if alone:
            self.alone = path

    def give_back(self, amount: Amount, path: str) -> None:
        self.reserved = Amount(self.reserved.usd - amount.usd, self.reserved.tokens - amount.tokens)
        self.under_way -= 1
        if self.alone == path:
            self.alone = None

    def charge(self, amount: Amount) -> bool:
        """Whether the soft limit is reached now, for the first time."""
        self.spent = Amount(self.spent.usd + amount.usd, self.spent.tokens + amount.tokens)
        soft = self.budget.soft if self.budget is not None else None
        if soft is None or self.warned or self.spent.usd < _billionths(soft):
            return False
        self.warned = True
        return True

    def change(self, budget: Budget | None) -> None:
        self.budget = budget
        if budget is not None and budget.soft is not None and self.spent.usd < _billionths(budget.soft):
            self.warned = False

    def facts(self) -> dict[str, Any]:
        """How it stands, for the log."""
        told: dict[str, Any] = {"of": self.path} if self.path != RUN_PATH else {}
        if self.budget is not None and self.budget.usd is not None:
            told |= {"usd": self.budget.usd, "spentUsd": _dollars(self.spent.usd)}
        if self.budget is not None and self.budget.tokens is not None:
            told |= {"tokens": self.budget.tokens, "spentTokens": self.spent.tokens}
        return told

    def warning(self) -> dict[str, Any]:
        """That its soft limit is reached."""
        soft = self.budget.soft if self.budget is not None else None
        return {**self.facts(), "soft": soft, "spentUsd": _dollars(self.spent.usd)}


class _Answer(IntEnum):
    NOW = auto()
    # When others have ended and told what they cost.
    LATER = auto()
    # Not with this budget.
    NEVER = auto()


class Spending:
    """All purses of a run, what is set aside for whom, and who stands in line."""

    __slots__ = ("accounts", "highest", "moved", "queue", "reserved", "written")

    def __init__(self, budget: Budget | None) -> None:
        self.accounts: dict[str, BudgetAccount] = {RUN_PATH: BudgetAccount(RUN_PATH, budget)}
        # By the path of the agent that runs.
        self.reserved: dict[str, Amount] = {}
        # The most that one attempt has cost so far, by provider.
        self.highest: dict[str, Amount] = {}
        # Budgets that were written into the workflow while the run was open, by the step's path in the plan. The plan
        # itself keeps those that the run began with: what has happened must come out the same again.
        self.written: dict[str, Budget | None] = {}
        self.queue: OrderedDict[str, Visit] = OrderedDict()
        # The first in line may have better luck now.
        self.moved = False

    @property
    def total(self) -> Amount:
        return self.accounts[RUN_PATH].spent

    def around(self, visit: Visit) -> Iterator[BudgetAccount]:
        """Every purse that pays for a visit, the nearest first."""
        if len(self.accounts) == 1:
            yield self.accounts[RUN_PATH]
            return
        found = self.accounts.get(visit.path)
        if found is not None:
            yield found
        while not visit.is_root:
            visit = visit.scope.owner
            found = self.accounts.get(visit.path)
            if found is not None:
                yield found

    def open(self, path: str, budget: Budget | None) -> None:
        """Something with a budget of its own begins; another try of it goes on with what is left."""
        if self.written:
            budget = self.written.get(plan_path(path), budget)
        if budget is not None and path not in self.accounts:
            self.accounts[path] = BudgetAccount(path, budget)

    def write(self, path: str, budget: Budget | None) -> None:
        """From here on a step, or the run, has this budget; what was spent of the old one is spent."""
        self.written[path] = budget
        for account in self.accounts.values():
            if plan_path(account.path) == path:
                account.change(budget)

    def close(self, visit: Visit) -> None:
        if len(self.accounts) > 1:
            self.accounts.pop(visit.path, None)

    def release(self, visit: Visit) -> None:
        """Nothing is set aside for it any more, and it stands in no line."""
        amount = self.reserved.pop(visit.path, None)
        if amount is not None:
            for account in self.around(visit):
                account.give_back(amount, visit.path)
            self.moved = True
        if self.queue and self.queue.pop(visit.path, None) is not None:
            self.moved = True

    def keep(self, paths: set[str]) -> None:
        """Only what is open has a budget of its own."""
        self.accounts = {path: account for path, account in self.accounts.items() if path in paths}

    def start_over(self) -> None:
        """Of a reopened run: nothing is under way. What was spent stays spent."""
        self.reserved.clear()
        self.queue.clear()
        self.moved = False
        for account in self.accounts.values():
            account.reserved = Amount()
            account.under_way = 0
            account.alone = None

    # --- before a launch --------------------------------------------------------------------------

    def reserve(self, visit: Visit, body: Agent, accounts: list[BudgetAccount]) -> _Answer:
        usd, tokens = self._needed(visit, body, accounts)
        alone = usd is None or tokens is None
        need = Amount(usd or 0, tokens or 0)
        limited = [account for account in accounts if account.is_limited()]
        if any(_cannot_reserve(account, need, account.spent) for account in limited):
            return _Answer.NEVER
        for account in limited:
            committed = Amount(
                account.spent.usd + account.reserved.usd, account.spent.tokens + account.reserved.tokens
            )
            if (
                account.alone is not None
                or (alone and account.under_way)
                or _cannot_reserve(account, need, committed)
            ):
                return _Answer.LATER
        if alone:
            left_usd, left_tokens = _left(limited)
            need = Amount(left_usd if usd is None else usd, left_tokens if tokens is None else tokens)
        for account in accounts:
            account.hold(need, visit.path, alone=alone and account.is_limited())
        self.reserved[visit.path] = need
        return _Answer.NOW

    def _needed(
        self, visit: Visit, body: Agent, accounts: list[BudgetAccount]
    ) -> tuple[int | None, int | None]:
        """What it may cost, of what is limited at all; None: nobody knows."""
        own = self.accounts.get(visit.path)
        own_usd, own_tokens = own.limits if own is not None else (None, None)
        known = self.highest.get(body.provider)
        usd: int | None = 0
        if any(account.limits[0] is not None for account in accounts):
            reserves = (account.budget.reserve for account in accounts if account.budget is not None)
            reserve = next((one for one in reserves if one is not None), None)
            if own is not None and own_usd is not None:
                usd = max(own_usd - own.spent.usd, 0)
            elif reserve is not None:
                usd = _billionths(reserve)
            else:
                usd = known.usd if known is not None else None
        tokens: int | None = 0
        if any(account.limits[1] is not None for account in accounts):
            if own is not None and own_tokens is not None:
                tokens = max(own_tokens - own.spent.tokens, 0)
            else:
                tokens = known.tokens if known is not None else None
        return usd, tokens

    def blocking(self, visit: Visit, body: Agent) -> tuple[BudgetAccount, Amount] | None:
        """The nearest purse that will never pay for a launch as things stand, and what it would have to pay."""
        accounts = list(self.around(visit))
        usd, tokens = self._needed(visit, body, accounts)
        need = Amount(usd or 0, tokens or 0)
        for account in accounts:
            if account.is_limited() and _cannot_reserve(account, need, account.spent):
                return account, need
        return None


def _cannot_reserve(account: BudgetAccount, need: Amount, taken: Amount) -> bool:
    """Also if it needs nothing: when nothing is left, nothing is begun."""
    return any(
        limit is not None and (used + more > limit or used >= limit)
        for limit, used, more in zip(account.limits, taken, need, strict=True)
    )


def _left(limited: list[BudgetAccount]) -> Amount:
    """What the tightest of these has left; only for who is alone there."""
    left_usd = [limit - account.spent.usd for account in limited if (limit := account.limits[0]) is not None]
    left_tokens = [
        limit - account.spent.tokens for account in limited if (limit := account.limits[1]) is not None
    ]
    return Amount(min(left_usd, default=0), min(left_tokens, default=0))


def _billionths(dollars: float) -> int:
    return min(round(dollars * _BILLION), _MOST)


def _dollars(billionths: int) -> float:
    return billionths / _BILLION


# --- launching ------------------------------------------------------------------------------------


def reserve(m: "Machine", visit: Visit, body: Agent) -> bool:
    """Set aside what an agent may cost; False: it stands in line, and may have stopped the run."""
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
        case _Answer.NOW:
            if queue.pop(visit.path, None) is not None:
                spending.moved = True
            return True
        case _Answer.LATER:
            _enqueue(m, visit)
        case _Answer.NEVER:
            _enqueue(m, visit)
            holds.hold(m, "budget", _shortage(m, visit, body))
    return False


def _enqueue(m: "Machine", visit: Visit) -> None:
    visit.phase = Phase.AWAITING_BUDGET
    m.spending.queue[visit.path] = visit


def call_next(m: "Machine") -> bool:
    """The first in line tries again, if money has moved since it last did."""
    spending = m.spending
    if not spending.moved:
        return False
    spending.moved = False
    if not spending.queue:
        return False
    first = next(iter(spending.queue.values()))
    attempts.try_again(m, first)
    return True


def _is_outside(visit: Visit) -> bool:
    """`_error` and `finally` are not subject to any budget."""
    while not visit.is_root:
        visit = visit.scope.owner
        if visit.call is not None and visit.call.stage is not Stage.MAIN:
            return True
    return False


def _shortage(m: "Machine", visit: Visit, body: Agent) -> dict[str, Any]:
    facts: dict[str, Any] = {"code": BUDGET_EXCEEDED, "stepId": visit.path}
    found = m.spending.blocking(visit, body)
    if found is not None:
        account, need = found
        needed = {"neededUsd": _dollars(need.usd), "neededTokens": need.tokens}
        facts["budget"] = {**account.facts(), **needed}
    return facts


def why_held(m: "Machine") -> str:
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
        account.limits, account.spent, need, ("dollars", "tokens"), (_BILLION, 1), strict=True
    ):
        if limit is not None:
            parts.append(
                f"{spent / scale:.10g} of {limit / scale:.10g} {unit} are spent"
                + (f" and it may take {needed / scale:.10g}" if needed else "")
            )
    return f"{whose} does not pay for step {first.path!r}: {', '.join(parts)}"


# --- charging -------------------------------------------------------------------------------------


def charge(m: "Machine", visit: Visit, payload: dict[str, Any]) -> None:
    """An attempt has ended: what was set aside goes back, and what it has cost is spent and recorded."""
    spending = m.spending
    spending.release(visit)
    usage = payload.get("usage")
    if not isinstance(usage, dict):
        return
    figures = {name: usage[name] for name in FIGURES if _is_figure(usage.get(name))}
    if not figures:
        return
    cost = Amount(_billionths(figures.get("costUsd", 0)), int(figures.get("tokens", 0)))
    body = visit.node.body
    if isinstance(body, Agent):
        known = spending.highest.get(body.provider, Amount())
        spending.highest[body.provider] = Amount(max(known.usd, cost.usd), max(known.tokens, cost.tokens))
    if not any(figures.values()):
        return  # known to be free: nothing to write down
    warned = [account.warning() for account in spending.around(visit) if account.charge(cost)]
    total = {"tokens": spending.total.tokens, "costUsd": _dollars(spending.total.usd)}
    told: dict[str, Any] = {"stepId": visit.path, **figures, "total": total}
    if warned:
        told["softLimits"] = warned
    m.record(EventType.BUDGET_CHARGED, None, visit.attempt, told)


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and value is not True and value is not False and 0 <= value < 10**9
