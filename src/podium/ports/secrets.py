"""The values of secrets by name, and the errors of their sources.

No error, log line or `repr` shows a value, or anything that may be one.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping

from podium.errors import PodiumError


class SecretLookup(Mapping[str, str]):
    """Values by name; a look-up may take time, and may raise `SecretNotFound` and `SecretProviderFailed`.

    Deliberately not a `dict`, so that no JSON encoder accepts it.
    """

    @property
    @abstractmethod
    def variables(self) -> frozenset[str]:
        """Environment variables that are the source of a secret with another name: no step inherits them."""

    @abstractmethod
    def prefetch(self, names: Iterable[str]) -> None:
        """Look up several concurrently. Errors are raised by the look-up of the individual name."""

    @abstractmethod
    def value_at(self, reference: str) -> str:
        """The value of a secret input, at `env:NAME` or `file:PATH`. Raises the same."""

    @abstractmethod
    def warning(self, name: str) -> str | None:
        """What a person should know about the source of this secret, or about the file of a secret input."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


class SecretNotFound(PodiumError):
    """The source has no value for it, or an empty one."""

    code = "SECRET_NOT_FOUND"


class SecretProviderFailed(PodiumError):
    """The source could not be read, or what it returned cannot be the value of an environment variable."""

    code = "SECRET_PROVIDER_FAILED"
