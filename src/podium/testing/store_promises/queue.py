"""The run queue: order, fairness, limits, recovery."""

import asyncio

import pytest

from podium.errors import PlanNotApproved, RunNotApproved, RunNotFound, RunRefused
from podium.log.engines import TemporalRunRef
from podium.log.ids import RunId
from podium.log.leases import IN_LINE
from podium.log.runs import Backpressure
from podium.log.transitions import RunStatus
from podium.ports.store import Limit, SlotLine, Store
from podium.testing.events import event, new_run
from podium.testing.store_promises.world import R1, TTL, World, started


class QueuePromises:
    """Which run starts next, and how many run at once."""

    def test_runs_start_in_order_of_priority_then_age_each_once(self, world: World) -> None:
        async def scenario() -> None:
            for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5)):
                await world.store.create_run(new_run(name, priority=priority), [event(name, "RunQueued")])
            order = []
            while claimed := await world.other.claim_next(owner="w", ttl=TTL):
                order.append(claimed.run.identity.run_id)
                assert claimed.lease.owner == "w"
            assert order == ["b", "d", "a", "c"]

        world.run(scenario())

    def test_many_reconcilers_never_start_a_run_twice(self, world: World) -> None:
        async def scenario() -> None:
            for number in range(30):
                await world.store.create_run(new_run(f"r{number}"), [])

            async def reconciler(store: Store, name: str) -> list[str]:
                got: list[str] = []
                while claimed := await store.claim_next(owner=name, ttl=TTL):
                    got.append(claimed.run.identity.run_id)
                return got

            both = (world.store, world.other)
            taken = await asyncio.gather(*(reconciler(both[n % 2], f"w{n}") for n in range(6)))
            started = [run_id for each in taken for run_id in each]
            assert sorted(started) == sorted(f"r{number}" for number in range(30))

        world.run(scenario())

    def test_a_claimed_run_that_was_never_started_is_handed_out_again(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1"), [])
            first = await world.store.claim_next(owner="dies", ttl=TTL)
            assert first is not None
            assert await world.store.claim_next(owner="w", ttl=TTL) is None
            world.pass_time(31)
            second = await world.store.claim_next(owner="w", ttl=TTL)
            assert second is not None
            assert second.lease.fence.generation > first.lease.fence.generation

        world.run(scenario())

    def test_a_delayed_run_waits_for_its_time(self, world: World) -> None:
        async def scenario() -> None:
            late = new_run("late", backpressure=Backpressure.DELAY, start_at="2999-01-01T00:00:00.000000Z")
            early = new_run("early", backpressure=Backpressure.DELAY, start_at="2000-01-01T00:00:00.000000Z")
            await world.store.create_run(late, [])
            await world.store.create_run(early, [])
            claimed = await world.store.claim_next(owner="w", ttl=TTL)
            assert claimed is not None
            assert claimed.run.identity.run_id == "early"
            assert await world.store.claim_next(owner="w", ttl=TTL) is None

        world.run(scenario())

    def test_a_run_that_needs_approval_waits_for_it(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1", needs_approval=True), [])
            assert await world.store.claim_next(owner="w", ttl=TTL) is None
            await world.store.append(R1, [event("r1", "RunApproved")])
            assert await world.store.claim_next(owner="w", ttl=TTL) is not None

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

    def test_a_tenant_with_many_runs_does_not_keep_another_waiting(self, world: World) -> None:
        async def scenario() -> None:
            for number in range(1000):
                await world.store.create_run(new_run(f"a{number}", run={"tenant_id": "a"}), [])
            await world.store.create_run(new_run("b", run={"tenant_id": "b"}), [])
            for _ in range(2):
                claimed = await world.store.claim_next(owner="w", ttl=TTL)
                assert claimed is not None
                lease, run_id = claimed.lease, claimed.run.identity.run_id
                ended = [event(run_id, "RunStarted"), event(run_id, "RunCompleted")]
                await world.store.append(run_id, ended, fence=lease.fence)
                if run_id == "b":
                    return
            raise AssertionError("the other tenant was not among the next two")

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
                within = new_run(f"r{number}", run={"project_id": "p"}, concurrency_key="k")
                await world.store.create_run(within, [])
            leases = []
            while claimed := await world.store.claim_next(owner="w", ttl=TTL):
                leases.append(claimed.lease)
            assert len(leases) == 2
            assert await world.other.claim(RunId("r3"), owner="w", ttl=TTL) is None
            await world.store.release(leases[0])
            assert await world.store.claim_next(owner="w", ttl=TTL) is not None
            assert await world.store.claim_next(owner="w", ttl=TTL) is None
            one_more = new_run(
                "no", run={"project_id": "p"}, concurrency_key="k", backpressure=Backpressure.REJECT
            )
            with pytest.raises(RunRefused) as refused:
                await world.store.create_run(one_more, [])
            assert refused.value.retry_after_seconds > 0
            with pytest.raises(RunNotFound):
                await world.store.get_run(RunId("no"))
            outside = {"tenant_id": "other", "project_id": "q", "plan_id": "z"}
            await world.store.create_run(new_run("out", run=outside), [])
            free = await world.store.claim_next(owner="w", ttl=TTL)
            assert free is not None
            assert free.run.identity.run_id == "out"

        world.run(scenario())

    def test_the_slot_of_a_dead_holder_is_free_and_recovery_needs_one(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.set_limit(Limit("default", "tenant", "default", 1))
            await started(world.store, "r1")
            await world.store.create_run(new_run("r2"), [])
            assert await world.store.claim_next(owner="w", ttl=TTL) is None
            world.pass_time(31)
            waiting = await world.store.claim_next(owner="w", ttl=TTL)
            assert waiting is not None
            assert waiting.run.identity.run_id == "r2"
            # The dead holder's run has to wait for a slot like everybody else.
            assert await world.store.claim_lapsed(owner="w", ttl=TTL) is None
            await world.store.release(waiting.lease)
            recovered = await world.store.claim_lapsed(owner="w", ttl=TTL)
            assert recovered is not None
            assert recovered.run.identity.run_id == "r1"

        world.run(scenario())

    def test_only_started_runs_without_a_holder_are_recovered(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("waiting"), [])
            lease = await started(world.store, "done")
            await world.store.append(RunId("done"), [event("done", "RunCompleted")], fence=lease.fence)
            await started(world.store, "live")
            assert await world.store.claim_lapsed(owner="w", ttl=TTL) is None
            world.pass_time(31)
            recovered = await world.store.claim_lapsed(owner="w", ttl=TTL)
            assert recovered is not None
            assert recovered.run.identity.run_id == "live"
            assert await world.store.claim_lapsed(owner="w", ttl=TTL) is None

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
            assert await world.other.claim_next(owner="w", ttl=TTL) is None
            await world.store.set_limit(Limit("default", "tenant", "default", 2))
            assert await world.other.claim(RunId("r2"), owner="w", ttl=TTL, slots=1) is None
            await world.store.release(lease)
            assert await world.other.claim(RunId("r2"), owner="w", ttl=TTL, slots=1) is not None

        world.run(scenario())

    def test_runs_are_claimed_for_the_engine_that_carries_them(self, world: World) -> None:
        async def scenario() -> None:
            engine = TemporalRunRef(namespace="default", workflow_id="podium-r1", run_id=R1)
            await world.store.create_run(new_run("r1", engine=engine), [])
            assert (await world.other.get_run(R1)).engine == engine
            found = await world.other.run_of_engine("temporal", "podium-r1")
            assert found is not None
            assert found.identity.run_id == "r1"
            assert await world.store.claim_next(owner="w", ttl=TTL) is None
            waiting = await world.store.claim_next(owner="t", ttl=TTL, provider="temporal")
            assert waiting is not None
            assert waiting.run.identity.run_id == "r1"
            await world.store.append(R1, [event("r1", "RunStarted")], fence=waiting.lease.fence)
            await started(world.store, "r2")
            world.pass_time(31)
            ours = await world.other.claim_lapsed(owner="w", ttl=TTL)
            assert ours is not None
            assert ours.run.identity.run_id == "r2"
            assert await world.other.claim_lapsed(owner="w", ttl=TTL) is None
            theirs = await world.other.claim_lapsed(owner="t", ttl=None, provider="temporal")
            assert theirs is not None
            assert theirs.run.identity.run_id == "r1"

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
            # A run with a higher limit of its own need not wait, but for those before it.
            assert await world.store.claim(RunId("r2"), owner="w", ttl=TTL, slots=2) is None
            assert await world.store.claim(RunId("r2"), owner="w", ttl=TTL, slots=3) is not None
            await world.store.release(holds)
            assert await world.store.claim(RunId("r3"), owner="w", ttl=TTL, slots=2) is None
            assert await world.store.claim(RunId("high"), owner="w", ttl=TTL, slots=2) is not None
            # The process that drove them, and those in line, are gone.
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
