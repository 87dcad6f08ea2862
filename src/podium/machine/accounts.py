"""Budgets with what was spent and what is reserved. Decisions about the run are made elsewhere.

Dollars are counted in billionths: sums of integers do not depend on the order.
"""

from typing import Any, Final, NamedTuple

import msgspec

from podium.plan.plan import Budget

# The path of the run itself.
RUN_PATH: Final = ""
BILLION: Final = 10**9
_MAX_TOKENS: Final = 10**18
# Percentage of a limit at which a notification is due: early enough to act.
_NOTIFIED_PERCENT: Final = 80


class Amount(NamedTuple):
    """Billionths of a dollar, and tokens."""

    usd: int = 0
    tokens: int = 0


class BudgetAccount(msgspec.Struct, omit_defaults=True):
    """One budget: what was spent of it and what is reserved."""

    # Path of the step that has the budget; empty for the run.
    path: str
    budget: Budget | None
    spent: Amount = Amount()
    reserved: Amount = Amount()
    # Agents with a reservation, even if it is zero.
    under_way: int = 0
    # The agent that must run without another one beside it.
    alone: str | None = None
    # The log contains the warning that the soft limit was reached.
    warned: bool = False

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
        """Returns whether this charge reaches the soft limit for the first time."""
        self.spent = Amount(self.spent.usd + amount.usd, self.spent.tokens + amount.tokens)
        soft = self.budget.soft if self.budget is not None else None
        if soft is None or self.warned or self.spent.usd < billionths(soft):
            return False
        self.warned = True
        return True

    def comes_to_share(self, amount: Amount) -> bool:
        """Whether this amount brings usage to 80% of a hard limit for the first time."""
        after = (self.spent.usd + amount.usd, self.spent.tokens + amount.tokens)
        return any(
            limit is not None and 100 * old < _NOTIFIED_PERCENT * limit <= 100 * new
            for limit, old, new in zip(self.limits, (self.spent.usd, self.spent.tokens), after, strict=True)
        )

    def change(self, budget: Budget | None) -> None:
        self.budget = budget
        if budget is not None and budget.soft is not None and self.spent.usd < billionths(budget.soft):
            self.warned = False

    def facts(self) -> dict[str, Any]:
        """Its balance for the log."""
        balance: dict[str, Any] = {"of": self.path} if self.path != RUN_PATH else {}
        if self.budget is not None and self.budget.usd is not None:
            balance |= {"usd": self.budget.usd, "spentUsd": dollars(self.spent.usd)}
        if self.budget is not None and self.budget.tokens is not None:
            balance |= {"tokens": self.budget.tokens, "spentTokens": self.spent.tokens}
        return balance

    def warning(self) -> dict[str, Any]:
        """The warning that its soft limit is reached."""
        soft = self.budget.soft if self.budget is not None else None
        return {**self.facts(), "soft": soft, "spentUsd": dollars(self.spent.usd)}


def billionths(dollars: float) -> int:
    return min(round(dollars * BILLION), _MAX_TOKENS)


def dollars(billionths: int) -> float:
    return billionths / BILLION
