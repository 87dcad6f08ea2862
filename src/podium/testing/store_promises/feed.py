"""The feed: every run that gets events, over all runs and tenants."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from podium.errors import InvalidId
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.log.transitions import RunStatus
from podium.ports.changes import RunChanges
from podium.ports.store import Store
from podium.testing.events import event, new_run
from podium.testing.store_promises.world import R1, World, started

_SECONDS = 60.0


async def _next(feed: AsyncIterator[RunChanges]) -> RunChanges:
    return await asyncio.wait_for(anext(feed), _SECONDS)


async def _heads(feed: AsyncIterator[RunChanges], wanted: dict[str, int]) -> tuple[dict[str, int], str]:
    """The newest heads in the feed, once they are the wanted ones; and the last cursor."""
    heads: dict[str, int] = {}
    cursor = ""
    while any(heads.get(run_id, 0) < head for run_id, head in wanted.items()):
        batch = await _next(feed)
        heads |= {run.identity.run_id: run.head for run in batch.runs}
        cursor = batch.cursor
    return heads, cursor


async def _here(store: Store) -> str:
    return (await _next(store.changes())).cursor


class FeedPromises:
    """No change is left out, whichever process made it, and whenever the reader comes back."""

    def test_the_feed_gives_runs_of_all_tenants_as_they_are(self, world: World) -> None:
        async def scenario() -> None:
            feed = world.other.changes()
            assert (await _next(feed)).runs == ()
            await started(world.store)
            theirs = new_run("theirs", run={"tenant_id": "acme"})
            await world.store.create_run(theirs, [event("theirs", "RunQueued")])
            seen: dict[str, Run] = {}
            while len(seen) < 2 or seen["r1"].head < 2:
                seen |= {run.identity.run_id: run for run in (await _next(feed)).runs}
            assert seen["r1"] == await world.store.get_run(R1)
            assert seen["r1"].status is RunStatus.RUNNING
            assert seen["theirs"].identity.tenant_id == "acme"

        world.run(scenario())

    def test_a_reader_that_comes_back_gets_what_it_missed(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            await started(world.store, "r2")
            cursor = await _here(world.other)
            await world.store.append(R1, [event("r1", "StepStarted", "a")], fence=lease.fence)
            await started(world.store, "r3")
            heads, cursor = await _heads(world.other.changes(after=cursor), {"r1": 3, "r3": 2})
            await world.store.append(R1, [event("r1", "StepStarted", "b")], fence=lease.fence)
            heads, _ = await _heads(world.store.changes(after=cursor), {"r1": 4})
            assert heads["r1"] == 4
            assert "r2" not in heads

        world.run(scenario())

    def test_a_reader_gets_every_run_of_a_burst(self, world: World) -> None:
        async def scenario() -> None:
            cursor = await _here(world.other)
            wanted = {f"r{number}": 2 for number in range(700)}
            for run_id in wanted:
                await world.store.create_run(
                    new_run(run_id), [event(run_id, "RunQueued"), event(run_id, "RunApproved")]
                )
            heads, _ = await _heads(world.other.changes(after=cursor), wanted)
            assert heads == wanted

        world.run(scenario())

    def test_writers_at_the_same_time_hide_nothing_from_the_feed(self, world: World) -> None:
        async def scenario() -> None:
            feed = world.other.changes()
            await _next(feed)
            runs = [f"r{number}" for number in range(12)]

            async def write(run_id: str) -> None:
                lease = await started(world.store, run_id)
                for step in range(6):
                    await world.store.append(
                        RunId(run_id), [event(run_id, "StepStarted", f"s{step}")], fence=lease.fence
                    )

            reading = asyncio.create_task(_heads(feed, dict.fromkeys(runs, 8)))
            await asyncio.gather(*(write(run_id) for run_id in runs))
            assert (await reading)[0] == dict.fromkeys(runs, 8)

        world.run(scenario())

    def test_a_removed_run_hides_nothing_from_the_feed(self, world: World) -> None:
        async def scenario() -> None:
            await started(world.store, "r2")
            lease = await started(world.store)
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            cursor = await _here(world.other)
            await world.store.prune(R1)
            await started(world.store, "r3")
            heads, _ = await _heads(world.other.changes(after=cursor), {"r3": 2})
            assert heads["r3"] == 2
            assert await world.store.problems() == []

        world.run(scenario())

    def test_a_cursor_of_another_store_is_noticed(self, world: World) -> None:
        async def scenario() -> None:
            await started(world.store)
            feed = world.other.changes(after="9" * 18)
            first = await _next(feed)
            assert first.is_reset
            await started(world.store, "r2")
            heads, _ = await _heads(feed, {"r2": 2})
            assert heads["r2"] == 2
            assert not (await _next(world.other.changes(after=first.cursor))).is_reset

        world.run(scenario())

    @pytest.mark.parametrize("cursor", ["", "-1", "1.5", "x", "9" * 19, "\ud800", "\0"])
    def test_what_is_not_a_cursor_is_refused_by_the_feed(self, world: World, cursor: str) -> None:
        async def scenario() -> None:
            with pytest.raises(InvalidId):
                await _next(world.store.changes(after=cursor))
            with pytest.raises(InvalidId):
                await world.store.save_position("reader", cursor)

        world.run(scenario())

    def test_the_position_of_a_reader_is_kept(self, world: World) -> None:
        async def scenario() -> None:
            assert await world.other.load_position("reader") is None
            await world.store.save_position("reader", "12")
            await world.store.save_position("another", "7")
            await world.store.save_position("reader", "13")
            assert await world.other.load_position("reader") == "13"
            assert await world.other.load_position("\ud800") is None

        world.run(scenario())
