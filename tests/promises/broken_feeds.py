"""Stores in memory whose feed is broken in one way each."""

from collections.abc import AsyncIterator

from msgspec.structs import replace

from podium.log.ids import RunId
from podium.ports.changes import RunChanges
from podium.stores.memory import MemoryStore
from podium.stores.memory.feed import MemoryFeed
from podium.testing.store_promises import FeedPromises
from tests.promises.broken import Broken


class FeedsOneTenant(MemoryStore):
    def _changes_after(self, position: int, *, is_reset: bool = False) -> RunChanges:
        batch = super()._changes_after(position, is_reset=is_reset)
        return replace(batch, runs=tuple(r for r in batch.runs if r.identity.tenant_id == "default"))


class AlwaysStartsNow(MemoryStore):
    def changes(self, *, after: str | None = None) -> AsyncIterator[RunChanges]:
        return super().changes()


class CutsBatches(MemoryStore):
    def _changes_after(self, position: int, *, is_reset: bool = False) -> RunChanges:
        batch = super()._changes_after(position, is_reset=is_reset)
        return replace(batch, runs=batch.runs[:100])


class MergesWhatComesTogether(MemoryStore):
    def _changes_after(self, position: int, *, is_reset: bool = False) -> RunChanges:
        batch = super()._changes_after(position, is_reset=is_reset)
        return replace(batch, runs=batch.runs[-1:])


class UsesPositionsAgain(MemoryStore):
    async def prune(self, run_id: RunId) -> None:
        await super().prune(run_id)
        self._appended = [one for one in self._appended if one != run_id]


class TakesForeignCursors(MemoryStore):
    def _changes_after(self, position: int, *, is_reset: bool = False) -> RunChanges:
        return super()._changes_after(position)


class TakesAnyCursor(MemoryStore):
    def changes(self, *, after: str | None = None) -> AsyncIterator[RunChanges]:
        return super().changes(after=after if after is not None and after.isdecimal() else None)


class KeepsTheFirstPosition(MemoryStore):
    async def save_position(self, reader: str, cursor: str) -> None:
        if await self.load_position(reader) is None:
            await MemoryFeed.save_position(self, reader, cursor)


_feed = FeedPromises
BROKEN_FEEDS = [
    Broken(
        "feeds one tenant", _feed.test_the_feed_gives_runs_of_all_tenants_as_they_are, make=FeedsOneTenant
    ),
    Broken(
        "always starts now", _feed.test_a_reader_that_comes_back_gets_what_it_missed, make=AlwaysStartsNow
    ),
    Broken("cuts batches", _feed.test_a_reader_gets_every_run_of_a_burst, make=CutsBatches),
    Broken(
        "merges what comes together",
        _feed.test_writers_at_the_same_time_hide_nothing_from_the_feed,
        make=MergesWhatComesTogether,
    ),
    Broken(
        "uses positions again", _feed.test_a_removed_run_hides_nothing_from_the_feed, make=UsesPositionsAgain
    ),
    Broken(
        "takes foreign cursors", _feed.test_a_cursor_of_another_store_is_noticed, make=TakesForeignCursors
    ),
    Broken(
        "takes any cursor",
        _feed.test_what_is_not_a_cursor_is_refused_by_the_feed,
        make=TakesAnyCursor,
        arguments={"cursor": "x"},
    ),
    Broken(
        "keeps the first position", _feed.test_the_position_of_a_reader_is_kept, make=KeepsTheFirstPosition
    ),
]
