"""What the resolver asks of each place where secrets are kept."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol


class Scope(NamedTuple):
    """On whose behalf a secret is asked for."""

    tenant_id: str
    environment_id: str


class SecretSource(Protocol):
    async def find(self, names: Collection[str], scope: Scope) -> Mapping[str, str]:
        """The values of those names that are known here; the others are left out.

        Raises SecretProviderFailed if this cannot be found out. Names have been checked by the resolver.
        """
        ...
