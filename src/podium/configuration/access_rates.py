"""`access.rate_limits`: how many requests the server answers per minute."""

from collections.abc import Mapping
from typing import Final

from podium.access.rate_limits import COSTS, RateLimits
from podium.configuration.problems import Problems
from podium.configuration.values import section
from podium.language.tree import Entry, Scalar

_RIGHT: Final = "write requests a minute, like {token: {read: 6000, write: 600}, tenant: {heavy: 300}}"
_ONE: Final = "write requests a minute by cost, like {read: 6000, list: 1200, write: 600, heavy: 60}"
_MAX: Final = 10_000_000


def read_rate_limits(entry: Entry | None, problems: Problems) -> RateLimits:
    default = RateLimits()
    entries = section(entry, "access.rate_limits", _RIGHT, problems) if entry is not None else None
    if entries is None:
        return default
    problems.unknown(entries, ("tenant", "token"), "access.rate_limits.")
    return RateLimits(
        token=_rates(entries.get("token"), "token", default.token, problems),
        tenant=_rates(entries.get("tenant"), "tenant", default.tenant, problems),
    )


def _rates(
    entry: Entry | None, name: str, default: Mapping[str, int], problems: Problems
) -> Mapping[str, int]:
    of = f"access.rate_limits.{name}"
    entries = section(entry, of, _ONE, problems) if entry is not None else None
    if entries is None:
        return default
    problems.unknown(entries, COSTS, f"{of}.")
    rates = dict(default)
    for cost, one in entries.items():
        match one.value:
            case Scalar(value=bool()):
                problems.wrong(one, f"{of}.{cost}", "write a number of requests a minute, at least 1")
            case Scalar(value=int(number)) if 1 <= number <= _MAX:
                rates[cost] = number
            case _:
                problems.wrong(one, f"{of}.{cost}", "write a number of requests a minute, at least 1")
    return rates
