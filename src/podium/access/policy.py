"""The rules of an installation: who has which role in which tenant, and which plans may start there.

Without any rules (`access:` is not in the configuration) the user of the machine owns everything.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from podium.access.roles import Role
from podium.log.times import Timestamp

NOTHING: Final[Mapping[str, "TrustedKey"]] = MappingProxyType({})


class TrustedKey(msgspec.Struct, frozen=True):
    """An ed25519 key that may sign plans. `tenants` empty: for every tenant."""

    key_id: str
    public: bytes
    expires: Timestamp | None = None
    tenants: frozenset[str] = frozenset()


class TenantRules(msgspec.Struct, frozen=True):
    # Roles of actors, by name.
    members: Mapping[str, frozenset[Role]]
    # Plans whose runs wait for an approval: by id, or all of them.
    approval: "frozenset[str] | Literal['all']" = frozenset()
    # Only signed plans start.
    signature: bool = False

    def needs_approval(self, plan_id: str) -> bool:
        return self.approval == "all" or plan_id in self.approval


class AccessPolicy(msgspec.Struct, frozen=True):
    tenants: Mapping[str, TenantRules]
    keys: Mapping[str, TrustedKey] = NOTHING
    # Names of actors, by the SHA-256 of their token.
    tokens: Mapping[str, str] = MappingProxyType({})
