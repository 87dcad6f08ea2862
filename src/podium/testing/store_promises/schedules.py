"""Schedules: a change, its records and the run of a tick are stored together, by one of several concurrent
deciders.
"""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from podium.errors import InvalidId, RunNotFound, RunRequestConflict, ScheduleExists, ScheduleNotFound
from podium.log.ids import RunId
from podium.ports.schedule_changes import MAX_TICKS, DueAfter, PreparedRun
from podium.schedules.schedule import (
    ALWAYS,
    Definition,
    Every,
    Pause,
    Schedule,
    Tick,
    TickKind,
    TickOutcome,
)
from podium.testing.events import event, new_run
from podium.testing.store_promises.world import World

NOON = "2026-01-01T12:00:00.000000Z"
LATER = "2026-01-01T12:01:00.000000Z"
PLAN = {"plan.json": b'{"plan":1}\n\0\xff', "workflow.yaml": b"steps: []"}


def schedule(schedule_id: str = "nightly", tenant_id: str = "default", **fields: Any) -> Schedule:
    pool = fields.pop("pool", "default")
    definition = Definition(
        times=Every(60, NOON), plan_id="p", plan_version="1", plan_sha256="ab", inputs={"a": [1]}, pool=pool
    )
    given: dict[str, Any] = {"next_time": NOON, "created_at": NOON, "created_by": "ada", **fields}
    return Schedule(tenant_id=tenant_id, schedule_id=schedule_id, definition=definition, **given)


def tick(time: str = NOON, outcome: TickOutcome = TickOutcome.STARTED) -> Tick:
    return Tick(time=time, kind=TickKind.SCHEDULED, outcome=outcome, at=LATER)


def prepared(run_id: str, **fields: Any) -> PreparedRun:
    return PreparedRun(new_run(run_id, **fields), (event(run_id, "RunQueued"),), {"plan.json": b"plan"})


class SchedulePromises:
    def test_a_schedule_is_kept_with_what_its_runs_need(self, world: World) -> None:
        async def scenario() -> None:
            added = schedule()
            await world.store.add_schedule(added, PLAN)
            assert await world.other.find_schedule("default", "nightly") == added
            assert await world.other.schedule_contents("default", "nightly") == PLAN
            with pytest.raises(ScheduleExists):
                await world.other.add_schedule(schedule(), {})
            assert await world.other.schedule_contents("default", "nightly") == PLAN

        world.run(scenario())

    def test_a_schedule_of_another_tenant_is_like_one_that_does_not_exist(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_schedule(schedule(), PLAN)
            await world.store.add_schedule(schedule(tenant_id="acme"), {})
            for tenant_id, schedule_id in (("other", "nightly"), ("default", "none"), ("default", "a\0b")):
                for refused in (
                    world.other.find_schedule(tenant_id, schedule_id),
                    world.other.schedule_contents(tenant_id, schedule_id),
                    world.other.list_ticks(tenant_id, schedule_id),
                    world.other.remove_schedule(tenant_id, schedule_id),
                ):
                    with pytest.raises(ScheduleNotFound):
                        await refused
            assert await world.other.list_schedules("other") == []
            assert [one.tenant_id for one in await world.other.list_schedules("acme")] == ["acme"]
            with pytest.raises(InvalidId):
                await world.store.add_schedule(schedule("a\0b"), {})

        world.run(scenario())

    def test_schedules_are_listed_by_id_in_pages(self, world: World) -> None:
        async def scenario() -> None:
            for name in ("c", "a", "b"):
                await world.store.add_schedule(schedule(name), {})
            first = await world.other.list_schedules("default", limit=2)
            rest = await world.other.list_schedules("default", after=first[-1].schedule_id)
            assert [[one.schedule_id for one in page] for page in (first, rest)] == [["a", "b"], ["c"]]

        world.run(scenario())

    def test_a_tick_is_stored_with_its_run_and_the_next_time(self, world: World) -> None:
        async def scenario() -> None:
            added = schedule()
            await world.store.add_schedule(added, PLAN)
            ticked = replace(added, next_time=LATER, open_runs=("r1",))
            changed = await world.store.change_schedule(ticked, ticks=[tick()], run=prepared("r1"))
            assert changed is not None
            assert changed.created is not None
            assert not changed.created.duplicate
            assert changed.schedule == replace(ticked, revision=2, ticks=1)
            assert await world.other.find_schedule("default", "nightly") == changed.schedule
            assert await world.other.list_ticks("default", "nightly") == [
                replace(tick(), number=1, run_id="r1")
            ]
            assert await world.other.kept(RunId("r1"), "plan.json") == b"plan"
            assert (await world.other.get_run(RunId("r1"))).head == 1
            # The contents for its runs are unchanged.
            assert await world.other.schedule_contents("default", "nightly") == PLAN

        world.run(scenario())

    def test_of_many_that_decided_on_one_revision_one_succeeds(self, world: World) -> None:
        async def scenario() -> None:
            added = schedule()
            await world.store.add_schedule(added, {})
            stores = [world.store, world.other] * 5
            changes = [
                store.change_schedule(
                    replace(added, next_time=LATER), ticks=[tick()], run=prepared(f"r{number}")
                )
                for number, store in enumerate(stores)
            ]
            changed = [one for one in await asyncio.gather(*changes) if one is not None]
            assert len(changed) == 1
            assert changed[0].created is not None
            created = changed[0].created.run.identity.run_id
            for number in range(10):
                if f"r{number}" != created:
                    with pytest.raises(RunNotFound):
                        await world.other.get_run(RunId(f"r{number}"))
            assert [one.run_id for one in await world.other.list_ticks("default", "nightly")] == [created]
            assert (await world.other.find_schedule("default", "nightly")).revision == 2

        world.run(scenario())

    def test_a_run_that_cannot_be_created_changes_nothing(self, world: World) -> None:
        async def scenario() -> None:
            added = schedule()
            await world.store.add_schedule(added, {})
            await world.store.create_run(new_run("r1"), [])
            taken = prepared("r1", run_request_id="another")
            with pytest.raises(RunRequestConflict):
                await world.store.change_schedule(replace(added, next_time=LATER), ticks=[tick()], run=taken)
            assert await world.other.find_schedule("default", "nightly") == added
            assert await world.other.list_ticks("default", "nightly") == []
            # It can nevertheless be changed.
            assert await world.store.change_schedule(added, ticks=[tick()]) is not None

        world.run(scenario())

    def test_a_time_that_has_a_run_is_recorded_with_that_run(self, world: World) -> None:
        async def scenario() -> None:
            added = schedule()
            await world.store.add_schedule(added, {})
            await world.store.create_run(new_run("r1", run_request_id="nightly@noon"), [])
            again = prepared("r2", run_request_id="nightly@noon")
            changed = await world.store.change_schedule(added, ticks=[tick()], run=again)
            assert changed is not None
            assert changed.created is not None
            assert changed.created.duplicate
            assert [one.run_id for one in changed.ticks] == ["r1"]
            assert [one.run_id for one in await world.other.list_ticks("default", "nightly")] == ["r1"]

        world.run(scenario())

    def test_what_its_runs_need_is_replaced_as_a_whole(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_schedule(schedule(), PLAN)
            assert await world.store.change_schedule(schedule(), contents={"plan.json": b"new"}) is not None
            assert await world.other.schedule_contents("default", "nightly") == {"plan.json": b"new"}

        world.run(scenario())

    def test_a_removed_schedule_leaves_nothing_but_its_runs(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_schedule(schedule(), PLAN)
            changed = await world.store.change_schedule(schedule(), ticks=[tick()], run=prepared("r1"))
            assert changed is not None
            await world.other.remove_schedule("default", "nightly")
            assert await world.store.change_schedule(changed.schedule) is None
            assert await world.store.list_schedules("default") == []
            await world.store.add_schedule(schedule(), {})
            assert await world.store.list_ticks("default", "nightly") == []
            assert await world.store.schedule_contents("default", "nightly") == {}
            assert (await world.store.get_run(RunId("r1"))).head == 1

        world.run(scenario())

    def test_those_that_are_due_are_found_in_order_and_by_pool(self, world: World) -> None:
        async def scenario() -> None:
            given: dict[str, dict[str, Any]] = {
                "second": {"next_time": LATER},
                "first": {},
                "later": {"next_time": "2026-01-02T00:00:00.000000Z"},
                "paused": {"pause": Pause("why", NOON, "ada")},
                "ended": {"next_time": None},
                "waits": {"next_time": None, "waiting": (NOON,)},
                "elsewhere": {"pool": "gpu"},
            }
            for name, fields in given.items():
                await world.store.add_schedule(schedule(name, **fields), {})
            due = await world.other.due_schedules(["default", "none"], LATER)
            assert [one.schedule_id for one in due] == ["waits", "first", "second"]
            after = DueAfter(NOON, "default", "first")
            rest = await world.other.due_schedules(["default"], LATER, after=after)
            assert [one.schedule_id for one in rest] == ["second"]
            assert len(await world.other.due_schedules(["default"], LATER, limit=1)) == 1
            both = await world.other.due_schedules(["gpu", "default"], NOON)
            assert [one.schedule_id for one in both] == ["waits", "elsewhere", "first"]
            assert both[0].due_at == ALWAYS

        world.run(scenario())

    def test_a_change_decides_when_a_schedule_is_due(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_schedule(schedule(), {})
            assert await world.store.change_schedule(schedule(next_time=LATER, pool="gpu")) is not None
            assert await world.other.due_schedules(["default", "gpu"], NOON) == []
            assert len(await world.other.due_schedules(["gpu"], LATER)) == 1
            assert await world.other.due_schedules(["default"], LATER) == []

        world.run(scenario())

    def test_the_newest_ticks_are_kept_and_listed_in_pages(self, world: World) -> None:
        async def scenario() -> None:
            current = schedule()
            await world.store.add_schedule(current, {})
            for _ in range(4):
                changed = await world.store.change_schedule(current, ticks=[tick()] * (MAX_TICKS // 4))
                assert changed is not None
                current = changed.schedule
            assert current.ticks == MAX_TICKS
            assert await world.store.change_schedule(current, ticks=[tick(LATER), tick(NOON)]) is not None
            newest = await world.other.list_ticks("default", "nightly", limit=2)
            assert [(one.number, one.time) for one in newest] == [
                (MAX_TICKS + 2, NOON),
                (MAX_TICKS + 1, LATER),
            ]
            oldest = await world.other.list_ticks("default", "nightly", before=5)
            assert [one.number for one in oldest] == [4, 3]

        world.run(scenario())
