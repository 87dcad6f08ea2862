"""The accounts of a run, and whether an agent fits into them. `budgets.py` decides what follows from that."""

from collections import OrderedDict
from collections.abc import Iterator
from enum import IntEnum, auto

import msgspec

from podium.machine.accounts import RUN_PATH, Amount, BudgetAccount, billionths
from podium.machine.tree import Visit
from podium.plan.loading import plan_path
from podium.plan.plan import Agent, Budget


class Answer(IntEnum):
    NOW = auto()
    # Once other agents have ended and their cost is known.
    LATER = auto()
    # Not with this budget.
    NEVER = auto()


class _Queue:
    __slots__ = ("queue",)

    # The visits that wait for budget, by path.
    queue: OrderedDict[str, Visit]


class Spending(_Queue, msgspec.Struct, omit_defaults=True):
    """All accounts of a run, the reservations of running agents, and the queue of waiting ones."""

    accounts: dict[str, BudgetAccount]
    # By the path of the running agent.
    reserved: dict[str, Amount] = {}
    # The highest cost of one attempt so far, by provider.
    highest: dict[str, Amount] = {}
    # Budgets that were written into the workflow while the run was open, by the step's path in the plan. The
    # plan itself keeps those that the run started with, so that a replay gives the same result.
    written: dict[str, Budget | None] = {}
    # The first agent in the queue should be checked again.
    moved: bool = False

    def __post_init__(self) -> None:
        self.queue = OrderedDict()

    @classmethod
    def of(cls, budget: Budget | None) -> "Spending":
        return cls({RUN_PATH: BudgetAccount(RUN_PATH, budget)})

    @property
    def total(self) -> Amount:
        return self.accounts[RUN_PATH].spent

    def around(self, visit: Visit) -> Iterator[BudgetAccount]:
        """Every account that a visit is charged to, the nearest first."""
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
        """Something with a budget of its own starts; a further attempt continues with what is left."""
        if self.written:
            budget = self.written.get(plan_path(path), budget)
        if budget is not None and path not in self.accounts:
            self.accounts[path] = BudgetAccount(path, budget)

    def write(self, path: str, budget: Budget | None) -> None:
        """From now on a step, or the run, has this budget; what was spent of the old one counts."""
        self.written[path] = budget
        for account in self.accounts.values():
            if plan_path(account.path) == path:
                account.change(budget)

    def close(self, visit: Visit) -> None:
        if len(self.accounts) > 1:
            self.accounts.pop(visit.path, None)

    def release(self, visit: Visit) -> None:
        """Release the visit's reservation and remove it from the queue."""
        amount = self.reserved.pop(visit.path, None)
        if amount is not None:
            for account in self.around(visit):
                account.give_back(amount, visit.path)
            self.moved = True
        if self.queue and self.queue.pop(visit.path, None) is not None:
            self.moved = True

    def keep(self, paths: set[str]) -> None:
        """Keep only the accounts of these paths: only what is open has a budget of its own."""
        self.accounts = {path: account for path, account in self.accounts.items() if path in paths}

    def start_over(self) -> None:
        """In a reopened run no agent is running. What was spent still counts."""
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
        """What it may cost, for each figure that is limited; None if that is unknown."""
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
        """The nearest account that cannot cover a launch even without reservations, and the amount it would
        have to cover.
        """
        accounts = list(self.around(visit))
        usd, tokens = self._needed(visit, body, accounts)
        need = Amount(usd or 0, tokens or 0)
        for account in accounts:
            if account.is_limited() and _cannot_reserve(account, need, account.spent):
                return account, need
        return None


def _cannot_reserve(account: BudgetAccount, need: Amount, taken: Amount) -> bool:
    """Also true if nothing is needed but nothing is left: then nothing is started."""
    return any(
        limit is not None and (used + more > limit or used >= limit)
        for limit, used, more in zip(account.limits, taken, need, strict=True)
    )


def _left(limited: list[BudgetAccount]) -> Amount:
    """What the tightest of these accounts has left; for an agent that runs alone there."""
    left_usd = [limit - account.spent.usd for account in limited if (limit := account.limits[0]) is not None]
    left_tokens = [
        limit - account.spent.tokens for account in limited if (limit := account.limits[1]) is not None
    ]
    return Amount(min(left_usd, default=0), min(left_tokens, default=0))
