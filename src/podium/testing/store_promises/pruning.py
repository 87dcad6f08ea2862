"""Removing runs, and whether the remaining data is consistent."""

import pytest

from podium.errors import RunNotFound, RunNotPrunable, RunRequestConflict, RunRequestPruned
from podium.testing.events import event, new_run
from podium.testing.store_promises.world import R1, TTL, World, started


class PruningPromises:
    def test_only_ended_runs_whose_events_were_delivered_can_be_removed(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            with pytest.raises(RunNotPrunable):
                await world.store.prune(R1)
            await world.store.add_bus("kafka")
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            with pytest.raises(RunNotPrunable):
                await world.store.prune(R1)
            claim = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
            assert claim is not None
            await world.store.delivered(claim, 3)
            await world.store.prune(R1)
            with pytest.raises(RunNotFound):
                await world.other.read(R1)
            assert (await world.store.stats()).events == 0

        world.run(scenario())

    def test_a_removed_run_is_not_run_again_by_a_repeated_request(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store, run_request_id="req-1")
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            await world.store.prune(R1)
            with pytest.raises(RunRequestPruned):
                await world.store.create_run(new_run("r2", run_request_id="req-1"), [])
            with pytest.raises(RunRequestPruned):
                await world.store.create_run(new_run("r1", run_request_id="req-1"), [])
            # Its id is not given to another run either, because an old fence would match again.
            with pytest.raises(RunRequestConflict) as raised:
                await world.store.create_run(new_run("r1", run_request_id="req-2"), [])
            assert not isinstance(raised.value, RunRequestPruned)

        world.run(scenario())

    def test_a_sound_store_has_no_problems_and_counts_what_it_keeps(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store, "r1")
            await started(world.store, "r2")
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            assert await world.other.problems() == []
            stats = await world.other.stats()
            assert (stats.runs, stats.open_runs, stats.events) == (2, 1, 5)

        world.run(scenario())
