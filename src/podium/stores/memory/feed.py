"""The feed of the store in memory."""

from collections.abc import AsyncIterator

from podium.log.ids import RunId
from podium.ports.changes import RunChanges
from podium.ports.clock import Clock
from podium.stores import texts
from podium.stores.feed import position_of
from podium.stores.memory.state import MemoryState


class MemoryFeed(MemoryState):
    """The part of the memory store for readers of all runs."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        # The run of every append, in order.
        self._appended: list[RunId] = []
        self._positions: dict[str, str] = {}

    async def changes(self, *, after: str | None = None) -> AsyncIterator[RunChanges]:
        end = len(self._appended)
        position = end if after is None else position_of(after)
        is_reset = position > end
        batch = self._changes_after(min(position, end), is_reset=is_reset)
        while True:
            yield batch
            while batch.cursor == str(len(self._appended)):
                await self._changed.wait()
            batch = self._changes_after(int(batch.cursor))

    def _changes_after(self, position: int, *, is_reset: bool = False) -> RunChanges:
        runs = self._runs
        moved = [runs[run_id].row for run_id in dict.fromkeys(self._appended[position:]) if run_id in runs]
        return RunChanges(tuple(moved), str(len(self._appended)), is_reset)

    async def save_position(self, reader: str, cursor: str) -> None:
        texts.check_name("reader", reader)
        self._positions[reader] = str(position_of(cursor))

    async def load_position(self, reader: str) -> str | None:
        return self._positions.get(reader)
