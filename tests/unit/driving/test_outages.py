"""A driver outlasts a store that is away: nothing is lost, nothing starts meanwhile, and views are told."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from podium.errors import StaleFence, StoreUnavailable
from podium.log.events import EventType
from podium.log.leases import Lease
from podium.machine import RULES_VERSION
from podium.machine.commands import RunTask
from podium.ports.engine import Notice
from podium.runtime.drive import Driver
from podium.runtime.inbox import PendingEvent
from podium.runtime.lease_keeper import LeaseKeeper
from podium.runtime.outages import Outages
from podium.runtime.tasks.order import completed
from podium.runtime.world import World
from podium.stores.memory import MemoryStore
from podium.testing.virtual_time import run_virtually
from tests.unit.driving.scripted import TTL, Scripted, WallClock
from tests.unit.machine.hosting import plan_of

THREE = "steps: [{name: A, command: [exit, 0]}, {name: B, command: [exit, 0]}, {name: C, command: [exit, 0]}]"


class AwayStore(MemoryStore):
    """Away between two moments of the loop's clock; `writes_only`: it can be read all the same, like a full disk."""

    away = (0.0, 0.0)
    writes_only = False

    def _check(self, *, writes: bool) -> None:
        start, end = self.away
        if start <= asyncio.get_running_loop().time() < end and (writes or not self.writes_only):
            raise StoreUnavailable("connection refused")

    async def append(self, *arguments: Any, **keywords: Any) -> Any:
        self._check(writes=True)
        return await super().append(*arguments, **keywords)

    async def read(self, *arguments: Any, **keywords: Any) -> Any:
        self._check(writes=False)
        return await super().read(*arguments, **keywords)

    async def renew(self, *arguments: Any, **keywords: Any) -> Any:
        self._check(writes=True)
        return await super().renew(*arguments, **keywords)

    async def held_lease(self, *arguments: Any, **keywords: Any) -> Any:
        self._check(writes=False)
        return await super().held_lease(*arguments, **keywords)

    async def claim(self, *arguments: Any, **keywords: Any) -> Any:
        self._check(writes=True)
        return await super().claim(*arguments, **keywords)


class Away:
    """A run on such a store, driven with a lease that is kept."""

    def __init__(self, text: str = THREE, budget: float = 300) -> None:
        self.store = AwayStore(WallClock())
        self.run = Scripted(plan_of(text), self.store)
        self.notices: list[Notice] = []
        self.budget = budget

    async def begin(self) -> "tuple[Driver, LeaseKeeper, asyncio.Task[Any]]":
        await self.run.create()
        lease = await self.run.claim()
        outages = Outages(
            "r1",
            lambda: "2026-01-01T21:23:05.000000Z",
            budget=timedelta(seconds=self.budget),
            notify=self.notices.append,
        )
        world = World(self.store, WallClock(), self.run.tasks, self.run.ask, outages=outages)
        driver = Driver(self.run.plan, self.run.identity, lease.fence, world)
        keeper = LeaseKeeper(self.store, lease, TTL, lambda _lease: None)
        outages.on_return.append(keeper.wake)
        keeping = asyncio.create_task(keeper.keep(driver))
        start = {"rulesVersion": RULES_VERSION, "inputs": {}}
        driver.submit(PendingEvent(EventType.RUN_STARTED, payload=start))
        driving = asyncio.create_task(driver.drive())
        driving.add_done_callback(lambda _: keeping.cancel())
        return driver, keeper, driving


@pytest.mark.rule("G17", "OP01")
@pytest.mark.parametrize("writes_only", [False, True])
@pytest.mark.parametrize("seconds", [5, 25, 200])
def test_a_run_outlasts_a_store_that_is_away_and_loses_nothing(seconds: float, writes_only: bool) -> None:
    async def scenario() -> None:
        away = Away()
        began: list[float] = []

        def note(task: RunTask) -> None:
            loop = asyncio.get_running_loop()
            began.append(loop.time())
            if task.path == "B":
                # Its start is stored, and its end cannot be.
                loop.call_soon(setattr, away.store, "away", (0.0, float(seconds)))

        away.run.tasks.on_start = note
        away.store.writes_only = writes_only
        _, _, driving = await away.begin()
        last = await driving
        assert last.event_type == EventType.RUN_COMPLETED
        assert [name for name, _, _ in away.run.tasks.begun] == ["A", "B", "C"]
        assert began[2] >= seconds, "nothing starts while the store is away"
        log = await away.run.log()
        assert [record.run_seq for record in log] == list(range(1, len(log) + 1))
        assert asyncio.get_running_loop().time() >= seconds
        said, back = away.notices
        assert said.text.startswith("store unavailable since 21:23:0")
        assert "UTC, retrying for 300 s; running steps continue, none starts" in said.text
        assert (said.is_over, back.is_over) == (False, True)

    run_virtually(scenario())


@pytest.mark.rule("G17", "OP01")
def test_after_the_budget_the_run_stops_and_says_how_to_continue() -> None:
    async def scenario() -> None:
        away = Away(budget=60)
        away.run.tasks.on_start = lambda _task: setattr(away.store, "away", (0.0, 1e9))
        _, _, driving = await away.begin()
        with pytest.raises(StoreUnavailable, match=r"60 seconds .PODIUM_STORE_OUTAGE.*`podium resume r1`"):
            await driving
        assert 60 <= asyncio.get_running_loop().time() < 70
        assert [name for name, _, _ in away.run.tasks.begun] == ["A"]

    run_virtually(scenario())


@pytest.mark.rule("OP01")
def test_a_driver_that_cannot_read_the_log_when_it_starts_waits_for_the_store() -> None:
    async def scenario() -> None:
        away = Away()
        _, _, driving = await away.begin()
        # The driver has not run yet: the first thing it does is to read the log.
        away.store.away = (0.0, 25.0)
        assert (await driving).event_type == EventType.RUN_COMPLETED
        assert asyncio.get_running_loop().time() >= 25
        assert [name for name, _, _ in away.run.tasks.begun] == ["A", "B", "C"]

    run_virtually(scenario())


@pytest.mark.rule("OP01")
def test_a_store_that_is_back_within_a_second_is_not_mentioned() -> None:
    async def scenario() -> None:
        away = Away()
        away.run.tasks.on_start = lambda task: setattr(
            away.store, "away", (0.0, 0.5) if task.path == "B" else away.store.away
        )
        _, _, driving = await away.begin()
        assert (await driving).event_type == EventType.RUN_COMPLETED
        assert away.notices == []

    run_virtually(scenario())


@pytest.mark.rule("OP01", "OP02")
def test_a_run_in_which_nothing_ends_says_so_too_and_keeps_its_lease() -> None:
    async def scenario() -> None:
        away = Away("timeout: 120\nsteps: [{name: A, command: [hang]}]")
        away.store.away = (5.0, 65.0)
        _, keeper, driving = await away.begin()
        first = keeper.lease.fence
        await asyncio.sleep(70)
        assert [notice.is_over for notice in away.notices] == [False, True]
        # It had lapsed and was claimed again.
        assert keeper.lease.fence.generation == first.generation + 1
        held = await away.store.held_lease(away.run.run_id)
        assert held is not None
        assert (held.is_live, held.lease.fence) == (True, keeper.lease.fence)
        assert (await driving).event_type == EventType.RUN_FAILED

    run_virtually(scenario())


@pytest.mark.rule("G45", "OP02")
def test_a_driver_whose_run_was_taken_over_meanwhile_writes_nothing_more() -> None:
    async def scenario() -> None:
        away = Away()
        away.run.tasks.on_start = lambda task: setattr(
            away.store, "away", (0.0, 100.0) if task.path == "B" else away.store.away
        )
        _, _, driving = await away.begin()
        await asyncio.sleep(50)
        taken: Lease | None = await MemoryStore.claim(away.store, away.run.run_id, owner="other", ttl=TTL * 9)
        assert taken is not None
        with pytest.raises(StaleFence):
            await driving
        assert [name for name, _, _ in away.run.tasks.begun] == ["A", "B"]

    run_virtually(scenario())


@pytest.mark.rule("G45", "OP02")
def test_a_driver_with_nothing_to_write_notices_that_its_run_was_taken_over() -> None:
    async def scenario() -> None:
        away = Away("steps: [{name: A, command: [hang]}]")
        away.store.away = (5.0, 65.0)
        _, keeper, driving = await away.begin()
        await asyncio.sleep(50)
        taken: Lease | None = await MemoryStore.claim(away.store, away.run.run_id, owner="other", ttl=TTL * 9)
        assert taken is not None
        with pytest.raises(StaleFence, match="taken over by another driver"):
            await asyncio.wait_for(driving, 100)
        assert keeper.lease.owner != "other"

    run_virtually(scenario())


@pytest.mark.rule("OP02")
def test_a_run_that_lost_its_slot_starts_nothing_until_it_has_one_again() -> None:
    async def scenario() -> None:
        away = Away(THREE[:-1] + ", {name: D, command: [exit, 0]}]")
        away.run.tasks.on_start = lambda task: setattr(
            away.store, "away", (0.0, 100.0) if task.path == "B" else away.store.away
        )
        away.store._full_limit = lambda scopes: full[0]  # type: ignore[method-assign]
        full: list[str | None] = [None]
        _, keeper, driving = await away.begin()
        await asyncio.sleep(50)
        full[0] = "the limit"
        await asyncio.sleep(100)
        # C was decided on while there was a slot, but not recorded before it was lost.
        assert [name for name, _, _ in away.run.tasks.begun] == ["A", "B"]
        assert (await away.run.log())[-1].event_type == EventType.STEP_COMPLETED
        assert [notice.is_over for notice in away.notices] == [False, True]
        full[0] = None
        assert (await driving).event_type == EventType.RUN_COMPLETED
        assert [name for name, _, _ in away.run.tasks.begun] == ["A", "B", "C", "D"]
        assert keeper.lease.fence.generation > 1

    run_virtually(scenario())


def test_a_run_that_lost_its_slot_while_its_process_was_frozen_starts_nothing_until_it_has_one_again() -> (
    None
):
    async def scenario() -> None:
        away = Away()
        full: list[str | None] = [None]
        away.store._full_limit = lambda scopes: full[0]  # type: ignore[method-assign]

        def freeze(task: RunTask) -> None:
            if task.path == "B":
                asyncio.get_running_loop()._no_waiting.skipped += 100  # type: ignore[attr-defined]
                full[0] = "the limit"

        away.run.tasks.on_start = freeze
        _, keeper, driving = await away.begin()
        await asyncio.sleep(150)
        assert [name for name, _, _ in away.run.tasks.begun] == ["A", "B"]
        full[0] = None
        assert (await driving).event_type == EventType.RUN_COMPLETED
        assert [name for name, _, _ in away.run.tasks.begun] == ["A", "B", "C"]
        assert keeper.lease.fence.generation > 1

    run_virtually(scenario())


class AheadClock(WallClock):
    """Ahead of the event loop, whose clock does not move while the machine sleeps."""

    ahead = 0.0

    def elapsed(self) -> float:
        return super().elapsed() + self.ahead


@pytest.mark.rule("OP02")
def test_a_run_that_lost_its_slot_while_its_machine_slept_starts_nothing_until_it_has_one_again() -> None:
    async def scenario() -> None:
        away = Away(THREE.replace("{name: B, command: [exit, 0]}", "{name: B, command: [hang]}"))
        full: list[str | None] = [None]
        away.store._full_limit = lambda scopes: full[0]  # type: ignore[method-assign]
        away.store._clock = clock = AheadClock()
        _, keeper, driving = await away.begin()
        await asyncio.sleep(1)
        clock.ahead, full[0] = 100.0, "the limit"
        await asyncio.sleep(TTL.total_seconds() / 2)
        away.run.tasks.finish("B", completed(output=""))
        await asyncio.sleep(TTL.total_seconds() / 4)
        assert [name for name, _, _ in away.run.tasks.begun] == ["A", "B"]
        full[0] = None
        assert (await driving).event_type == EventType.RUN_COMPLETED
        assert [name for name, _, _ in away.run.tasks.begun] == ["A", "B", "C"]
        assert keeper.lease.fence.generation > 1

    run_virtually(scenario())


@pytest.mark.rule("OP01")
def test_a_person_can_leave_a_run_whose_store_is_away() -> None:
    async def scenario() -> None:
        away = Away()
        away.run.tasks.on_start = lambda _task: setattr(away.store, "away", (0.0, 1e9))
        driver, _, driving = await away.begin()
        await asyncio.sleep(20)
        driver._outages.give_up()
        with pytest.raises(StoreUnavailable, match="`podium resume r1`"):
            await driving
        assert asyncio.get_running_loop().time() < 30

    run_virtually(scenario())
