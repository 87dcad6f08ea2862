"""Time, as something that is asked for and can be replaced."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock: aware UTC. It may jump; nothing that decides about ownership may read it."""
        ...

    def elapsed(self) -> float:
        """Seconds since some fixed moment; never runs backwards, whatever happens to the wall clock."""
        ...
