"""What steps have used: what a charge in the log says, and to whom it is attributed.

A charge counts for the attempt's step, for every loop, block and call around it, and for the run.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from podium.log.events import EventRecord, EventType

# Tokens and dollars are summed; other fields of a payload are not.
FIGURES: Final = ("inputTokens", "outputTokens", "cachedTokens", "tokens", "costUsd")
# Dollars are rounded to this many decimals, because sums of floats accumulate errors.
_DECIMALS: Final = 9


class Charge(msgspec.Struct, rename="camel"):
    """The payload of BudgetCharged."""

    step_id: str
    tokens: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    cached_tokens: float | None = None
    cost_usd: float | None = None

    @property
    def figures(self) -> dict[str, float]:
        figures = {
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "cachedTokens": self.cached_tokens,
            "tokens": self.tokens,
            "costUsd": self.cost_usd,
        }
        return {name: figure for name, figure in figures.items() if figure is not None}


_CHARGE: Final = msgspec.json.Decoder(Charge)


def charge_of(record: EventRecord) -> Charge | None:
    """The charge of a record; None if its payload is not understood."""
    try:
        return _CHARGE.decode(record.payload)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


def charged_steps(records: Iterable[EventRecord]) -> dict[str, dict[str, float]]:
    """Usage charged to steps by these events, by path."""
    charges = [charge_of(one) for one in records if one.event_type == EventType.BUDGET_CHARGED]
    return {one.step_id: one.figures for one in charges if one is not None}


def added(usage: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
    """The sum by name; dollars are rounded."""
    total = {name: usage.get(name, 0) + more.get(name, 0) for name in {**usage, **more}}
    if "costUsd" in total:
        total["costUsd"] = round(total["costUsd"], _DECIMALS)
    return total


def steps_charged(step_id: str) -> Iterator[str]:
    """The step and everything around it: `Deploy#2[3]/Build` and `Deploy`."""
    yield step_id
    end = step_id.rfind("/")
    while end > 0:
        begin = step_id.rfind("/", 0, end)
        name = step_id[begin + 1 : end].partition("[")[0].partition("#")[0]
        yield step_id[: begin + 1] + name
        end = begin


# --- how it is shown --------------------------------------------------------------------------------


def describe_usage(usage: Mapping[str, float]) -> str:
    """`0.1234 dollars, 5,678 tokens`; empty if nothing is known."""
    parts = [f"{usage['costUsd']:.4f} dollars"] if "costUsd" in usage else []
    if usage.get("tokens"):
        parts.append(f"{usage['tokens']:,.0f} tokens")
    return ", ".join(parts)


def usage_cells(usage: Mapping[str, float]) -> tuple[str, str]:
    """Tokens and dollars, as cells of a table."""
    tokens, cost = usage.get("tokens"), usage.get("costUsd")
    return "" if tokens is None else f"{tokens:,.0f}", "" if cost is None else f"{cost:.4f}"
