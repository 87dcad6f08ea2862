"""Where the runs of the service are created and driven, and how many more are possible."""

import asyncio
from typing import Protocol

from podium.log.ids import RunId
from podium.nodes.registration.intake import RunStart


class Runs(Protocol):
    @property
    def free(self) -> int:
        """How many more may be open here."""
        ...

    async def create(self, start: RunStart) -> bool:
        """Durable when it returns; False if it exists or existed. Raises `RunRequestConflict` for other
        content.
        """
        ...

    async def reopen(self, run_id: RunId, end_seq: int) -> None:
        """Continue a run that has failed, if this is still its last end."""
        ...

    async def serve(self, stopping: asyncio.Event, *, drain: float) -> None:
        """Drive runs until stopped, including those that a killed process left; then let them end within
        `drain` seconds.
        """
        ...
