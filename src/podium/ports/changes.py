"""The feed of a store: which runs have new events, over all runs and tenants.

One reader of it can serve any number of watchers. It reports that a run has new events, not what they are:
those are in the run's log.
"""

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from podium.log.runs import Run


class RunChanges(msgspec.Struct, frozen=True):
    # Each run once, in its current state.
    runs: tuple[Run, ...]
    # The position at which the feed continues.
    cursor: str
    # The given cursor does not belong to this store: the changes after it are unknown, and the feed starts
    # now.
    is_reset: bool = False


class ChangeFeed(Protocol):
    def changes(self, *, after: str | None = None) -> AsyncIterator[RunChanges]:
        """Runs with events that became durable after the cursor, or from now on without one. Never ends by
        itself.

        The first batch is returned immediately, even if it is empty: its cursor is where the feed starts. No
        change is omitted; one may be repeated, in particular the last ones before the cursor. Raises
        `InvalidId` for a cursor that no feed returns.
        """
        ...

    async def save_position(self, reader: str, cursor: str) -> None:
        """Store how far a reader of the feed has come."""
        ...

    async def load_position(self, reader: str) -> str | None: ...
