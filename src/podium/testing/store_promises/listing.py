"""Lists of runs: filters, labels, pages."""

from typing import Any

import pytest
from msgspec.structs import replace

from podium.log.labels import InvalidLabel
from podium.log.runs import RunQuery
from podium.log.transitions import RunStatus
from podium.testing.events import event, new_run
from podium.testing.store_promises.world import World, started

_YEAR = "2026-{:02}-01T00:00:00.000000Z"
_MANY = 1100


async def listed(world: World, query: RunQuery) -> list[str]:
    """The ids of all pages: one page may be short."""
    found, cursor, pages = list[str](), query.cursor, 0
    while pages < 50:
        page = await world.other.runs.page("default", replace(query, cursor=cursor))
        assert len(page.runs) <= query.limit
        found += [run.identity.run_id for run in page.runs]
        cursor, pages = page.cursor, pages + 1
        if cursor is None:
            return found
    raise AssertionError(f"no end after {pages} pages")


async def _create(world: World, run_id: str, month: int = 1, **fields: Any) -> None:
    new = new_run(run_id, created_at=_YEAR.format(month), **fields)
    await world.store.create_run(new, [event(run_id, "RunQueued")])


class ListingPromises:
    """Every run that matches is listed once, newest first."""

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            (RunQuery(labels=(("team", "web"),)), ["d", "a"]),
            (RunQuery(labels=(("team", "web"), ("size", "größer als 1"))), ["d"]),
            (RunQuery(labels=(("team", "we"),)), []),
            (RunQuery(pool="gpu"), ["c", "b"]),
            (RunQuery(pool="gpu", labels=(("team", "core"),)), ["c"]),
            (RunQuery(text="NIGHT"), ["d", "c", "a"]),
            (RunQuery(text="B"), ["b"]),
            (RunQuery(text="%"), []),
            (RunQuery(text="request-of-c"), ["c"]),
            (RunQuery(id_prefix="b"), ["b"]),
            (RunQuery(id_prefix="B"), []),
            (RunQuery(id_prefix="_"), []),
            (RunQuery(id_prefix="ba"), []),
            (RunQuery(created_from=_YEAR.format(2)), ["d", "c", "b"]),
            (RunQuery(created_from=_YEAR.format(2), created_before=_YEAR.format(4)), ["c", "b"]),
            (RunQuery(created_before=_YEAR.format(2), labels=(("team", "web"),)), ["a"]),
            (RunQuery(plan_id="weekly", pool="gpu", statuses=frozenset({RunStatus.PENDING})), ["b"]),
            (RunQuery(statuses=frozenset({RunStatus.COMPLETED})), []),
        ],
        ids=lambda value: str(value)[:60] if isinstance(value, list) else "",
    )
    def test_runs_are_found_by_what_they_are(self, world: World, query: RunQuery, found: list[str]) -> None:
        async def scenario() -> None:
            await _create(world, "a", 1, labels={"team": "web"})
            await _create(world, "b", 2, run={"plan_id": "weekly"}, pool="gpu")
            await _create(world, "c", 3, labels={"team": "core"}, pool="gpu", run_request_id="request-of-c")
            await _create(world, "d", 4, labels={"team": "web", "size": "größer als 1"})
            await _create(world, "theirs", 4, labels={"team": "web"}, run={"tenant_id": "acme"})
            assert await listed(world, query) == found
            assert await listed(world, replace(query, limit=1)) == found

        world.run(scenario())

    def test_labels_come_back_as_they_were_given(self, world: World) -> None:
        async def scenario() -> None:
            labels = {"team": "web", "a.b/c-d_e": 'ü "quoted" \\'}
            await _create(world, "r1", labels=labels)
            await _create(world, "r2")
            assert (await world.other.runs.find("default", "r1")).labels == labels
            assert (await world.other.runs.find("default", "r2")).labels == {}

        world.run(scenario())

    @pytest.mark.parametrize(
        "labels",
        [
            {"": "x"},
            {"a b": "x"},
            {"-a": "x"},
            {"a" * 64: "x"},
            {"a": ""},
            {"a": "x" * 256},
            {"a": "line\nbreak"},
            {"a": "\0"},
            {"a": "\ud800"},
            {f"a{number}": "x" for number in range(33)},
        ],
        ids=[
            "no name",
            "space",
            "dash",
            "long name",
            "no value",
            "long value",
            "line",
            "nul",
            "half",
            "many",
        ],
    )
    def test_labels_that_no_store_may_keep_are_refused(self, world: World, labels: dict[str, str]) -> None:
        async def scenario() -> None:
            with pytest.raises(InvalidLabel):
                await _create(world, "r1", labels=labels)
            assert await listed(world, RunQuery()) == []

        world.run(scenario())

    def test_a_run_is_listed_where_it_was_created_and_pages_stay_valid(self, world: World) -> None:
        async def scenario() -> None:
            for month in (1, 3, 5, 7):
                await _create(world, f"r{month}", month)
            page = await world.other.runs.page("default", RunQuery(limit=2))
            assert [run.identity.run_id for run in page.runs] == ["r7", "r5"]
            await _create(world, "r8", 8)
            await _create(world, "r2", 2)
            assert await listed(world, RunQuery(limit=2, cursor=page.cursor)) == ["r3", "r2", "r1"]

        world.run(scenario())

    def test_runs_of_one_moment_are_listed_by_their_order_of_creation(self, world: World) -> None:
        async def scenario() -> None:
            for number in range(5):
                await _create(world, f"r{number}", labels={"team": "web"})
            everything = ["r4", "r3", "r2", "r1", "r0"]
            assert await listed(world, RunQuery(limit=2)) == everything
            assert await listed(world, RunQuery(limit=2, labels=(("team", "web"),))) == everything

        world.run(scenario())

    def test_few_runs_are_found_among_many(self, world: World) -> None:
        async def scenario() -> None:
            await _create(world, "first", labels={"team": "web", "kind": "rare"}, pool="gpu")
            for number in range(_MANY):
                labels = {"team": "web"} if number % 2 else {"kind": "rare"}
                await world.store.create_run(
                    new_run(f"r{number}", created_at=_YEAR.format(2), labels=labels, pool="cpu"), []
                )
            await started(world.store, "last")
            both = (("team", "web"), ("kind", "rare"))
            assert await listed(world, RunQuery(labels=both)) == ["first"]
            assert await listed(world, RunQuery(text="first")) == ["first"]
            assert await listed(world, RunQuery(pool="gpu", statuses=frozenset({RunStatus.PENDING}))) == [
                "first"
            ]
            assert await listed(world, RunQuery(statuses=frozenset({RunStatus.RUNNING}))) == ["last"]
            assert len(await listed(world, RunQuery(labels=both[:1], limit=500))) == _MANY // 2 + 1

        world.run(scenario())

    def test_the_labels_of_a_removed_run_find_nothing(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store, labels={"team": "web"})
            await world.store.append(lease.run_id, [event("r1", "RunCompleted")], fence=lease.fence)
            await world.store.prune(lease.run_id)
            assert await listed(world, RunQuery(labels=(("team", "web"),))) == []
            assert await world.store.problems() == []

        world.run(scenario())
