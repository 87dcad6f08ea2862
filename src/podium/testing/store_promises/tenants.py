"""Requests on behalf of a tenant."""

import pytest

from podium.errors import RunNotFound
from podium.log.runs import RunQuery
from podium.log.transitions import RunStatus
from podium.testing.events import event, new_run
from podium.testing.store_promises.world import World, started


class TenantPromises:
    """One tenant never sees another's runs."""

    def test_another_tenants_run_looks_like_one_that_does_not_exist(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(
                new_run("theirs", run={"tenant_id": "acme"}), [event("theirs", "RunQueued")]
            )
            messages = []
            for run_id in ("theirs", "missing"):
                with pytest.raises(RunNotFound) as refused:
                    await world.store.runs.find("default", run_id)
                messages.append(str(refused.value).replace(run_id, "X"))
            assert messages[0] == messages[1]
            assert (await world.store.runs.find("acme", "theirs")).identity.tenant_id == "acme"

        world.run(scenario())

    def test_runs_are_listed_newest_first_page_by_page(self, world: World) -> None:
        async def scenario() -> None:
            for number in range(7):
                await world.store.create_run(new_run(f"r{number}"), [])
            await world.store.create_run(new_run("theirs", run={"tenant_id": "acme"}), [])
            seen, cursor = [], None
            for _ in range(4):
                page = await world.other.runs.page("default", RunQuery(limit=3, cursor=cursor))
                seen += [run.identity.run_id for run in page.runs]
                cursor = page.cursor
                if cursor is None:
                    break
            assert seen == [f"r{number}" for number in range(6, -1, -1)]

        world.run(scenario())

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            (RunQuery(statuses=frozenset({RunStatus.RUNNING})), ["b"]),
            (RunQuery(statuses=frozenset({RunStatus.PENDING, RunStatus.RUNNING})), ["c", "b", "a"]),
            (RunQuery(plan_id="other"), ["c"]),
            (RunQuery(project_id="nowhere"), []),
            (RunQuery(environment_id="local"), ["c", "b", "a"]),
            (RunQuery(created_before="2000-01-01T00:00:00.000000Z"), []),
        ],
        ids=["one status", "two statuses", "plan", "project", "environment", "age"],
    )
    def test_runs_are_filtered(self, world: World, query: RunQuery, found: list[str]) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("a"), [])
            await started(world.store, "b")
            await world.store.create_run(new_run("c", run={"plan_id": "other"}), [])
            page = await world.store.runs.page("default", query)
            assert [run.identity.run_id for run in page.runs] == found

        world.run(scenario())
