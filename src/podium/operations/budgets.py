"""A higher budget for an open run: `usd=5`, `tokens=100000`, or `STEP.usd=2` for a step that has one."""

import math
from collections.abc import Sequence
from typing import Any, Final

from podium.operations.inputs import InvalidInput

_KEYS: Final = ("usd", "tokens", "soft", "reserve")


def parse_budget(given: Sequence[str]) -> dict[str, Any]:
    """The `params` of UPDATE_PARAMS; `none` removes a limit."""
    of_the_run: dict[str, float | None] = {}
    of_steps: dict[str, dict[str, float | None]] = {}
    for text in given:
        key, equals, value = text.rpartition("=")
        step, _, name = key.rpartition(".")
        if not equals or name not in _KEYS:
            raise InvalidInput(
                f"{text!r} is not a budget: write {'=..., '.join(_KEYS)}=..., or STEP.usd=... for a step's own"
            )
        budget = of_steps.setdefault(step, {}) if step else of_the_run
        budget[name] = _amount(text, name, value)
    return {"budget": of_the_run, "budgets": of_steps}


def _amount(text: str, name: str, value: str) -> float | None:
    if value.lower() == "none":
        return None
    try:
        amount = int(value) if name == "tokens" else float(value)
    except ValueError:
        amount = -1
    if not (math.isfinite(amount) and amount >= 0):
        whole = "a whole number" if name == "tokens" else "a number of dollars"
        raise InvalidInput(f"{text!r} is not a budget: write {whole}, or none")
    return amount
