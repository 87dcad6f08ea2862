"""The values of secrets by name, and what can go wrong with their sources.

No error, log line or `repr` shows a value, or anything that may be one.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping

from podium.errors import PodiumError


class SecretLookup(Mapping[str, str]):
    """Values by name, where a look-up may take time, and may raise `SecretNotFound` and `SecretProviderFailed`.

    It is not a `dict` on purpose: no JSON encoder accepts it.
    """

    @property
    @abstractmethod
    def variables(self) -> frozenset[str]:
        """Variables of the environment that are the source of a secret under another name: no step inherits them."""

    @abstractmethod
    def prefetch(self, names: Iterable[str]) -> None:
        """Look up several concurrently. What fails is reported by the look-up of its name."""

    @abstractmethod
    def warning(self, name: str) -> str | None:
        """What a person should know about the source of this secret."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


class SecretNotFound(PodiumError):
    """The source has no value for it, or an empty one."""

    code = "SECRET_NOT_FOUND"


class SecretProviderFailed(PodiumError):
    """The source could not be read, or what it gave cannot be the value of a variable."""

    code = "SECRET_PROVIDER_FAILED"
