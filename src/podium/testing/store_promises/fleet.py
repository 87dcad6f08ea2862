"""Waiting runs of pools, and the workers."""

import asyncio
from typing import Any

import pytest

from podium.errors import ConcurrencyLimit, InvalidId, RunNotFound
from podium.log.ids import RunId
from podium.log.runs import Backpressure
from podium.log.workers import WorkerReport
from podium.ports.store import Limit
from podium.testing.events import NOON, event, new_run
from podium.testing.store_promises.world import TTL, World

_DAY = 86_400


def report(worker_id: str, **fields: Any) -> WorkerReport:
    values: dict[str, Any] = {
        "host": "h",
        "pid": 7,
        "version": "1.2.3",
        "pools": ("p", "q"),
        "tenants": ("a",),
        "slots": 4,
        "running": 0,
        "started_at": NOON,
        **fields,
    }
    return WorkerReport(worker_id=worker_id, **values)


class FleetPromises:
    """Queues and workers."""

    def test_a_queue_is_listed_in_the_order_in_which_it_is_taken(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5)):
                await store.create_run(new_run(name, priority=priority, pool="p"), [])
            for other in (
                new_run("x", pool="q"),
                new_run("y", run={"tenant_id": "t"}, pool="p"),
                new_run("z"),
                new_run("asks", needs_approval=True, pool="p"),
            ):
                await store.create_run(other, [])
            line = await world.other.queued("default", "p")
            assert [(one.run.identity.run_id, one.position) for one in line] == [
                ("b", 1),
                ("d", 2),
                ("a", 3),
                ("c", 4),
            ]
            assert [await store.queue_position(RunId(one)) for one in "abcd"] == [3, 1, 4, 2]
            assert [await store.queue_position(RunId(one)) for one in ("z", "asks")] == [None, None]
            taken = await store.claim_of_pool(
                "p", owner="w", ttl=TTL, limit=4, tenants=frozenset({"default"})
            )
            assert [one.run.identity.run_id for one in taken] == ["b", "d", "a", "c"]

        world.run(scenario())

    def test_a_page_of_a_queue_stays_valid_when_runs_start_and_come(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            for name in ("a", "b", "c"):
                await store.create_run(new_run(name, pool="p"), [])
            first = await store.queued("default", "p", limit=2)
            assert [one.run.identity.run_id for one in first] == ["a", "b"]
            claimed = await store.claim_of_pool("p", owner="w", ttl=TTL, limit=2)
            for one in claimed:
                run_id = one.run.identity.run_id
                await store.append(run_id, [event(run_id, "RunStarted")], fence=one.lease.fence)
            await store.create_run(new_run("urgent", pool="p", priority=9), [])
            await store.create_run(new_run("d", pool="p"), [])
            rest = await world.other.queued("default", "p", after="b")
            assert [(one.run.identity.run_id, one.position) for one in rest] == [("c", 2), ("d", 3)]
            assert await store.queue_position(RunId("a")) is None

        world.run(scenario())

    def test_a_queue_shows_nothing_of_another_tenant(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            await store.create_run(new_run("theirs", run={"tenant_id": "t"}, pool="p"), [])
            assert await store.queued("default", "p") == []
            assert await store.pool_loads("default") == []
            for after in ("theirs", "missing"):
                with pytest.raises(RunNotFound):
                    await store.queued("default", "p", after=after)
            with pytest.raises(RunNotFound):
                await store.queue_position(RunId("missing"))

        world.run(scenario())

    def test_the_load_of_a_pool_says_what_its_open_runs_wait_for(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            for name in ("ended", "parked", "left", "running"):
                await store.create_run(new_run(name, pool="p"), [])
            claimed = await store.claim_of_pool("p", owner="w", ttl=TTL, limit=4)
            ended, parked, left, _ = claimed
            for one in claimed:
                run_id = one.run.identity.run_id
                await store.append(run_id, [event(run_id, "RunStarted")], fence=one.lease.fence)
            done = [event("ended", "RunCompleted")]
            await store.append(RunId("ended"), done, fence=ended.lease.fence)
            assert await store.park(parked.lease, after=1, until=None)
            await store.release(left.lease)
            late: dict[str, Any] = {"backpressure": Backpressure.DELAY, "pool": "p"}
            await store.create_run(new_run("late", start_at="2999-01-01T00:00:00.000000Z", **late), [])
            await store.create_run(new_run("asks", needs_approval=True, pool="p"), [])
            oldest = await store.create_run(new_run("first", pool="p"), [])
            world.pass_time(1)
            await store.create_run(new_run("second", pool="p"), [])
            await store.create_run(new_run("other", pool="a"), [])
            other, load = await world.other.pool_loads("default")
            assert (other.pool, other.waiting) == ("a", 1)
            assert (load.pool, load.waiting, load.delayed, load.unapproved) == ("p", 2, 1, 1)
            assert (load.running, load.parked, load.left) == (1, 1, 1)
            assert load.oldest_at == oldest.run.created_at

        world.run(scenario())

    def test_what_holds_a_queued_run_back_is_said(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            for name in ("k1", "k2"):
                limited = new_run(name, pool="p", concurrency_key="k", concurrency_limit=1)
                await store.create_run(limited, [])
            await store.create_run(new_run("plain", pool="p"), [])
            held = [await world.other.held_back_by(RunId(one)) for one in ("k1", "k2", "plain")]
            assert held[0] is None
            assert "'k'" in (held[1] or "")
            assert held[2] is None
            [first] = await store.claim_of_pool("p", owner="w", ttl=TTL)
            await store.set_limit(Limit("default", "plan", "nightly", 1))
            assert "nightly" in (await world.other.held_back_by(RunId("plain")) or "")
            # It is not held back: it is being started.
            assert await store.held_back_by(first.run.identity.run_id) is None
            with pytest.raises(RunNotFound):
                await store.held_back_by(RunId("missing"))

        world.run(scenario())

    def test_an_exclusive_run_is_refused_while_its_key_is_in_use(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            fields: dict[str, Any] = {"pool": "p", "concurrency_key": "k", "concurrency_limit": 2}
            for name in ("a", "b"):
                await store.create_run(new_run(name, is_exclusive=True, **fields), [])
            with pytest.raises(ConcurrencyLimit, match="held by a, b"):
                await world.other.create_run(new_run("c", is_exclusive=True, **fields), [])
            # The caller may not see runs of other projects.
            elsewhere = new_run("d", run={"project_id": "web"}, is_exclusive=True, **fields)
            with pytest.raises(ConcurrencyLimit, match="held by a run of another project"):
                await world.other.create_run(elsewhere, [])
            with pytest.raises(RunNotFound):
                await store.get_run(RunId("c"))
            again = await store.create_run(new_run("a", is_exclusive=True, **fields), [])
            assert again.duplicate
            theirs = new_run("t", run={"tenant_id": "t"}, is_exclusive=True, **fields)
            await store.create_run(theirs, [])
            [first] = await store.claim_of_pool("p", owner="w", ttl=TTL, tenants=frozenset({"default"}))
            ended = [event("a", "RunStarted"), event("a", "RunCompleted")]
            await store.append(RunId("a"), ended, fence=first.lease.fence)
            await store.create_run(new_run("c", is_exclusive=True, **fields), [])
            found = await world.other.open_of_key("default", "k")
            assert [one.identity.run_id for one in found] == ["b", "c"]

        world.run(scenario())

    def test_of_exclusive_runs_that_are_created_at_the_same_time_one_succeeds(self, world: World) -> None:
        async def scenario() -> None:
            fields: dict[str, Any] = {"pool": "p", "concurrency_key": "k", "concurrency_limit": 1}
            both = (world.store, world.other)
            made = [new_run(f"r{n}", is_exclusive=True, **fields) for n in range(6)]
            results = await asyncio.gather(
                *(both[n % 2].create_run(new, []) for n, new in enumerate(made)), return_exceptions=True
            )
            refused = [one for one in results if isinstance(one, ConcurrencyLimit)]
            assert len(refused) == 5
            assert len(await world.store.open_of_key("default", "k")) == 1

        world.run(scenario())

    def test_a_limit_that_is_removed_limits_nothing(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            await store.set_limit(Limit("default", "tenant", "default", 0))
            await store.create_run(new_run("a", pool="p"), [])
            assert await store.claim_of_pool("p", owner="w", ttl=TTL) == []
            assert not await store.remove_limit("t", "tenant", "default")
            assert await world.other.remove_limit("default", "tenant", "default")
            assert not await store.remove_limit("default", "tenant", "default")
            assert await store.limits("default") == []
            assert len(await store.claim_of_pool("p", owner="w", ttl=TTL)) == 1

        world.run(scenario())

    def test_workers_are_listed_as_they_reported_last(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            await store.report_worker(report("w2", tenants=None))
            assert not await store.report_worker(report("w1"))
            newer = report("w1", running=3)
            world.pass_time(30)
            await store.report_worker(newer)
            first, second = await world.other.workers()
            assert (first.report, first.is_draining) == (newer, False)
            assert second.report == report("w2", tenants=None)
            assert second.seen_seconds_ago >= 29 > first.seen_seconds_ago
            assert second.seen_at < first.seen_at
            await store.remove_worker("w2")
            await store.remove_worker("unknown")
            assert [one.report.worker_id for one in await world.other.workers()] == ["w1"]

        world.run(scenario())

    def test_a_worker_learns_with_its_next_report_that_it_is_to_drain(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            await store.report_worker(report("w1"))
            await store.report_worker(report("w2"))
            assert await world.other.drain_worker("w1")
            assert not await world.other.drain_worker("unknown")
            assert await store.report_worker(report("w1"))
            assert not await store.report_worker(report("w2"))
            assert [one.is_draining for one in await store.workers()] == [True, False]

        world.run(scenario())

    def test_a_worker_that_was_not_seen_for_a_day_is_forgotten(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            await store.report_worker(report("gone"))
            world.pass_time(_DAY + 60)
            assert [one.report.worker_id for one in await store.workers()] == ["gone"]
            await store.report_worker(report("new"))
            assert [one.report.worker_id for one in await world.other.workers()] == ["new"]

        world.run(scenario())

    def test_a_report_that_cannot_be_kept_is_refused(self, world: World) -> None:
        async def scenario() -> None:
            for fields in ({"worker_id": "\ud800"}, {"worker_id": "w", "host": "a\0b"}):
                with pytest.raises(InvalidId):
                    await world.store.report_worker(report(**fields))
            assert await world.store.workers() == []

        world.run(scenario())
