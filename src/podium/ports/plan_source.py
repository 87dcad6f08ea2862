"""Sources of published plans: a file root, an object store, a web server."""

from typing import Final, Protocol

from podium.errors import PodiumError
from podium.text import shortened

# Limit for a plan's bytes after decoding. Plans of thousands of steps have a few megabytes.
MAX_PLAN_BYTES: Final = 32 << 20


class PlanUnavailable(PodiumError):
    """The plan could not be fetched: no answer, or one that is not a file."""

    code = "PLAN_UNAVAILABLE"

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        # Whether a retry may succeed soon.
        self.retryable = retryable


class PlanNotFound(PodiumError):
    """There is nothing at the URI."""

    code = "PLAN_NOT_FOUND"

    def __init__(self, uri: str) -> None:
        super().__init__(f"no plan at {shortened(uri, 200)!r}; publish it there with `podium publish`")


class PlanTooLarge(PodiumError):
    code = "PLAN_TOO_LARGE"


class PlanExists(PodiumError):
    """Another plan was published there before; it is not replaced."""

    code = "PLAN_EXISTS"


class PlanSource(Protocol):
    """Handles places and bytes, not their contents. All methods raise `PlanUriNotAllowed` before any access."""

    def check(self, uri: str) -> None:
        """Raises `PlanUriNotAllowed`. Looks nothing up, not even the address of a host."""
        ...

    async def fetch(self, uri: str) -> bytes:
        """The bytes at a URI, after HTTP content decoding. Raises `PlanNotFound`, `PlanUnavailable`, `PlanTooLarge`."""
        ...

    async def publish(self, uri: str, content: bytes) -> bool:
        """Write the bytes; False if they exist already. Raises `PlanUnavailable`, `PlanExists`."""
        ...
