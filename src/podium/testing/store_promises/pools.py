"""Runs of pools: claimed by hosts, many at a time, in the order of their keys; renewed together; parked."""

import asyncio
from typing import Any

import pytest

from podium.errors import RunRefused
from podium.log.ids import RunId
from podium.log.runs import Backpressure
from podium.ports.store import Claimed, Limit, Store
from podium.testing.events import event, new_run
from podium.testing.store_promises.world import R1, TTL, World, ids_of


class PoolPromises:
    """Which runs of a pool are returned, and when."""

    def test_a_run_of_a_pool_is_only_for_hosts_of_that_pool(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            await store.create_run(new_run("mine", pool="p"), [])
            await store.create_run(new_run("theirs", pool="q"), [])
            await store.create_run(new_run("none"), [])
            claimed = await world.other.claim_of_pool("p", owner="w", ttl=TTL, limit=10)
            assert ids_of(claimed) == ["mine"]
            assert claimed[0].run.pool == "p"
            assert claimed[0].lease.owner == "w"
            assert await world.other.claim_of_pool("p", owner="w", ttl=TTL, limit=10) == []

        world.run(scenario())

    def test_a_started_run_of_a_pool_is_not_for_others_when_its_lease_has_lapsed(self, world: World) -> None:
        async def scenario() -> None:
            await _start(world.store, "r1")
            world.pass_time(31)
            assert await world.store.claim_of_pool("q", owner="w", ttl=TTL) == []
            [again] = await world.store.claim_of_pool("p", owner="w", ttl=TTL)
            assert again.run.identity.run_id == "r1"

        world.run(scenario())

    def test_a_host_gets_no_more_runs_than_it_asks_for_in_order_of_priority_then_age(
        self, world: World
    ) -> None:
        async def scenario() -> None:
            for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5), ("e", 0)):
                await world.store.create_run(new_run(name, priority=priority, pool="p"), [])
            first = await world.store.claim_of_pool("p", owner="w", ttl=TTL, limit=3)
            rest = await world.other.claim_of_pool("p", owner="x", ttl=TTL, limit=9)
            assert (ids_of(first), ids_of(rest)) == (["b", "d", "a"], ["c", "e"])

        world.run(scenario())

    def test_many_hosts_never_get_the_same_run(self, world: World) -> None:
        async def scenario() -> None:
            for number in range(40):
                await world.store.create_run(new_run(f"r{number}", pool="p"), [])

            async def host(store: Store, name: str) -> list[str]:
                got: list[str] = []
                while claimed := await store.claim_of_pool("p", owner=name, ttl=TTL, limit=3):
                    got += ids_of(claimed)
                return got

            both = (world.store, world.other)
            taken = await asyncio.gather(*(host(both[n % 2], f"w{n}") for n in range(6)))
            assert sorted(run_id for each in taken for run_id in each) == sorted(f"r{n}" for n in range(40))

        world.run(scenario())

    def test_runs_with_one_key_have_their_turns_by_age_and_keep_no_other_key_waiting(
        self, world: World
    ) -> None:
        async def scenario() -> None:
            store = world.store
            for name, key, priority in (("a1", "a", 0), ("a2", "a", 0), ("a3", "a", 9), ("b1", "b", 0)):
                limited = new_run(name, pool="p", priority=priority, concurrency_key=key, concurrency_limit=1)
                await store.create_run(limited, [])
            first = await store.claim_of_pool("p", owner="w", ttl=TTL, limit=10)
            assert ids_of(first) == ["a1", "b1"]
            assert await world.other.claim_of_pool("p", owner="x", ttl=TTL, limit=10) == []
            for expected in ("a2", "a3"):
                await _end(store, first[0])
                first = await world.other.claim_of_pool("p", owner="x", ttl=TTL, limit=10)
                assert ids_of(first) == [expected]

        world.run(scenario())

    def test_a_key_has_room_for_as_many_as_its_limit(self, world: World) -> None:
        async def scenario() -> None:
            for number in range(4):
                limited = new_run(f"r{number}", pool="p", concurrency_key="k", concurrency_limit=2)
                await world.store.create_run(limited, [])
            first = await world.store.claim_of_pool("p", owner="w", ttl=TTL, limit=10)
            assert ids_of(first) == ["r0", "r1"]
            await _end(world.store, first[1])
            assert ids_of(await world.store.claim_of_pool("p", owner="w", ttl=TTL, limit=10)) == ["r2"]

        world.run(scenario())

    def test_a_run_keeps_the_turn_of_its_key_without_a_holder(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            for name in ("a1", "a2"):
                limited = new_run(name, pool="p", concurrency_key="a", concurrency_limit=1)
                await store.create_run(limited, [])
            [first] = await store.claim_of_pool("p", owner="w", ttl=TTL, limit=10)
            await store.append(
                first.run.identity.run_id, [event("a1", "RunStarted")], fence=first.lease.fence
            )
            assert await store.park(first.lease, after=1, until="2999-01-01T00:00:00.000000Z")
            assert await store.claim_of_pool("p", owner="w", ttl=TTL, limit=10) == []

        world.run(scenario())

    def test_a_run_of_a_pool_waits_for_its_time_for_its_approval_and_for_limits(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            await store.set_limit(Limit("default", "plan", "nightly", 2))
            late: dict[str, Any] = {"backpressure": Backpressure.DELAY, "pool": "p"}
            await store.create_run(new_run("late", start_at="2999-01-01T00:00:00.000000Z", **late), [])
            await store.create_run(new_run("asks", needs_approval=True, pool="p"), [])
            for name in ("a", "b", "c"):
                await store.create_run(new_run(name, pool="p"), [])
            assert ids_of(await store.claim_of_pool("p", owner="w", ttl=TTL, limit=10)) == ["a", "b"]
            assert await store.claim_of_pool("p", owner="w", ttl=TTL, limit=10) == []

        world.run(scenario())

    def test_one_claim_takes_as_many_runs_as_several_limits_admit_in_order(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            left = await _start(store, "left", run={"plan_id": "a"})
            parked = await _start(store, "parked", run={"plan_id": "b"})
            assert await store.park(parked.lease, after=1, until="2000-01-01T00:00:00.000000Z")
            world.pass_time(31)
            for scope, name, most in (
                ("tenant", "default", 8),
                ("concurrency", "k", 1),
                ("project", "web", 1),
                ("plan", "a", 2),
                ("plan", "b", 2),
            ):
                await store.set_limit(Limit("default", scope, name, most))
            for name in ("a1", "a2", "a3", "b1", "b2", "k1", "k2", "c1", "c2", "c3", "c4"):
                key = {"concurrency_key": "k"} if name.startswith("k") else {}
                await store.create_run(new_run(name, run={"plan_id": name[0]}, pool="p", **key), [])
            for name in ("w1", "w2"):
                web = new_run(name, run={"plan_id": "w", "project_id": "web"}, pool="p", priority=1)
                await store.create_run(web, [])
            claimed = await store.claim_of_pool("p", owner="w", ttl=TTL, limit=20)
            assert ids_of(claimed) == ["left", "parked", "w1", "a1", "b1", "k1", "c1", "c2"]
            assert await world.other.claim_of_pool("p", owner="x", ttl=TTL, limit=20) == []
            await store.release(claimed[1].lease)
            assert ids_of(await world.other.claim_of_pool("p", owner="x", ttl=TTL, limit=20)) == ["parked"]
            assert left.lease.fence.generation < claimed[0].lease.fence.generation
            assert await store.remove_limit("default", "tenant", "default")
            assert ids_of(await store.claim_of_pool("p", owner="w", ttl=TTL, limit=20)) == ["c3", "c4"]

        world.run(scenario())

    def test_a_tenant_with_many_runs_in_a_pool_does_not_keep_another_waiting(self, world: World) -> None:
        async def scenario() -> None:
            for number in range(20):
                await world.store.create_run(new_run(f"a{number}", run={"tenant_id": "a"}, pool="p"), [])
            await world.store.create_run(new_run("b", run={"tenant_id": "b"}, pool="p"), [])
            claimed = await world.store.claim_of_pool("p", owner="w", ttl=TTL, limit=4)
            assert len(claimed) == 4
            assert "b" in ids_of(claimed)

        world.run(scenario())

    def test_a_host_gets_the_runs_of_its_tenants_only(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            for tenant in ("a", "b", "c"):
                left = new_run(f"left-{tenant}", run={"tenant_id": tenant}, pool="p")
                await store.create_run(left, [])
                [claimed] = await store.claim_of_pool("p", owner="gone", ttl=TTL, tenants=frozenset({tenant}))
                run_id = claimed.run.identity.run_id
                await store.append(run_id, [event(run_id, "RunStarted")], fence=claimed.lease.fence)
                parked = new_run(f"woken-{tenant}", run={"tenant_id": tenant}, pool="p")
                await store.create_run(parked, [])
                await store.append(
                    RunId(f"woken-{tenant}"), [event(f"woken-{tenant}", "SignalAccepted", subject="s")]
                )
                await store.create_run(new_run(f"new-{tenant}", run={"tenant_id": tenant}, pool="p"), [])
            world.pass_time(31)
            of_two = await world.other.claim_of_pool(
                "p", owner="w", ttl=TTL, limit=20, tenants=frozenset({"b", "c"})
            )
            kinds = ("left", "new", "woken")
            assert sorted(ids_of(of_two)) == sorted(f"{kind}-{tenant}" for kind in kinds for tenant in "bc")
            none = await store.claim_of_pool(
                "p", owner="w", ttl=TTL, limit=20, tenants=frozenset({"d", "\ud800"})
            )
            assert none == []
            rest = await store.claim_of_pool("p", owner="w", ttl=TTL, limit=20)
            assert sorted(ids_of(rest)) == ["left-a", "new-a", "woken-a"]

        world.run(scenario())

    # --- parked -----------------------------------------------------------------------------------

    def test_a_parked_run_is_claimed_when_its_time_has_come(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            later = await _start(store, "later")
            soon = await _start(store, "soon")
            assert await store.park(later.lease, after=1, until="2999-01-01T00:00:00.000000Z")
            assert await store.park(soon.lease, after=1, until="2000-01-01T00:00:00.000000Z")
            assert await store.held_lease(RunId("soon")) is None
            [claimed] = await world.other.claim_of_pool("p", owner="w", ttl=TTL, limit=10)
            assert (claimed.run.identity.run_id, claimed.may_start) == ("soon", True)
            assert claimed.lease.fence.generation > soon.lease.fence.generation

        world.run(scenario())

    def test_a_signal_wakes_a_parked_run_and_what_its_driver_writes_does_not(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            first = await _start(store, "r1")
            await store.append(R1, [event("r1", "StepScheduled", "a")], fence=first.lease.fence)
            assert await store.park(first.lease, after=2, until=None)
            assert await store.claim_of_pool("p", owner="w", ttl=TTL, limit=10) == []
            await world.other.append(R1, [event("r1", "SignalAccepted", subject="s")])
            [claimed] = await store.claim_of_pool("p", owner="w", ttl=TTL, limit=10)
            assert claimed.run.head == 3
            assert await store.park(claimed.lease, after=3, until=None)
            assert await store.claim_of_pool("p", owner="w", ttl=TTL, limit=10) == []

        world.run(scenario())

    def test_a_run_is_not_parked_over_a_signal_or_without_its_lease(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            first = await _start(store, "r1")
            await world.other.append(R1, [event("r1", "SignalAccepted", subject="s")])
            assert not await store.park(first.lease, after=1, until=None)
            held = await store.held_lease(R1)
            assert held is not None
            assert held.lease.fence == first.lease.fence
            world.pass_time(31)
            [second] = await store.claim_of_pool("p", owner="w", ttl=TTL)
            assert not await store.park(first.lease, after=2, until=None)
            assert (await store.held_lease(R1) or held).lease.fence == second.lease.fence

        world.run(scenario())

    def test_a_signal_lets_a_host_look_at_a_run_that_may_not_start_yet(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            for name in ("a1", "a2"):
                limited = new_run(name, pool="p", concurrency_key="a", concurrency_limit=1)
                await store.create_run(limited, [])
            await store.create_run(new_run("asks", needs_approval=True, pool="p"), [])
            await store.claim_of_pool("p", owner="w", ttl=TTL, limit=10)
            for name in ("a2", "asks"):
                await store.append(RunId(name), [event(name, "SignalAccepted", subject="s")])
            woken = await store.claim_of_pool("p", owner="w", ttl=TTL, limit=10)
            assert [(one.run.identity.run_id, one.may_start) for one in woken] == [
                ("a2", False),
                ("asks", False),
            ]
            for one in woken:
                await store.release(one.lease)
            assert await store.claim_of_pool("p", owner="w", ttl=TTL, limit=10) == []

        world.run(scenario())

    def test_a_parked_run_counts_toward_limits_and_continues_in_its_slot(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            await store.set_limit(Limit("default", "tenant", "default", 1))
            first = await _start(store, "r1")
            await store.create_run(new_run("next", pool="p"), [])
            await store.create_run(new_run("free", pool="q"), [])
            assert await store.park(first.lease, after=1, until=None)
            assert await world.other.claim_of_pool("p", owner="w", ttl=TTL, limit=10) == []
            assert await world.other.claim_of_pool("q", owner="w", ttl=TTL, limit=10) == []
            with pytest.raises(RunRefused):
                await store.create_run(new_run("no", backpressure=Backpressure.REJECT), [])
            await store.append(R1, [event("r1", "SignalAccepted", subject="s")])
            [woken] = await store.claim_of_pool("p", owner="w", ttl=TTL, limit=10)
            assert woken.run.identity.run_id == "r1"
            await _end(store, woken)
            assert ids_of(await store.claim_of_pool("p", owner="w", ttl=TTL, limit=10)) == ["next"]

        world.run(scenario())

    def test_a_run_whose_lease_has_lapsed_has_lost_its_slot_also_if_a_signal_wakes_it(
        self, world: World
    ) -> None:
        async def scenario() -> None:
            store = world.store
            await store.set_limit(Limit("default", "tenant", "default", 1))
            await _start(store, "r1")
            await store.create_run(new_run("next"), [])
            world.pass_time(31)
            assert await store.claim(RunId("next"), owner="w", ttl=TTL) is not None
            await store.append(R1, [event("r1", "SignalAccepted", subject="s")])
            assert await world.other.claim_of_pool("p", owner="w", ttl=TTL, limit=10) == []

        world.run(scenario())

    def test_a_run_that_waits_for_a_limit_can_be_ended(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            await store.set_limit(Limit("default", "tenant", "default", 1))
            await _start(store, "r1")
            await store.create_run(new_run("next", pool="p"), [])
            await store.append(RunId("next"), [event("next", "SignalAccepted", subject="s")])
            [woken] = await world.other.claim_of_pool("p", owner="w", ttl=TTL, limit=10)
            assert (woken.run.identity.run_id, woken.may_start) == ("next", False)

        world.run(scenario())

    # --- leases and heads -------------------------------------------------------------------------

    def test_leases_are_renewed_together_and_those_that_were_lost_are_left_out(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            for name in ("a", "b", "c"):
                await store.create_run(new_run(name, pool="p"), [])
            a, b, c = [one.lease for one in await store.claim_of_pool("p", owner="w", ttl=TTL, limit=3)]
            await store.release(b)
            world.pass_time(20)
            assert [one.run_id for one in await store.renew_all([a, b], ttl=TTL)] == ["a"]
            world.pass_time(20)
            # c has lapsed, and a has not.
            taken = await world.other.claim_of_pool("p", owner="x", ttl=TTL, limit=10)
            assert ids_of(taken) == ["b", "c"]
            renewed = await store.renew_all([a, b, c], ttl=TTL)
            assert [(one.run_id, one.fence, one.owner) for one in renewed] == [("a", a.fence, "w")]

        world.run(scenario())

    def test_runs_with_new_records_are_found_among_many(self, world: World) -> None:
        async def scenario() -> None:
            store = world.store
            for name in ("a", "b", "c"):
                await store.create_run(new_run(name, pool="p"), [event(name, "RunQueued")])
            heads = {RunId("a"): 1, RunId("b"): 0, RunId("c"): 1, RunId("gone"): 0}
            assert await world.other.moved(heads) == ["b"]
            await store.append(RunId("c"), [event("c", "SignalAccepted", subject="s")])
            assert sorted(await world.other.moved(heads)) == ["b", "c"]
            assert await world.other.moved({}) == []

        world.run(scenario())


async def _start(store: Store, run_id: str, *, run: dict[str, str] | None = None) -> Claimed:
    await store.create_run(new_run(run_id, run=run, pool="p"), [])
    [claimed] = await store.claim_of_pool("p", owner="first", ttl=TTL)
    await store.append(RunId(run_id), [event(run_id, "RunStarted")], fence=claimed.lease.fence)
    return claimed


async def _end(store: Store, claimed: Claimed) -> None:
    run_id = claimed.run.identity.run_id
    ended = [event(run_id, "RunStarted"), event(run_id, "RunCompleted")]
    await store.append(run_id, ended, fence=claimed.lease.fence)
