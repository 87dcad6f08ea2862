"""How runs and their events are read, looked up and followed."""

import asyncio

import pytest

from podium.errors import InvalidId, RunNotFound, StaleFence
from podium.log.engines import ConductorRunRef, EngineRunRef, LocalRunRef, TemporalRunRef
from podium.log.ids import RunId
from podium.log.leases import Fence
from podium.testing.events import event, new_run
from podium.testing.store_promises.world import R1, TTL, World, started

ENGINES = (
    LocalRunRef(workflow_id="r1", run_id=R1),
    TemporalRunRef(namespace="default", workflow_id="podium-r1", run_id=R1, task_queue="podium"),
    ConductorRunRef(conductor_url="http://c", workflow_id="w", run_id=R1, provider_run_id="x"),
)


class ReadingPromises:
    """What was stored is found, all of it, in order."""

    def test_reading_goes_on_where_it_stopped(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            await world.store.append(
                R1, [event("r1", "StepStarted", f"s{n}") for n in range(8)], fence=lease.fence
            )
            seen: list[int] = []
            while page := await world.other.read(R1, after=seen[-1] if seen else 0, limit=3):
                assert len(page) <= 3
                seen += [record.run_seq for record in page]
            assert seen == list(range(1, 11))

        world.run(scenario())

    def test_a_run_that_does_not_exist_is_not_found(self, world: World) -> None:
        async def scenario() -> None:
            with pytest.raises(RunNotFound):
                await world.store.read(R1)
            with pytest.raises(RunNotFound):
                await world.store.find(R1, [])
            with pytest.raises(RunNotFound):
                await world.store.get_run(R1)
            with pytest.raises(RunNotFound):
                await world.store.append(R1, [event("r1", "RunQueued")])
            with pytest.raises(RunNotFound):
                await world.store.claim(R1, owner="o", ttl=TTL)

        world.run(scenario())

    def test_events_are_found_by_their_keys_in_the_order_of_the_log(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            await started(world.store, "r2")
            writes = [event("r1", "StepStarted", f"s{n}") for n in range(300)]
            await world.store.append(R1, writes, fence=lease.fence)
            keys = [write.idempotency_key for write in reversed(writes)]
            found = await world.other.find(R1, keys)
            assert found == (await world.store.read(R1))[2:]
            wanted = [keys[1], keys[1], keys[7], event("r1", "StepCompleted", "s1").idempotency_key]
            assert [record.run_seq for record in await world.other.find(R1, wanted)] == [295, 301]
            assert await world.store.find(RunId("r2"), keys) == []

        world.run(scenario())

    @pytest.mark.parametrize("key", ["", "z" * 64, "ab", "\ud800", "\0", "A" * 64])
    def test_what_is_not_a_key_finds_nothing(self, world: World, key: str) -> None:
        async def scenario() -> None:
            await started(world.store)
            assert await world.store.find(R1, [key]) == []

        world.run(scenario())

    def test_a_watcher_sees_everything_once_and_in_order(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            seen: list[int] = []

            async def watching() -> None:
                async for records in world.other.watch(R1, after=1):
                    seen.extend(record.run_seq for record in records)
                    if len(seen) >= 21:
                        return

            watcher = asyncio.create_task(watching())
            for number in range(20):
                await world.store.append(R1, [event("r1", "StepStarted", f"s{number}")], fence=lease.fence)
                await asyncio.sleep(0)
            await asyncio.wait_for(watcher, 10)
            assert seen == list(range(2, 23))

        world.run(scenario())

    @pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: str(engine.provider))
    def test_a_run_is_found_by_the_ids_of_its_engine(self, world: World, engine: EngineRunRef) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            await world.store.set_engine(R1, engine, fence=lease.fence)
            ids = (engine.provider, engine.workflow_id, engine.provider_run_id)
            found = await world.other.run_of_engine(*ids)
            assert found is not None
            assert (found.identity.run_id, found.engine) == ("r1", engine)
            assert (await world.other.get_run(R1)).engine == engine
            for other in ((*ids[:2], "y"), (ids[0], "another", ids[2]), ("another", *ids[1:])):
                assert await world.store.run_of_engine(*other) is None
            with pytest.raises(StaleFence):
                await world.store.set_engine(R1, engine, fence=Fence(lease.fence.generation + 1))

        world.run(scenario())

    @pytest.mark.parametrize(
        "engine",
        [
            TemporalRunRef(namespace="", workflow_id="podium-r1", run_id=R1),
            TemporalRunRef(namespace="default", workflow_id="", run_id=R1),
            TemporalRunRef(namespace="default", workflow_id="podium-r2", run_id=RunId("r2")),
            TemporalRunRef(namespace="default", workflow_id="podium-r1", run_id=RunId("r|1")),
            ConductorRunRef(conductor_url="", workflow_id="w", run_id=R1),
        ],
        ids=["no namespace", "no workflow", "another run", "not a run id", "no url"],
    )
    def test_a_reference_to_no_run_of_an_engine_is_refused(self, world: World, engine: EngineRunRef) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            with pytest.raises(InvalidId):
                await world.store.set_engine(R1, engine, fence=lease.fence)
            with pytest.raises(InvalidId):
                await world.store.create_run(new_run("r3", engine=engine), [])
            assert (await world.store.get_run(R1)).engine is None

        world.run(scenario())
