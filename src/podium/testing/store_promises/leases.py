"""Ownership of runs and attempts."""

import pytest

from podium.errors import RunNotFound, StaleFence
from podium.log.leases import HeldLease, Lease, attempt_name
from podium.ports.store import Limit
from podium.testing.events import event, new_run
from podium.testing.store_promises.world import R1, TTL, World, started, types_in

_TEN_YEARS = 3650 * 86_400.0


class LeasePromises:
    """Which process may write."""

    def test_a_lease_has_one_holder(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1"), [])
            assert await world.store.claim(R1, owner="a", ttl=TTL) is not None
            assert await world.other.claim(R1, owner="b", ttl=TTL) is None
            assert await world.other.claim(R1, owner="A", ttl=None) is None

        world.run(scenario())

    @pytest.mark.parametrize("attempt", ["", attempt_name("build", 1)])
    def test_the_owner_of_a_lease_gets_it_again_with_its_generation(self, world: World, attempt: str) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1"), [])
            first = await world.store.claim(R1, owner="a", ttl=TTL, attempt=attempt)
            assert first is not None
            await world.store.set_limit(Limit("default", "tenant", "default", 1))
            world.pass_time(20)
            again = await world.other.claim(R1, owner="a", ttl=TTL, attempt=attempt)
            assert again is not None
            assert (again.owner, again.fence) == ("a", first.fence)
            world.pass_time(20)
            assert await world.store.claim(R1, owner="b", ttl=TTL, attempt=attempt) is None
            await world.store.release(again)
            anew = await world.store.claim(R1, owner="a", ttl=TTL, attempt=attempt)
            assert anew is not None
            assert anew.fence.generation > first.fence.generation

        world.run(scenario())

    def test_a_lapsed_lease_is_new_to_its_owner_too(self, world: World) -> None:
        async def scenario() -> None:
            first = await started(world.store)
            world.pass_time(31)
            again = await world.other.claim(R1, owner="driver", ttl=TTL)
            assert again is not None
            assert again.fence.generation > first.fence.generation

        world.run(scenario())

    def test_a_lease_without_a_ttl_never_lapses(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1"), [event("r1", "RunQueued")])
            lease = await world.store.claim(R1, owner="temporal/podium-r1", ttl=None)
            assert lease is not None
            assert lease.expires_at is None
            await world.store.append(R1, [event("r1", "RunStarted")], fence=lease.fence)
            world.pass_time(_TEN_YEARS)
            assert await world.other.claim(R1, owner="b", ttl=TTL) is None
            assert await world.other.held_lease(R1) == HeldLease(lease=lease, is_live=True)
            assert await world.store.renew(lease, ttl=None) == lease
            assert await world.other.claim(R1, owner="temporal/podium-r1", ttl=None) == lease
            await world.other.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            assert await world.store.held_lease(R1) is None

        world.run(scenario())

    def test_a_lease_can_get_and_lose_its_ttl(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            endless = await world.store.renew(lease, ttl=None)
            assert endless is not None
            world.pass_time(_TEN_YEARS)
            limited = await world.other.claim(R1, owner="driver", ttl=TTL)
            assert limited is not None
            assert limited.expires_at is not None
            assert limited.fence == lease.fence
            world.pass_time(31)
            assert await world.store.claim(R1, owner="b", ttl=TTL) is not None

        world.run(scenario())

    def test_a_lapsed_lease_can_be_taken_and_its_old_holder_is_fenced_off(self, world: World) -> None:
        async def scenario() -> None:
            old = await started(world.store)
            world.pass_time(31)
            new = await world.other.claim(R1, owner="successor", ttl=TTL)
            assert new is not None
            assert new.fence.generation > old.fence.generation
            with pytest.raises(StaleFence):
                await world.store.append(
                    R1, [event("r1", "RunStarted"), event("r1", "StepStarted", "a")], fence=old.fence
                )
            assert await types_in(world.store) == ["RunQueued", "RunStarted"]
            # What is in the log already is returned even to the old holder.
            again = await world.store.append(R1, [event("r1", "RunStarted")], fence=old.fence)
            assert again[0].duplicate
            await world.other.append(R1, [event("r1", "StepStarted", "a")], fence=new.fence)
            assert await world.store.renew(old, ttl=TTL) is None

        world.run(scenario())

    def test_a_renewed_lease_does_not_lapse(self, world: World) -> None:
        async def scenario() -> None:
            lease: Lease | None = await started(world.store)
            for _ in range(5):
                world.pass_time(20)
                assert lease is not None
                lease = await world.store.renew(lease, ttl=TTL)
            assert await world.other.claim(R1, owner="b", ttl=TTL) is None

        world.run(scenario())

    def test_a_lapsed_lease_cannot_be_renewed_for_its_slot_may_be_taken(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            world.pass_time(31)
            assert await world.store.renew(lease, ttl=TTL) is None
            # No other process has taken it, so its holder's events are still recorded.
            await world.store.append(R1, [event("r1", "StepCompleted", "a")], fence=lease.fence)
            assert await world.store.claim(R1, owner="driver", ttl=TTL) is not None

        world.run(scenario())

    def test_a_released_lease_is_free_and_its_holder_fenced_off(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            await world.store.release(lease)
            with pytest.raises(StaleFence):
                await world.store.append(R1, [event("r1", "StepStarted", "a")], fence=lease.fence)
            assert await world.store.renew(lease, ttl=TTL) is None
            successor = await world.other.claim(R1, owner="b", ttl=TTL)
            assert successor is not None
            assert successor.fence.generation > lease.fence.generation
            await world.store.release(lease)  # too late: another process has it
            await world.other.append(R1, [event("r1", "StepStarted", "a")], fence=successor.fence)

        world.run(scenario())

    def test_others_see_who_holds_a_lease_and_whether_it_has_lapsed(self, world: World) -> None:
        async def scenario() -> None:
            with pytest.raises(RunNotFound):
                await world.store.held_lease(R1)
            await world.store.create_run(new_run("r1"), [])
            assert await world.other.held_lease(R1) is None
            attempt = await world.store.claim(R1, owner="worker", ttl=TTL, attempt=attempt_name("a", 1))
            assert attempt is not None
            assert await world.other.held_lease(R1) is None
            lease = await world.store.claim(R1, owner="driver", ttl=TTL)
            assert lease is not None
            held = await world.other.held_lease(R1)
            assert held is not None
            assert (held.lease.owner, held.lease.fence, held.is_live) == ("driver", lease.fence, True)
            world.pass_time(31)
            lapsed = await world.other.held_lease(R1)
            assert lapsed is not None
            assert (lapsed.lease.owner, lapsed.is_live) == ("driver", False)
            # The lease that was observed is sufficient to release it for its holder, and for no later one.
            await world.other.release(lapsed.lease)
            assert await world.store.held_lease(R1) is None

        world.run(scenario())

    def test_without_a_lease_only_what_others_decided_can_be_recorded(self, world: World) -> None:
        async def scenario() -> None:
            await started(world.store)
            for allowed in (
                event("r1", "SignalAccepted", subject="s1"),
                event("r1", "SignalRejected", subject="s2"),
                event("r1", "AlertRaised", subject="CODE:1"),
                event("r1", "RunApproved"),
            ):
                await world.store.append(R1, [allowed])
            for refused in (
                event("r1", "RunCompleted"),
                event("r1", "StepStarted", "a"),
                event("r1", "TimerFired", subject="t"),
                event("r1", "MoonRose"),
            ):
                with pytest.raises(StaleFence):
                    await world.store.append(R1, [refused])
            assert (await world.store.get_run(R1)).head == 6

        world.run(scenario())

    def test_the_lease_of_an_attempt_is_for_the_events_of_that_attempt(self, world: World) -> None:
        async def scenario() -> None:
            await started(world.store)
            name = attempt_name("build", 2)
            lease = await world.store.claim(R1, owner="worker", ttl=TTL, attempt=name)
            assert lease is not None
            await world.store.append(R1, [event("r1", "StepStarted", "build", 2)], fence=lease.fence)
            for refused in (
                event("r1", "StepCompleted", "build", 1),
                event("r1", "StepCompleted", "test", 2),
                event("r1", "RunCompleted"),
            ):
                with pytest.raises(StaleFence):
                    await world.store.append(R1, [refused], fence=lease.fence)
            assert await world.store.claim(R1, owner="other", ttl=TTL, attempt=name) is None

        world.run(scenario())

    def test_the_end_of_a_run_gives_up_its_leases(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            with pytest.raises(StaleFence):
                await world.store.append(R1, [event("r1", "MoonRose")], fence=lease.fence)
            assert await world.store.claim(R1, owner="b", ttl=TTL) is not None

        world.run(scenario())
