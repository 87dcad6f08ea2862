"""The projector in the background: lists show what the log has, and say when they do not."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from podium.errors import StoreUnavailable
from podium.log.alerts import Alert
from podium.log.ids import RunId
from podium.log.snapshots import RunSummary
from podium.operations.parts import Parts
from podium.operations.projecting import BackgroundProjector
from podium.operations.summaries import summaries_of
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event
from podium.testing.store_promises import started

R1 = RunId("r1")


class Scene:
    def __init__(self, store: type[MemoryStore] = MemoryStore) -> None:
        self.clock = VirtualClock()
        self.store = store(self.clock)
        self.alerts: list[Alert] = []
        self.projector = self.make()

    def make(self, pause: float = 0) -> BackgroundProjector:
        return BackgroundProjector(
            self.store, self.clock, lambda _, alert: self.alerts.append(alert), pause=pause
        )

    def parts(self) -> Parts:
        nothing: Any = None
        return Parts(self.store, self.clock, nothing, nothing, nothing, nothing, nothing)

    async def projected(self, run_id: RunId = R1) -> RunSummary:
        async def is_current() -> bool:
            summary = await self.store.load_summary(run_id)
            return summary is not None and summary.last_event_seq == (await self.store.get_run(run_id)).head

        await until(is_current)
        summary = await self.store.load_summary(run_id)
        assert summary is not None
        return summary


async def until(holds: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    async with asyncio.timeout(60):
        while not await holds():
            await asyncio.sleep(0.001)


def test_runs_are_projected_while_they_run() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.projector.start()
        await asyncio.sleep(0)
        lease = await started(scene.store)
        await scene.store.append(R1, [event("r1", "StepStarted", "a")], fence=lease.fence)
        assert (await scene.projected()).running_steps == 1
        await scene.store.append(
            R1, [event("r1", "StepCompleted", "a"), event("r1", "RunCompleted")], fence=lease.fence
        )
        assert (await scene.projected()).succeeded_steps == 1
        await scene.projector.stop()
        assert scene.alerts == []

    asyncio.run(scenario())


def test_the_next_projector_continues_where_the_last_one_has_stopped() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.projector.start()
        await asyncio.sleep(0)
        await started(scene.store)
        await scene.projected()
        await scene.projector.stop()
        await started(scene.store, "r2")
        following = scene.make()
        following.start()
        await scene.projected(RunId("r2"))
        await following.stop()

    asyncio.run(scenario())


class AwayAtFirst(MemoryStore):
    tries = 0

    async def load_position(self, reader: str) -> str | None:
        self.tries += 1
        if self.tries == 1:
            raise StoreUnavailable("away")
        return await super().load_position(reader)


class BreaksOneRun(MemoryStore):
    async def save_snapshot(self, run_id: RunId, *args: Any) -> None:
        if run_id == "r1":
            raise ValueError("planted")
        await super().save_snapshot(run_id, *args)


@pytest.mark.parametrize("store", [AwayAtFirst, BreaksOneRun])
def test_a_store_that_was_away_or_one_broken_run_does_not_stop_it(store: type[MemoryStore]) -> None:
    async def scenario() -> None:
        scene = Scene(store)
        scene.projector.start()
        await asyncio.sleep(0)
        cursor = (await anext(scene.store.changes())).cursor
        await scene.store.save_position("projector", cursor)
        await started(scene.store)
        await started(scene.store, "r2")
        await scene.projected(RunId("r2"))
        await scene.projector.stop()

    asyncio.run(scenario())


class StopsTheClock(MemoryStore):
    """While a snapshot is saved, this much time passes."""

    clock: VirtualClock
    takes = 0.0

    async def save_snapshot(self, run_id: RunId, *args: Any) -> None:
        self.clock.move(self.takes)
        await super().save_snapshot(run_id, *args)


def test_a_high_lag_is_reported_once_until_it_was_low_again() -> None:
    async def scenario() -> None:
        scene = Scene(StopsTheClock)
        store = scene.store
        assert isinstance(store, StopsTheClock)
        store.clock, store.takes = scene.clock, 6.0
        scene.projector.start()
        await asyncio.sleep(0)
        lease = await started(store)
        await scene.projected()
        for step in "abc":
            await store.append(R1, [event("r1", "StepStarted", step)], fence=lease.fence)
            await scene.projected()
        await until(lambda: _lags(scene.projector, 6.0))
        assert [alert.code for alert in scene.alerts] == ["PROJECTOR_LAG_HIGH"]
        store.takes = 0.0
        await store.append(R1, [event("r1", "StepStarted", "d")], fence=lease.fence)
        await until(lambda: _lags(scene.projector, 0.0))
        store.takes = 6.0
        await store.append(R1, [event("r1", "StepStarted", "e")], fence=lease.fence)
        await until(lambda: _lags(scene.projector, 6.0))
        assert len(scene.alerts) == 2
        await scene.projector.stop()

    asyncio.run(scenario())


@asynccontextmanager
async def late_projector(*run_ids: str) -> AsyncIterator[Scene]:
    """One with a very long pause, after it was late with these runs."""
    scene = Scene(StopsTheClock)
    store = scene.store
    assert isinstance(store, StopsTheClock)
    store.clock, store.takes = scene.clock, 0.9
    projector = scene.make(pause=3600)
    cursor = (await anext(store.changes())).cursor
    await store.save_position("projector", cursor)
    for run_id in run_ids:
        await started(store, run_id)
    projector.start()
    for run_id in run_ids:
        await scene.projected(RunId(run_id))
    yield scene
    await projector.stop()


def test_a_projector_that_is_late_with_many_runs_does_not_pause() -> None:
    async def scenario() -> None:
        async with late_projector("r1", "r2", "r3", "r4", "r5", "r6") as scene:
            await started(scene.store, "r7")
            await scene.projected(RunId("r7"))

    asyncio.run(scenario())


def test_a_busy_run_is_not_saved_for_each_of_its_events_even_if_clocks_differ() -> None:
    async def scenario() -> None:
        async with late_projector("r1") as scene:
            await started(scene.store, "r2")
            for _ in range(100):
                await asyncio.sleep(0)
            assert await scene.store.load_summary(RunId("r2")) is None

    asyncio.run(scenario())


class SavesSeveral(MemoryStore):
    """Saves nothing before this many are to be saved."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self._all_there = asyncio.Barrier(3)

    async def save_snapshot(self, run_id: RunId, *args: Any) -> None:
        await self._all_there.wait()
        await super().save_snapshot(run_id, *args)


def test_runs_of_one_batch_are_saved_together() -> None:
    async def scenario() -> None:
        scene = Scene(SavesSeveral)
        cursor = (await anext(scene.store.changes())).cursor
        for name in ("r1", "r2", "r3"):
            await started(scene.store, name)
        await scene.store.save_position("projector", cursor)
        scene.projector.start()
        for name in ("r1", "r2", "r3"):
            await scene.projected(RunId(name))
        await scene.projector.stop()

    asyncio.run(scenario())


async def _lags(projector: BackgroundProjector, seconds: float) -> bool:
    return projector.lag == seconds


def test_a_list_is_stale_while_an_open_run_is_more_than_five_seconds_ahead_of_its_summary() -> None:
    async def scenario() -> None:
        scene = Scene()
        lease = await started(scene.store)
        run = await scene.store.get_run(R1)
        assert (await summaries_of(scene.parts(), [run])).by_run["r1"].last_event_seq == 2
        await scene.store.append(R1, [event("r1", "StepStarted", "a")], fence=lease.fence)
        run = await scene.store.get_run(R1)
        assert not (await summaries_of(scene.parts(), [run])).is_stale
        scene.clock.move(6)
        assert (await summaries_of(scene.parts(), [run])).is_stale
        projector = scene.make()
        await scene.store.save_position("projector", "0")
        projector.start()
        await scene.projected()
        await projector.stop()
        assert not (await summaries_of(scene.parts(), [run])).is_stale

    asyncio.run(scenario())


def test_a_run_that_ended_before_anything_was_projected_is_projected_when_it_is_listed() -> None:
    async def scenario() -> None:
        scene = Scene()
        lease = await started(scene.store)
        await scene.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
        scene.clock.move(timedelta(days=1).total_seconds())
        ended = await scene.store.get_run(R1)
        unknown = replace(ended, identity=replace(ended.identity, run_id=RunId("gone")))
        found = await summaries_of(scene.parts(), [ended, unknown])
        assert found.by_run["r1"].status == "COMPLETED"
        assert not found.is_stale

    asyncio.run(scenario())
