"""Secrets that deliveries of hooks and webhooks are signed with: those of their tenant.

Who adds a hook or a webhook only names a secret. With that of another tenant they could sign what that tenant accepts.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from podium.configuration import configuration, secret_sources
from podium.log.ids import DEFAULT_TENANT

if TYPE_CHECKING:
    from podium.ports.secrets import SecretLookup

_OWN: Final = "PODIUM_"


def endpoint_secrets(shared: frozenset[str] = frozenset()) -> "Callable[[str], SecretLookup]":
    """By tenant. `shared`: variables that all tenants get. Variables of Podium itself belong to no tenant."""
    from podium.secrets.configured import ConfiguredSecrets

    @cache
    def of(tenant_id: str) -> ConfiguredSecrets:
        return ConfiguredSecrets(lambda: secret_sources(tenant_id), _Environment(tenant_id, shared))

    return of


class _Environment(Mapping[str, str]):
    """What belongs to a tenant of the environment of this process, as it is when it is asked."""

    def __init__(self, tenant_id: str, shared: frozenset[str]) -> None:
        self._tenant_id = tenant_id
        self._shared = shared

    def __getitem__(self, name: str) -> str:
        if not self._has(name):
            raise KeyError(name)
        return os.environ[name]

    def __iter__(self) -> Iterator[str]:
        return filter(self._has, os.environ)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _has(self, name: str) -> bool:
        from podium.configuration.workers import WorkerSettings

        settings = configuration().workers or WorkerSettings()
        owners = settings.secrets_from_environment or {DEFAULT_TENANT}
        return name in self._shared or (self._tenant_id in owners and not name.startswith(_OWN))
