"""Who knows the values of secrets.

Values are asked for just before a step starts, for the environment of that step alone. No error, log line or
`repr` on the way shows one. What belongs to another tenant looks exactly like what does not exist.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from podium.errors import PodiumError
from podium.log.secrets import SecretRef


class SecretsProvider(Protocol):
    async def resolve(
        self, refs: Sequence[SecretRef], *, tenant_id: str, environment_id: str
    ) -> Mapping[str, str]:
        """The value of every reference, by its name; raises SecretNotFound if a single one is missing."""
        ...


class SecretNotFound(PodiumError):
    code = "SECRET_NOT_FOUND"


class SecretProviderFailed(PodiumError):
    """Whoever should know the value could not be asked, or answered what cannot be understood."""

    code = "SECRET_PROVIDER_FAILED"
