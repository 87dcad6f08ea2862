"""The run queue: order, fairness, limits, recovery."""

import asyncio

import pytest

from podium.errors import PlanNotApproved, RunNotApproved, RunNotFound, RunRefused
from podium.log.ids import RunId
from podium.log.leases import IN_LINE
from podium.log.runs import Backpressure
from podium.log.transitions import RunStatus
from podium.ports.store import Limit, SlotLine
from podium.testing.events import event, new_run
from podium.testing.store_promises.world import R1, TTL, World, ids_of, started


class QueuePromises:
    """Which run starts next, and how many run concurrently."""

    def test_a_claimed_run_that_was_never_started_is_handed_out_again(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1", pool="p"), [])
            [first] = await world.store.claim_of_pool("p", owner="dies", ttl=TTL)
            assert await world.store.claim_of_pool("p", owner="w", ttl=TTL) == []
            world.pass_time(31)
            [second] = await world.store.claim_of_pool("p", owner="w", ttl=TTL)
            assert second.lease.fence.generation > first.lease.fence.generation

        world.run(scenario())

    def test_a_delayed_run_waits_for_its_time(self, world: World) -> None:
        async def scenario() -> None:
            for name, year in (("late", 2999), ("early", 2000)):
                start_at = f"{year}-01-01T00:00:00.000000Z"
                delayed = new_run(name, pool="p", backpressure=Backpressure.DELAY, start_at=start_at)
                await world.store.create_run(delayed, [])
            assert ids_of(await world.store.claim_of_pool("p", owner="w", ttl=TTL)) == ["early"]
            assert await world.store.claim_of_pool("p", owner="w", ttl=TTL) == []

        world.run(scenario())

    def test_a_run_that_needs_approval_waits_for_it(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1", needs_approval=True, pool="p"), [])
            assert await world.store.claim_of_pool("p", owner="w", ttl=TTL) == []
            await world.store.append(R1, [event("r1", "RunApproved")])
            assert ids_of(await world.store.claim_of_pool("p", owner="w", ttl=TTL)) == ["r1"]

        world.run(scenario())

    def test_a_run_that_needs_approval_starts_only_with_the_plan_that_was_approved(
        self, world: World
    ) -> None:
        async def scenario() -> None:
            store = world.store
            await store.create_run(new_run("r1", needs_approval=True), [])
            lease = await store.claim(R1, owner="w", ttl=TTL)
            assert lease is not None
            for start in (event("r1", "RunStarted"), event("r1", "RunStarted", planSha256="ab")):
                with pytest.raises(RunNotApproved):
                    await store.append(R1, [start], fence=lease.fence)
            await store.append(R1, [event("r1", "RunApproved", planSha256="ab")])
            for start in (event("r1", "RunStarted"), event("r1", "RunStarted", planSha256="ef")):
                with pytest.raises(PlanNotApproved):
                    await store.append(R1, [start], fence=lease.fence)
            run = await store.get_run(R1)
            assert (run.needs_approval, run.status, run.head) == (True, RunStatus.APPROVED, 1)
            await store.append(R1, [event("r1", "RunStarted", planSha256="ab")], fence=lease.fence)
            assert (await store.get_run(R1)).status is RunStatus.RUNNING

        world.run(scenario())

    def test_an_approval_that_names_no_plan_lets_no_run_start(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1", needs_approval=True), [event("r1", "RunApproved")])
            lease = await world.store.claim(R1, owner="w", ttl=TTL)
            assert lease is not None
            with pytest.raises(PlanNotApproved):
                await world.store.append(R1, [event("r1", "RunStarted")], fence=lease.fence)

        world.run(scenario())

    def test_a_run_that_ended_without_its_approval_is_not_reopened(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1", needs_approval=True), [])
            lease = await world.store.claim(R1, owner="w", ttl=TTL)
            assert lease is not None
            await world.store.append(R1, [event("r1", "RunFailed")], fence=lease.fence)
            lease = await world.store.claim(R1, owner="w", ttl=TTL)
            assert lease is not None
            with pytest.raises(RunNotApproved):
                await world.store.append(R1, [event("r1", "RunReopened", attempt=2)], fence=lease.fence)
            assert (await world.store.get_run(R1)).status is RunStatus.FAILED

        world.run(scenario())

    def test_a_run_is_not_created_as_started_without_the_approval_it_needs(self, world: World) -> None:
        async def scenario() -> None:
            started = event("r1", "RunStarted", planSha256="ab")
            with pytest.raises(RunNotApproved):
                await world.store.create_run(new_run("r1", needs_approval=True), [started])
            approved = event("r1", "RunApproved", planSha256="ab")
            await world.store.create_run(new_run("r1", needs_approval=True), [approved, started])
            assert (await world.store.get_run(R1)).status is RunStatus.RUNNING

        world.run(scenario())

    @pytest.mark.parametrize(
        ("scope", "name"),
        [("tenant", "default"), ("project", "p"), ("plan", "nightly"), ("concurrency", "k")],
    )
    def test_no_more_runs_are_live_than_a_limit_allows(self, world: World, scope: str, name: str) -> None:
        async def scenario() -> None:
            await world.store.set_limit(Limit("default", scope, name, 2))
            assert await world.other.limits("default") == [Limit("default", scope, name, 2)]
            for number in range(4):
                within = new_run(f"r{number}", run={"project_id": "p"}, concurrency_key="k", pool="p")
                await world.store.create_run(within, [])
            leases = [one.lease for one in await world.store.claim_of_pool("p", owner="w", ttl=TTL, limit=9)]
            assert len(leases) == 2
            assert await world.other.claim(RunId("r3"), owner="w", ttl=TTL) is None
            await world.store.release(leases[0])
            assert len(await world.store.claim_of_pool("p", owner="w", ttl=TTL, limit=9)) == 1
            assert await world.store.claim_of_pool("p", owner="w", ttl=TTL) == []
            one_more = new_run(
                "no", run={"project_id": "p"}, concurrency_key="k", backpressure=Backpressure.REJECT
            )
            with pytest.raises(RunRefused) as refused:
                await world.store.create_run(one_more, [])
            assert refused.value.retry_after_seconds > 0
            with pytest.raises(RunNotFound):
                await world.store.get_run(RunId("no"))
            outside = {"tenant_id": "other", "project_id": "q", "plan_id": "z"}
            await world.store.create_run(new_run("out", run=outside, pool="p"), [])
            assert ids_of(await world.store.claim_of_pool("p", owner="w", ttl=TTL)) == ["out"]

        world.run(scenario())

    def test_the_slot_of_a_dead_holder_is_free_and_recovery_needs_one(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.set_limit(Limit("default", "tenant", "default", 1))
            await started(world.store, "r1", pool="p")
            await world.store.create_run(new_run("r2", pool="q"), [])
            assert await world.store.claim_of_pool("q", owner="w", ttl=TTL) == []
            world.pass_time(31)
            [waiting] = await world.store.claim_of_pool("q", owner="w", ttl=TTL)
            assert waiting.run.identity.run_id == "r2"
            # The dead holder's run has to wait for a slot as any other.
            assert await world.store.claim_of_pool("p", owner="w", ttl=TTL) == []
            await world.store.release(waiting.lease)
            assert ids_of(await world.store.claim_of_pool("p", owner="w", ttl=TTL)) == ["r1"]

        world.run(scenario())

    def test_only_started_runs_without_a_holder_are_recovered(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("waiting", needs_approval=True, pool="p"), [])
            lease = await started(world.store, "done", pool="p")
            await world.store.append(RunId("done"), [event("done", "RunCompleted")], fence=lease.fence)
            await started(world.store, "live", pool="p")
            assert await world.store.claim_of_pool("p", owner="w", ttl=TTL, limit=9) == []
            world.pass_time(31)
            assert ids_of(await world.store.claim_of_pool("p", owner="w", ttl=TTL, limit=9)) == ["live"]
            assert await world.store.claim_of_pool("p", owner="w", ttl=TTL, limit=9) == []

        world.run(scenario())

    def test_a_lease_without_a_ttl_takes_a_slot(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.set_limit(Limit("default", "tenant", "default", 1))
            for name in ("r1", "r2"):
                await world.store.create_run(new_run(name, concurrency_key="k"), [])
            lease = await world.store.claim(R1, owner="temporal/podium-r1", ttl=None, slots=1)
            assert lease is not None
            world.pass_time(86_400)
            assert await world.other.slot_line(RunId("r2")) == SlotLine((lease,), ())
            assert await world.other.claim(RunId("r2"), owner="w", ttl=TTL) is None
            await world.store.set_limit(Limit("default", "tenant", "default", 2))
            assert await world.other.claim(RunId("r2"), owner="w", ttl=TTL, slots=1) is None
            await world.store.release(lease)
            assert await world.other.claim(RunId("r2"), owner="w", ttl=TTL, slots=1) is not None

        world.run(scenario())

    def test_runs_of_one_key_take_slots_in_line_and_each_applies_its_own_limit(self, world: World) -> None:
        async def scenario() -> None:
            names = ("r1", "r2", "high", "r3")
            for name in names:
                new = new_run(name, concurrency_key="k", priority=5 if name == "high" else 0)
                await world.store.create_run(new, [])
            await world.store.create_run(new_run("other", concurrency_key="other"), [])
            holds = await world.store.claim(RunId("r1"), owner="w", ttl=TTL, slots=1)
            assert holds is not None
            for name in names[1:]:
                place = await world.other.claim(RunId(name), owner="w", ttl=TTL, attempt=IN_LINE)
                assert place is not None
                assert await world.other.claim(RunId(name), owner="w", ttl=TTL, slots=1) is None
            line = await world.store.slot_line(RunId("r3"))
            assert [lease.run_id for lease in line.holders] == ["r1"]
            assert [lease.run_id for lease in line.waiting] == ["high", "r2", "r3"]
            assert await world.store.slot_line(RunId("other")) == SlotLine((), ())
            assert await world.store.claim(RunId("other"), owner="w", ttl=TTL, slots=1) is not None
            # A run with a higher limit of its own need not wait, except for those before it.
            assert await world.store.claim(RunId("r2"), owner="w", ttl=TTL, slots=2) is None
            assert await world.store.claim(RunId("r2"), owner="w", ttl=TTL, slots=3) is not None
            await world.store.release(holds)
            assert await world.store.claim(RunId("r3"), owner="w", ttl=TTL, slots=2) is None
            assert await world.store.claim(RunId("high"), owner="w", ttl=TTL, slots=2) is not None
            # The processes that drove them, and those in the queue, are gone.
            world.pass_time(31)
            assert await world.store.slot_line(RunId("r3")) == SlotLine((), ())
            assert await world.store.claim(RunId("r3"), owner="w", ttl=TTL, slots=1) is not None

        world.run(scenario())

    def test_no_more_runs_of_one_key_are_live_than_their_limit_however_many_ask(self, world: World) -> None:
        async def scenario() -> None:
            for number in range(12):
                await world.store.create_run(new_run(f"r{number}", concurrency_key="k"), [])
            both = (world.store, world.other)

            async def ask(number: int) -> bool:
                store = both[number % 2]
                return await store.claim(RunId(f"r{number}"), owner="w", ttl=TTL, slots=3) is not None

            assert sum(await asyncio.gather(*(ask(number) for number in range(12)))) == 3

        world.run(scenario())
