"""How many requests are answered per minute: for one token, and for a whole tenant, by their cost."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

# As declared by handlers.
COSTS: Final = ("read", "list", "write", "heavy")
_TOKEN: Final = MappingProxyType({"read": 6000, "list": 1200, "write": 1200, "heavy": 600})
_TENANT: Final = MappingProxyType({"read": 60_000, "list": 12_000, "write": 12_000, "heavy": 6000})


class RateLimits(msgspec.Struct, frozen=True):
    """Requests per minute by cost; the burst is a sixth of it, at least one."""

    token: Mapping[str, int] = _TOKEN
    tenant: Mapping[str, int] = _TENANT
