"""Plans, workflow files and large values: kept once, by their content, for as long as a run has them."""

import pytest

from podium.errors import ContentMissing, InvalidId, RunNotFound
from podium.log.ids import RunId
from podium.testing.events import event, new_run
from podium.testing.store_promises.world import R1, TTL, World, started

R2 = RunId("r2")
PLAN = b'{"plan":1}\n\0\xff'


async def end(world: World, run_id: RunId) -> None:
    lease = await world.store.claim(run_id, owner="driver", ttl=TTL)
    assert lease is not None
    await world.store.append(run_id, [event(run_id, "RunCancelled")], fence=lease.fence)


class ContentPromises:
    def test_a_run_is_created_with_its_contents(self, world: World) -> None:
        async def scenario() -> None:
            contents = {"plan.json": PLAN, "workflow.yaml": b"steps: []", "empty": b""}
            await world.store.create_run(new_run("r1"), [event("r1", "RunQueued")], contents)
            assert {name: await world.other.kept(R1, name) for name in contents} == contents
            listed = await world.other.list_kept(R1)
            assert [(one.name, one.size) for one in listed] == [
                ("empty", 0),
                ("plan.json", 13),
                ("workflow.yaml", 9),
            ]
            assert await world.other.problems() == []

        world.run(scenario())

    def test_a_request_that_is_refused_or_repeated_keeps_nothing(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1"), [], {"plan.json": PLAN})
            again = await world.store.create_run(new_run("r1"), [], {"plan.json": b"other", "more": b"x"})
            assert again.duplicate
            assert [one.name for one in await world.other.list_kept(R1)] == ["plan.json"]
            assert await world.other.kept(R1, "plan.json") == PLAN

        world.run(scenario())

    def test_a_name_stands_for_the_bytes_that_were_kept_last(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1"), [], {"plan.json": PLAN})
            await world.store.keep(R1, {"plan.json": b"new", "values/a": b"large"})
            assert await world.other.kept(R1, "plan.json") == b"new"
            assert await world.other.kept(R1, "values/a") == b"large"
            # What is no longer referred to is removed.
            assert await world.other.problems() == []

        world.run(scenario())

    def test_what_is_not_there_is_told_by_name(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1"), [], {"plan.json": PLAN})
            await world.store.create_run(new_run("r2"), [])
            with pytest.raises(ContentMissing, match=r"workflow\.yaml"):
                await world.store.kept(R1, "workflow.yaml")
            with pytest.raises(ContentMissing):
                await world.store.kept(R2, "plan.json")
            assert await world.store.list_kept(R2) == []
            unknown = RunId("unknown")
            for refused in (
                world.store.kept(unknown, "plan.json"),
                world.store.list_kept(unknown),
                world.store.keep(unknown, {"a": b"b"}),
            ):
                with pytest.raises(RunNotFound):
                    await refused
            with pytest.raises(InvalidId):
                await world.store.keep(R1, {"good": b"", "bad\0": b""})
            with pytest.raises(ContentMissing):
                await world.store.kept(R1, "good")

        world.run(scenario())

    def test_removing_a_run_leaves_what_another_run_has(self, world: World) -> None:
        async def scenario() -> None:
            for run_id in (R1, R2):
                await world.store.create_run(
                    new_run(run_id), [], {"plan.json": PLAN, f"of {run_id}": run_id.encode()}
                )
            await end(world, R1)
            await world.store.prune(R1)
            assert await world.other.kept(R2, "plan.json") == PLAN
            assert await world.other.kept(R2, "of r2") == b"r2"
            assert await world.other.problems() == []
            await end(world, R2)
            await world.store.prune(R2)
            assert await world.other.problems() == []

        world.run(scenario())

    def test_many_large_contents_come_back_byte_for_byte(self, world: World) -> None:
        async def scenario() -> None:
            await started(world.store)
            values = {f"values/{n}": bytes([n]) * 300_000 for n in range(50)}
            await world.store.keep(R1, values)
            assert {one.name: one.size for one in await world.other.list_kept(R1)} == dict.fromkeys(
                sorted(values), 300_000
            )
            assert [await world.other.kept(R1, name) for name in values] == list(values.values())

        world.run(scenario())
