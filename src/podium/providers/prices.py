"""Prices of tokens, for servers that count tokens and report no cost.

Prices change and differ between contracts, so none are built in: to get costs and budgets in dollars, the
user configures a table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from podium.ports.provider import ProviderMisconfigured, Usage

_KEYS = frozenset({"input", "output", "cached"})


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens. Cached tokens cost as much as others unless a price is given."""

    input: float
    output: float
    cached: float | None = None

    def of(self, usage: Usage) -> float:
        cached = self.input if self.cached is None else self.cached
        fresh = max(usage.input_tokens - usage.cached_tokens, 0)
        return (fresh * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output) / 1e6


def prices_from(config: Mapping[str, Any]) -> dict[str, Price]:
    """`{"model-name": {"input": 3.0, "output": 15.0, "cached": 0.3}}`; a name also covers its dated versions."""
    table = {}
    for model, prices in config.items():
        if (
            not isinstance(prices, Mapping)
            or not {"input", "output"} <= prices.keys() <= _KEYS
            or not all(type(price) in (int, float) and price >= 0 for price in prices.values())
        ):
            raise ProviderMisconfigured(
                f"the prices of {model!r} need `input` and `output`, may have `cached`, and are not negative"
            )
        table[model] = Price(**prices)
    return table


def with_cost(usage: Usage, model: str, prices: Mapping[str, Price]) -> Usage:
    """The longest configured name that is a prefix of the model's name decides."""
    names = [name for name in prices if model.startswith(name)]
    return replace(usage, cost_usd=prices[max(names, key=len)].of(usage)) if names else usage
