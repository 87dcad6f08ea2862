"""The feed of a store: which runs have new events, over all runs and tenants.

One reader of it serves any number of watchers. It says that a run has moved, not what happened in it: its events are in
its log.
"""

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from podium.log.runs import Run


class RunChanges(msgspec.Struct, frozen=True):
    # Each once, as it is now.
    runs: tuple[Run, ...]
    # Where the feed continues.
    cursor: str
    # The cursor that was given is not one of this store: what came after it is unknown, and the feed starts now.
    is_reset: bool = False


class ChangeFeed(Protocol):
    def changes(self, *, after: str | None = None) -> AsyncIterator[RunChanges]:
        """Runs with events that became durable after the cursor, or from now on without one. Never ends by itself.

        The first batch comes immediately, even if it is empty: its cursor is where the feed starts. No change is left
        out; one may come again, in particular the last ones before the cursor. Raises `InvalidId` for a cursor that no
        feed gives.
        """
        ...

    async def save_position(self, reader: str, cursor: str) -> None:
        """How far a reader of the feed has come."""
        ...

    async def load_position(self, reader: str) -> str | None: ...
