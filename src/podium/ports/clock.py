"""Time as a dependency that can be replaced."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock: aware UTC. It may jump; nothing that decides about ownership may use it."""
        ...

    def elapsed(self) -> float:
        """Seconds since some fixed moment; never decreases, whatever happens to the wall clock."""
        ...
