"""How a run is added to a store, exactly once."""

from typing import Any

import pytest
from msgspec.structs import replace

from podium.errors import InvalidEvent, RunRequestConflict
from podium.log.runs import RunQuery
from podium.testing.events import event, identity, new_run, plan_ref
from podium.testing.store_promises.world import R1, World, types_in


class AdmissionPromises:
    """A request makes one run."""

    def test_a_new_run_is_stored_with_its_first_events(self, world: World) -> None:
        async def scenario() -> None:
            created = await world.store.create_run(new_run("r1", priority=3), [event("r1", "RunQueued")])
            assert not created.duplicate
            assert [one.record.run_seq for one in created.events] == [1]
            run = await world.other.get_run(R1)
            assert run == created.run
            assert (run.identity, run.status, run.head, run.priority) == (identity("r1"), "PENDING", 1, 3)
            assert await types_in(world.other) == ["RunQueued"]

        world.run(scenario())

    def test_the_same_request_gives_the_same_run_and_stores_nothing(self, world: World) -> None:
        async def scenario() -> None:
            asked = new_run("r1", run_request_id="req-1", inputs_sha256="a")
            first = await world.store.create_run(asked, [event("r1", "RunQueued")])
            again = new_run("r2", run_request_id="req-1", inputs_sha256="a")
            second = await world.other.create_run(again, [event("r2", "RunQueued")])
            assert second.duplicate
            assert second.run == first.run
            assert (await world.store.stats()).runs == 1
            assert await types_in(world.store) == ["RunQueued"]

        world.run(scenario())

    @pytest.mark.parametrize("other", [{"inputs_sha256": "b"}, {"plan_sha256": "b"}])
    def test_the_same_request_for_something_else_is_refused(
        self, world: World, other: dict[str, Any]
    ) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1", run_request_id="req-1"), [])
            with pytest.raises(RunRequestConflict):
                await world.store.create_run(new_run("r2", run_request_id="req-1", **other), [])
            assert (await world.store.stats()).runs == 1

        world.run(scenario())

    def test_a_run_keeps_the_reference_to_its_plan(self, world: World) -> None:
        async def scenario() -> None:
            ref = plan_ref()
            asked = new_run("r1", run_request_id="req-1", plan_sha256=ref.sha256, plan_ref=ref)
            created = await world.store.create_run(asked, [event("r1", "RunQueued")])
            await world.store.create_run(new_run("r2"), [event("r2", "RunQueued")])
            assert created.run.plan_ref == ref
            assert await world.other.get_run(R1) == created.run
            assert (await world.other.create_run(asked, [])).run == created.run
            page = await world.other.runs.page("default", RunQuery())
            assert [run.plan_ref for run in page.runs] == [None, ref]

        world.run(scenario())

    @pytest.mark.parametrize(
        "wrong",
        [
            {"sha256": "b" * 64},
            {"sha256": "not a hash"},
            {"plan_id": "other"},
            {"plan_version": "9"},
            {"schema_version": "1"},
            {"uri": "https://plans.example.com/a plan"},
            {"uri": "https://plans.example.com/" + "a" * 2048},
            {"uri": "https://plans.example.com/\0"},
            {"size_bytes": -1},
            {"expires_at": "tomorrow"},
        ],
    )
    def test_a_reference_that_is_not_that_of_the_runs_plan_is_refused(
        self, world: World, wrong: dict[str, Any]
    ) -> None:
        async def scenario() -> None:
            ref = plan_ref()
            asked = new_run("r1", plan_sha256=ref.sha256, plan_ref=replace(ref, **wrong))
            with pytest.raises(InvalidEvent):
                await world.store.create_run(asked, [event("r1", "RunQueued")])
            assert (await world.store.stats()).runs == 0

        world.run(scenario())

    def test_a_run_id_belongs_to_one_run(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1", run_request_id="a"), [])
            with pytest.raises(RunRequestConflict):
                await world.store.create_run(new_run("r1", run_request_id="b"), [])
            elsewhere = new_run("r1", run={"tenant_id": "acme"})
            with pytest.raises(RunRequestConflict):
                await world.store.create_run(elsewhere, [])

        world.run(scenario())
