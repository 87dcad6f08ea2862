"""Plans are published once, are found by their tenant alone, and never change."""

import pytest
from msgspec.structs import replace

from podium.errors import InvalidEvent, InvalidId
from podium.log.published_plans import PlanContent, PublishedPlan
from podium.ports.plan_source import PlanExists
from podium.testing.store_promises.world import World

AT = "2026-01-01T12:00:00.000000Z"
CONTENT = PlanContent(b'{"plan":1}\n\0\xff', b"steps: []")


class PublishedPlanPromises:
    def test_a_published_plan_is_found_by_its_id_its_version_and_its_hash(self, world: World) -> None:
        async def scenario() -> None:
            plan = _plan("release", "1.0.0")
            assert await world.store.plans.publish(plan, CONTENT) == plan
            plans = world.other.plans
            assert await plans.find("acme", "release") == plan
            assert await plans.find("acme", "release", "1.0.0") == plan
            assert await plans.find("acme", plan.sha256) == plan
            assert await plans.content("acme", plan.sha256) == CONTENT
            for wanted in (("release", "2.0.0"), ("nightly", None), ("rel\0", None), ("\ud800", None)):
                assert await plans.find("acme", *wanted) is None
            assert await plans.content("acme", "e" * 64) is None

        world.run(scenario())

    def test_a_plan_of_another_tenant_is_not_found(self, world: World) -> None:
        async def scenario() -> None:
            plan = _plan("release", "1.0.0")
            await world.store.plans.publish(plan, CONTENT)
            plans = world.other.plans
            assert await plans.find("other", "release") is None
            assert await plans.find("other", plan.sha256) is None
            assert await plans.content("other", plan.sha256) is None
            assert (await plans.page("other")).plans == ()
            assert (await plans.page("other", plan_id="release")).plans == ()
            assert not await plans.approve("other", plan.sha256, "ada", AT)
            assert await plans.find("acme", "release") == plan

        world.run(scenario())

    def test_a_version_that_was_published_never_changes(self, world: World) -> None:
        async def scenario() -> None:
            plan = _plan("release", "1.0.0")
            await world.store.plans.publish(plan, CONTENT)
            again = replace(plan, published_by="eve", published_at="2026-02-01T12:00:00.000000Z")
            assert await world.other.plans.publish(again, CONTENT) == plan
            with pytest.raises(PlanExists, match=r"1\.0\.0"):
                await world.other.plans.publish(replace(plan, sha256="f" * 64), PlanContent(b"{}", b""))
            assert await world.store.plans.find("acme", "release") == plan
            assert await world.store.plans.content("acme", plan.sha256) == CONTENT

        world.run(scenario())

    def test_pages_list_the_newest_version_of_each_plan_those_published_last_first(
        self, world: World
    ) -> None:
        async def scenario() -> None:
            for number, (name, version) in enumerate([("a", "1"), ("b", "1"), ("a", "2"), ("c", "1")]):
                await world.store.plans.publish(_plan(name, version, number), CONTENT)
            plans = world.other.plans
            first = await plans.page("acme", limit=2)
            assert _names(first.plans) == ["c@1", "a@2"]
            # One that is published in the meantime does not shift the next page.
            await world.store.plans.publish(_plan("d", "1", 9), CONTENT)
            second = await plans.page("acme", limit=2, cursor=first.cursor)
            assert (_names(second.plans), second.cursor) == (["b@1"], None)
            assert _names((await plans.page("acme", plan_id="a")).plans) == ["a@2", "a@1"]
            with pytest.raises(InvalidId):
                await plans.page("acme", cursor="1; DROP")

        world.run(scenario())

    def test_a_plan_is_approved_once(self, world: World) -> None:
        async def scenario() -> None:
            plan = _plan("release", "1.0.0")
            await world.store.plans.publish(plan, CONTENT)
            assert await world.store.plans.approve("acme", plan.sha256, "ada", AT)
            assert not await world.other.plans.approve("acme", plan.sha256, "eve", AT)
            assert not await world.other.plans.approve("acme", "e" * 64, "eve", AT)
            found = await world.other.plans.find("acme", "release")
            assert found == replace(plan, approved_at=AT, approved_by="ada")

        world.run(scenario())

    def test_a_plan_that_could_not_be_named_is_refused(self, world: World) -> None:
        async def scenario() -> None:
            for wrong in ({"plan_id": "a|b"}, {"plan_version": ""}, {"tenant_id": "a\0"}):
                with pytest.raises(InvalidId):
                    await world.store.plans.publish(replace(_plan("a", "1"), **wrong), CONTENT)
            with pytest.raises(InvalidEvent):
                await world.store.plans.publish(replace(_plan("a", "1"), sha256="abc"), CONTENT)
            assert (await world.other.plans.page("acme")).plans == ()

        world.run(scenario())


def _plan(name: str, version: str, number: int = 0) -> PublishedPlan:
    return PublishedPlan(
        tenant_id="acme",
        plan_id=name,
        plan_version=version,
        sha256=f"{number + 1:064x}",
        schema_version="v1.2",
        size_bytes=len(CONTENT.content),
        name="Release",
        published_at=AT,
        published_by="ada",
    )


def _names(plans: tuple[PublishedPlan, ...]) -> list[str]:
    return [f"{plan.plan_id}@{plan.plan_version}" for plan in plans]
