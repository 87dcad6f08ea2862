"""How many requests a minute are answered: for one token, and for all of a tenant together, by what they cost."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

# As handlers declare it.
COSTS: Final = ("read", "list", "write", "heavy")
_TOKEN: Final = MappingProxyType({"read": 6000, "list": 1200, "write": 1200, "heavy": 600})
_TENANT: Final = MappingProxyType({"read": 60_000, "list": 12_000, "write": 12_000, "heavy": 6000})


class RateLimits(msgspec.Struct, frozen=True):
    """Requests a minute by cost; as many as in ten seconds, at least one, may come together."""

    token: Mapping[str, int] = _TOKEN
    tenant: Mapping[str, int] = _TENANT
