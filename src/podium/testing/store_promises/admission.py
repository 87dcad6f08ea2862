"""How a run comes into a store, and that it does so once."""

from typing import Any

import pytest

from podium.errors import RunRequestConflict
from podium.testing.events import event, identity, new_run
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

    def test_a_run_id_belongs_to_one_run(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1", run_request_id="a"), [])
            with pytest.raises(RunRequestConflict):
                await world.store.create_run(new_run("r1", run_request_id="b"), [])
            elsewhere = new_run("r1", run={"tenant_id": "acme"})
            with pytest.raises(RunRequestConflict):
                await world.store.create_run(elsewhere, [])

        world.run(scenario())
