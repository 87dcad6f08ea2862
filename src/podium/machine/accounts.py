"""Budgets with what was spent of them and what is set aside. Nothing is decided here about the run.

Dollars are counted in billionths: whole numbers add up to the same in any order.
"""

from collections import OrderedDict
from collections.abc import Iterator
from enum import IntEnum, auto
from typing import Any, Final, NamedTuple

from podium.machine.tree import RUN_PATH, Visit
from podium.plan.loading import plan_path
from podium.plan.plan import Agent, Budget

BILLION: Final = 10**9
_MAX_TOKENS: Final = 10**18


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
        return None if usd is None else billionths(usd), None if tokens is None else min(
            int(tokens), _MAX_TOKENS
        )

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
        if soft is None or self.warned or self.spent.usd < billionths(soft):
            return False
        self.warned = True
        return True

    def change(self, budget: Budget | None) -> None:
        self.budget = budget
        if budget is not None and budget.soft is not None and self.spent.usd < billionths(budget.soft):
            self.warned = False

    def facts(self) -> dict[str, Any]:
        """Its balance, for the log."""
        told: dict[str, Any] = {"of": self.path} if self.path != RUN_PATH else {}
        if self.budget is not None and self.budget.usd is not None:
            told |= {"usd": self.budget.usd, "spentUsd": dollars(self.spent.usd)}
        if self.budget is not None and self.budget.tokens is not None:
            told |= {"tokens": self.budget.tokens, "spentTokens": self.spent.tokens}
        return told

    def warning(self) -> dict[str, Any]:
        """That its soft limit is reached."""
        soft = self.budget.soft if self.budget is not None else None
        return {**self.facts(), "soft": soft, "spentUsd": dollars(self.spent.usd)}


class Answer(IntEnum):
    NOW = auto()
    # When others have ended and told what they cost.
    LATER = auto()
    # Not with this budget.
    NEVER = auto()


class Spending:
    """All purses of a run, what is set aside for whom, and who waits in line."""

    __slots__ = ("accounts", "highest", "moved", "queue", "reserved", "written")

    def __init__(self, budget: Budget | None) -> None:
        self.accounts: dict[str, BudgetAccount] = {RUN_PATH: BudgetAccount(RUN_PATH, budget)}
        # By the path of the agent that runs.
        self.reserved: dict[str, Amount] = {}
        # The most that one attempt has cost so far, by provider.
        self.highest: dict[str, Amount] = {}
        # Budgets that were written into the workflow while the run was open, by the step's path in the plan. The plan
        # itself keeps those that the run started with: what has happened must come out the same again.
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
        """Something with a budget of its own starts; another try of it continues with what is left."""
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
        """Nothing is set aside for it any more, and it waits in no line."""
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

    def reserve(self, visit: Visit, body: Agent, accounts: list[BudgetAccount]) -> Answer:
        usd, tokens = self._needed(visit, body, accounts)
        alone = usd is None or tokens is None
        need = Amount(usd or 0, tokens or 0)
        limited = [account for account in accounts if account.is_limited()]
        if any(_cannot_reserve(account, need, account.spent) for account in limited):
            return Answer.NEVER
        for account in limited:
            committed = Amount(
                account.spent.usd + account.reserved.usd, account.spent.tokens + account.reserved.tokens
            )
            if (
                account.alone is not None
                or (alone and account.under_way)
                or _cannot_reserve(account, need, committed)
            ):
                return Answer.LATER
        if alone:
            left_usd, left_tokens = _left(limited)
            need = Amount(left_usd if usd is None else usd, left_tokens if tokens is None else tokens)
        for account in accounts:
            account.hold(need, visit.path, alone=alone and account.is_limited())
        self.reserved[visit.path] = need
        return Answer.NOW

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
                usd = billionths(reserve)
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
        """The nearest purse that will never pay for a launch as things are, and what it would have to pay."""
        accounts = list(self.around(visit))
        usd, tokens = self._needed(visit, body, accounts)
        need = Amount(usd or 0, tokens or 0)
        for account in accounts:
            if account.is_limited() and _cannot_reserve(account, need, account.spent):
                return account, need
        return None


def _cannot_reserve(account: BudgetAccount, need: Amount, taken: Amount) -> bool:
    """Also if it needs nothing: when nothing is left, nothing is started."""
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


def billionths(dollars: float) -> int:
    return min(round(dollars * BILLION), _MAX_TOKENS)


def dollars(billionths: int) -> float:
    return billionths / BILLION
