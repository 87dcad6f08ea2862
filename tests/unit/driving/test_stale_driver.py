"""A driver that has lost its run starts nothing, also what it could start without writing to the log."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from podium.errors import StaleFence, StoreUnavailable
from podium.log.events import EventType
from podium.log.leases import Lease
from podium.machine import RULES_VERSION
from podium.runtime.drive import Driver
from podium.runtime.inbox import PendingEvent
from podium.runtime.outages import Outages
from podium.runtime.world import World
from podium.testing.virtual_time import run_virtually
from tests.unit.driving.scripted import Scripted, ScriptedTasks, WallClock, memory
from tests.unit.driving.test_drive import LogThatIsAway
from tests.unit.machine.hosting import plan_of

ONE = "steps: [{name: A, command: [exit, 0]}]"


class LogWithAnEvent:
    """Calls a function once, when the log was read to its end."""

    def __init__(self, store: Any, event: Any) -> None:
        self._store = store
        self._event = event

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read(self, *arguments: Any, **options: Any) -> Any:
        records = await self._store.read(*arguments, **options)
        if len(records) < options.get("limit", 1) and self._event is not None:
            event, self._event = self._event, None
            await event()
        return records


async def interrupted() -> Scripted:
    """StepStarted of A is in the log, and nothing after it: its driver is gone."""
    run = await Scripted(plan_of(ONE), memory()).create()
    with pytest.raises(StoreUnavailable):
        await run.drive(log=LogThatIsAway(run.store, 1))
    run.tasks = ScriptedTasks()
    return run


def taken_over(run: Scripted, lease: Lease) -> Any:
    async def take_over() -> None:
        await run.store.release(lease)
        await run.claim()

    return take_over


@pytest.mark.rule("G13")
def test_a_driver_that_loses_the_run_while_it_reads_the_log_starts_nothing_and_stops_nothing() -> None:
    async def scenario() -> None:
        run = await interrupted()
        lease = await run.claim()
        driver = run.begin(lease, LogWithAnEvent(run.store, taken_over(run, lease)))
        with pytest.raises(StaleFence, match="another driver"):
            await driver.drive()
        assert run.tasks.begun == []
        assert run.tasks.orphans_stopped == 0, "they are the tasks of the driver that took over"

    asyncio.run(scenario())


def test_a_driver_that_loses_the_run_while_it_stops_orphans_starts_nothing() -> None:
    async def scenario() -> None:
        run = await interrupted()
        lease = await run.claim()
        run.tasks.stop_orphans = taken_over(run, lease)  # type: ignore[method-assign]
        with pytest.raises(StaleFence):
            await run.begin(lease).drive()
        assert run.tasks.begun == []

    asyncio.run(scenario())


def test_a_driver_whose_keeper_says_that_the_run_is_lost_starts_nothing() -> None:
    async def scenario() -> None:
        run = await interrupted()
        lease = await run.claim()
        driver: Driver

        async def lose() -> None:
            driver.revoke(StaleFence("it is lost"))

        driver = run.begin(lease, LogWithAnEvent(run.store, lose))
        with pytest.raises(StaleFence, match="it is lost"):
            await driver.drive()
        assert run.tasks.begun == []

    asyncio.run(scenario())


def test_a_driver_whose_lease_is_being_claimed_again_starts_under_the_new_one() -> None:
    async def scenario() -> None:
        run = await interrupted()
        lease = await run.claim()
        driver: Driver

        async def lapse() -> None:
            driver.begin_reclaiming()
            await run.store.release(lease)
            asyncio.get_running_loop().call_later(0.01, driver.end_reclaiming, (await run.claim()).fence)

        driver = run.begin(lease, LogWithAnEvent(run.store, lapse))
        await driver.drive()
        assert run.tasks.begun == [("A", 1, 2)]

    asyncio.run(scenario())


class LeasesThatAreAway:
    def __init__(self, store: Any, times: int) -> None:
        self._store = store
        self._left = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def held_lease(self, *arguments: Any) -> Any:
        if self._left:
            self._left -= 1
            raise StoreUnavailable("away")
        return await self._store.held_lease(*arguments)


def test_a_store_that_is_away_when_the_lease_is_to_be_proved_is_waited_for() -> None:
    async def scenario() -> None:
        run = await interrupted()
        lease = await run.claim()
        outages = Outages("r1", lambda: "2026-01-01T21:23:05.000000Z", budget=timedelta(seconds=300))
        away: Any = LeasesThatAreAway(run.store, 2)
        world = World(away, WallClock(), run.tasks, run.ask, outages=outages)
        await Driver(run.plan, run.identity, lease.fence, world).drive()
        assert run.tasks.begun == [("A", 1, 2)]

    asyncio.run(scenario())


def test_a_run_without_anything_to_start_again_never_asks_for_its_lease() -> None:
    async def scenario() -> None:
        run = await Scripted(plan_of(ONE), memory()).create()
        asked = LeasesThatAreAway(run.store, 1_000)
        await run.drive(log=asked)
        assert run.tasks.begun == [("A", 1, 1)]

    asyncio.run(scenario())


@pytest.mark.rule("G13")
def test_a_driver_that_records_what_the_next_one_has_recorded_already_acts_on_none_of_it() -> None:
    """What is in the log already is returned to any caller: also to a driver that has lost the run."""

    async def scenario() -> None:
        text = "steps: [{name: A, command: [hang]}, {name: B, command: [exit, 0]}]"
        run = await Scripted(plan_of(text), memory()).create()
        lease = await run.claim()
        stale, old_tasks = run.begin(lease), run.tasks
        start = {"rulesVersion": RULES_VERSION, "inputs": {}}
        stale.submit(PendingEvent(EventType.RUN_STARTED, payload=start))
        driving = asyncio.create_task(stale.drive())
        while not old_tasks.begun:
            await asyncio.sleep(0)
        await run.store.release(lease)
        done = PendingEvent(EventType.STEP_COMPLETED, "A", payload={"exitCode": 0})
        run.tasks = ScriptedTasks()
        successor = run.begin(await run.claim())
        following = asyncio.create_task(successor.drive())
        while not run.tasks.begun:
            await asyncio.sleep(0)
        successor.submit(done)
        while len(run.tasks.begun) < 2:
            await asyncio.sleep(0)
        stale.submit(replace(done))
        with pytest.raises(StaleFence):
            await driving
        assert [path for path, _, _ in old_tasks.begun] == ["A"]
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    asyncio.run(scenario())


class LogThatAnswersLate:
    """Calls a function once, when an event of the step is stored and its writer does not know it yet."""

    def __init__(self, store: Any, step: str, event: Callable[[], None]) -> None:
        self._store = store
        self._step = step
        self._event: Callable[[], None] | None = event

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, *arguments: Any, **options: Any) -> Any:
        appended = await self._store.append(*arguments, **options)
        if self._event is not None and any(one.record.step_id == self._step for one in appended):
            event, self._event = self._event, None
            event()
        return appended


class Left(Exception):
    pass


def test_a_driver_that_is_stopped_while_the_store_answers_stops_as_soon_as_it_has_answered() -> None:
    async def scenario() -> None:
        steps = "steps: [{name: A, command: [exit, 0]}, {name: OK, approval: {message: go}}]"
        run = await Scripted(plan_of(steps), memory()).create()
        driver: Driver

        def leave() -> None:
            driver.leave(Left())

        driver = run.begin(await run.claim(), LogThatAnswersLate(run.store, "OK", leave))
        driver.submit(
            PendingEvent(EventType.RUN_STARTED, payload={"rulesVersion": RULES_VERSION, "inputs": {}})
        )
        with pytest.raises(Left):
            await asyncio.wait_for(driver.drive(), 60)

    run_virtually(scenario())
