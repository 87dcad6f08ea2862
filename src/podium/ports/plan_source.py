"""Where published plans are: a file root, an object store, a web server."""

from typing import Final, Protocol

from podium.errors import PodiumError
from podium.text import shortened

# Of a plan's bytes, after they were decoded. Plans of thousands of steps have a few megabytes.
MAX_PLAN_BYTES: Final = 32 << 20


class PlanUnavailable(PodiumError):
    """No plan came from there: no answer, or one that is not a file."""

    code = "PLAN_UNAVAILABLE"

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        # Whether it may work in a moment.
        self.retryable = retryable


class PlanNotFound(PodiumError):
    """There is nothing at the URI."""

    code = "PLAN_NOT_FOUND"

    def __init__(self, uri: str) -> None:
        super().__init__(f"no plan at {shortened(uri, 200)!r}; publish it there with `podium publish`")


class PlanTooLarge(PodiumError):
    code = "PLAN_TOO_LARGE"


class PlanExists(PodiumError):
    """Something else was published there before; it is left as it is."""

    code = "PLAN_EXISTS"


class PlanSource(Protocol):
    """Knows places and bytes, not what is in them. All raise `PlanUriNotAllowed` before anything is touched."""

    def check(self, uri: str) -> None:
        """Raises `PlanUriNotAllowed`. Nothing is looked up for it, not even the address of a host."""
        ...

    async def fetch(self, uri: str) -> bytes:
        """The bytes at a URI, after HTTP content decoding. Raises `PlanNotFound`, `PlanUnavailable`, `PlanTooLarge`."""
        ...

    async def publish(self, uri: str, content: bytes) -> bool:
        """Write them, unless they are there already: False. Raises `PlanUnavailable`, `PlanExists`."""
        ...
