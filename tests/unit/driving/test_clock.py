"""A running driver waits by the monotonic clock; the wall clock decides only after a restart."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from podium.log.events import EventRecord, EventType
from podium.log.leases import Lease
from podium.log.times import moment
from podium.machine import RULES_VERSION
from podium.runtime.drive import Driver
from podium.runtime.drive_clock import DriveClock
from podium.runtime.inbox import PendingEvent
from podium.runtime.world import World
from podium.testing.clock import VirtualClock
from podium.testing.virtual_time import run_virtually
from tests.unit.driving.scripted import Scripted, ScriptedTasks, memory, signal
from tests.unit.machine.hosting import plan_of

DAY = 24 * 3600.0
RETRY = "steps: [{name: A, command: [exit, 1, 0], retry: {attempts: 2, delay: 4}}]"
LIMIT = "timeout: 3600\nsteps: [{name: A, command: [hang]}]"


class SettableClock:
    """Moves with the event loop; setting the wall clock takes no time. Later than what `write_of` stamps."""

    def __init__(self) -> None:
        self.set_by = 0.0

    def now(self) -> datetime:
        return datetime(2099, 1, 1, 12, 0, tzinfo=UTC) + timedelta(seconds=self.elapsed() + self.set_by)

    def elapsed(self) -> float:
        return asyncio.get_running_loop().time()


@dataclass
class Clocked(Scripted):
    clock: SettableClock = field(default_factory=SettableClock)

    def begin(self, lease: Lease, log: Any = None) -> Driver:
        world = World(log or self.store, self.clock, self.tasks, self.ask, observers=self.observers)
        self.driver = Driver(self.plan, self.identity, lease.fence, world)
        return self.driver


async def clocked(text: str) -> Clocked:
    run = Clocked(plan_of(text), memory())
    await run.create()
    return run


def at_the_first(event_type: str, run: Clocked, seconds: float) -> None:
    def set_the_clock(records: Any) -> None:
        if any(record.event_type == event_type for record in records):
            run.clock.set_by = seconds

    run.observers.append(set_the_clock)


def fired(log: list[EventRecord]) -> list[EventRecord]:
    return [record for record in log if record.event_type == EventType.TIMER_FIRED]


@pytest.mark.rule("OP08")
@pytest.mark.parametrize("seconds", [-DAY, DAY])
def test_a_retry_waits_its_four_seconds_though_the_clock_is_set(seconds: float) -> None:
    async def scenario() -> None:
        run = await clocked(RETRY)
        at_the_first(EventType.STEP_RETRY_SCHEDULED, run, seconds)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert (await run.drive(seconds=2 * DAY)).event_type == EventType.RUN_COMPLETED
        assert 4.0 <= loop.time() - began < 5.0

    run_virtually(scenario())


@pytest.mark.rule("OP08")
@pytest.mark.parametrize("seconds", [-DAY, DAY])
def test_a_retry_decided_after_the_clock_was_set_waits_its_four_seconds(seconds: float) -> None:
    async def scenario() -> None:
        run = await clocked(RETRY)
        at_the_first(EventType.RUN_STARTED, run, seconds)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await run.drive(seconds=2 * DAY)
        assert 4.0 <= loop.time() - began < 5.0

    run_virtually(scenario())


@pytest.mark.rule("OP08")
@pytest.mark.parametrize("seconds", [-DAY, 0.0, DAY])
def test_a_run_may_take_its_hour_though_the_clock_is_set(seconds: float) -> None:
    async def scenario() -> None:
        run = await clocked(LIMIT)
        at_the_first(EventType.STEP_STARTED, run, seconds)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert (await run.drive(seconds=2 * DAY)).event_type == EventType.RUN_FAILED
        assert 3600.0 <= loop.time() - began < 3601.0

    run_virtually(scenario())


@pytest.mark.rule("OP08")
def test_a_signal_from_a_clock_a_day_ahead_neither_ends_an_hour_early_nor_delays_a_retry() -> None:
    async def scenario() -> None:
        run = await clocked("timeout: 3600\n" + RETRY)
        loop = asyncio.get_running_loop()
        lease = await run.claim()
        driver = run.begin(lease)
        driver.submit(
            PendingEvent(EventType.RUN_STARTED, payload={"rulesVersion": RULES_VERSION, "inputs": {}})
        )
        driving = asyncio.create_task(driver.drive())
        await asyncio.sleep(1)
        early = signal(run.identity, "RESUME")
        ahead = msgspec.structs.replace(early, emitted_at="2099-01-02T12:00:00.000000Z")
        await run.store.append(run.run_id, [ahead])
        began = loop.time() - 1
        assert (await driving).event_type == EventType.RUN_COMPLETED
        assert 4.0 <= loop.time() - began < 5.0

    run_virtually(scenario())


@pytest.mark.rule("G41", "OP08")
def test_a_timer_is_never_recorded_before_it_was_due() -> None:
    async def scenario() -> None:
        run = await clocked(RETRY)
        at_the_first(EventType.STEP_RETRY_SCHEDULED, run, -DAY)
        await run.drive(seconds=2 * DAY)
        log = await run.log()
        due = next(r for r in log if r.event_type == EventType.STEP_RETRY_SCHEDULED)
        assert [r.emitted_at >= due.emitted_at for r in fired(log)] == [True]
        assert (moment(fired(log)[0].emitted_at) - moment(due.emitted_at)).total_seconds() >= 4

    run_virtually(scenario())


@pytest.mark.rule("OP08")
def test_after_a_restart_with_a_clock_set_back_a_retry_waits_no_longer_than_its_delay() -> None:
    async def scenario() -> None:
        run = await clocked(RETRY)
        with pytest.raises(TimeoutError):
            await run.drive(seconds=1)
        run.clock.set_by = -DAY
        run.tasks = ScriptedTasks()
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert (await run.drive(seconds=2 * DAY)).event_type == EventType.RUN_COMPLETED
        assert loop.time() - began <= 4.5

    run_virtually(scenario())


@pytest.mark.rule("OP08")
def test_after_a_restart_the_wall_clock_decides_what_is_due() -> None:
    async def scenario() -> None:
        run = await clocked(RETRY.replace("delay: 4", "delay: 50"))
        with pytest.raises(TimeoutError):
            await run.drive(seconds=1)
        run.clock.set_by = 49.0  # the machine was off
        run.tasks = ScriptedTasks()
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert (await run.drive(seconds=2 * DAY)).event_type == EventType.RUN_COMPLETED
        assert loop.time() - began < 1.0

    run_virtually(scenario())


@pytest.mark.rule("OP08")
def test_the_clock_of_a_driver_moves_with_time_and_not_with_the_wall_clock() -> None:
    wall = VirtualClock()
    clock = DriveClock(wall)
    began = clock.now()
    due = clock.deadline("2026-01-01T12:01:00.000000Z")
    wall.jump(-DAY)
    wall.move(10)
    assert clock.now() - began == timedelta(seconds=10)
    clock.advance_to("2026-01-02T12:00:00.000000Z")
    assert clock.now() == datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
    assert due - clock.elapsed() == 50.0
    clock.advance_to("2026-01-01T12:00:00.000000Z")
    assert clock.now() == datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
