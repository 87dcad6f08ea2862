"""Wake-ups change together with the events that they follow from."""

import pytest

from podium.errors import LogMoved, StaleFence
from podium.log.engines import TemporalRunRef
from podium.log.leases import Fence, WakeUp
from podium.testing.events import event
from podium.testing.store_promises.world import R1, World, started


class TimerPromises:
    def test_an_engine_sees_the_wake_ups_of_its_own_runs(self, world: World) -> None:
        """Otherwise timers of other runs that no process drives would hide them."""

        async def scenario() -> None:
            lease = await started(world.store)
            await world.store.append(
                R1, [event("r1", "StepStarted", "x")], fence=lease.fence, set_wake_ups=[_wake_up("a", 1)]
            )
            assert await world.store.due(_at(5), provider="temporal") == []
            engine = TemporalRunRef(namespace="n", workflow_id="w", run_id=R1)
            await world.store.set_engine(R1, engine, fence=lease.fence)
            assert await world.other.due(_at(5), provider="temporal") == [_wake_up("a", 1)]
            assert await world.other.due(_at(5), provider="conductor") == []

        world.run(scenario())

    def test_wake_ups_without_events_change_only_if_nothing_has_come_since(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            with pytest.raises(LogMoved):
                await world.store.append(R1, [], fence=lease.fence, after=1, set_wake_ups=[_wake_up("a", 1)])
            assert await world.other.due(_at(5)) == []
            await world.store.append(R1, [], fence=lease.fence, after=2, set_wake_ups=[_wake_up("a", 1)])
            assert await world.other.due(_at(5)) == [_wake_up("a", 1)]

        world.run(scenario())

    def test_open_runs_of_an_engine_are_found(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            assert await world.store.open_runs("temporal") == []
            await world.store.set_engine(
                R1, TemporalRunRef(namespace="n", workflow_id="w", run_id=R1), fence=lease.fence
            )
            found = await world.other.open_runs("temporal")
            assert [run.identity.run_id for run in found] == [R1]
            assert await world.other.open_runs("temporal", after=R1) == []
            assert await world.other.open_runs("temporal", limit=0) == []
            assert await world.other.open_runs("conductor") == []
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            assert await world.other.open_runs("temporal") == []

        world.run(scenario())

    def test_wake_ups_are_due_in_order_and_gone_when_dropped(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            wake_ups = [_wake_up("b", 2), _wake_up("a", 2), _wake_up("c", 1), _wake_up("later", 9)]
            await world.store.append(
                R1, [event("r1", "StepStarted", "x")], fence=lease.fence, set_wake_ups=wake_ups
            )
            due = await world.other.due(_at(5))
            assert [wake_up.key for wake_up in due] == ["c", "a", "b"]
            assert due[0] == _wake_up("c", 1)
            assert [wake_up.key for wake_up in await world.store.due(_at(5), limit=1)] == ["c"]
            await world.store.append(
                R1,
                [event("r1", "TimerFired", subject="c")],
                fence=lease.fence,
                set_wake_ups=[_wake_up("a", 7)],
                drop_wake_ups=["c"],
            )
            assert [wake_up.key for wake_up in await world.other.due(_at(5))] == ["b"]

        world.run(scenario())

    def test_wake_ups_change_without_events_under_the_lease_of_the_run(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            wake_ups = [_wake_up("a", 1), _wake_up("b", 2)]
            assert await world.store.append(R1, [], fence=lease.fence, set_wake_ups=wake_ups) == ()
            assert [wake_up.key for wake_up in await world.other.due(_at(5))] == ["a", "b"]
            with pytest.raises(StaleFence):
                await world.store.append(R1, [], fence=Fence(99), drop_wake_ups=["a"])
            await world.store.append(R1, [], fence=lease.fence, drop_wake_ups=["a"])
            assert [wake_up.key for wake_up in await world.other.due(_at(5))] == ["b"]
            run = await world.other.get_run(R1)
            assert run.head == 2
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            await world.store.append(R1, [], set_wake_ups=wake_ups)
            assert await world.store.due(_at(5)) == []

        world.run(scenario())

    def test_a_refused_append_sets_no_wake_up(self, world: World) -> None:
        async def scenario() -> None:
            await started(world.store)
            with pytest.raises(StaleFence):
                await world.store.append(
                    R1, [event("r1", "StepStarted", "x")], fence=Fence(99), set_wake_ups=[_wake_up("a", 1)]
                )
            assert await world.store.due(_at(5)) == []

        world.run(scenario())

    def test_an_ended_run_has_no_wake_ups(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            await world.store.append(
                R1, [event("r1", "StepStarted", "x")], fence=lease.fence, set_wake_ups=[_wake_up("a", 1)]
            )
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            assert await world.store.due(_at(5)) == []

        world.run(scenario())


def _at(seconds: int) -> str:
    return f"2026-01-01T12:00:{seconds:02}.000000Z"


def _wake_up(key: str, seconds: int) -> WakeUp:
    return WakeUp(run_id=R1, key=key, due=_at(seconds))
