"""A live lease that is passed from one owner to the next, and one that no process holds."""

import asyncio
from random import Random

import pytest

from podium.errors import StaleFence
from podium.log.engines import ConductorRunRef
from podium.log.ids import RunId
from podium.log.leases import IN_LINE, Lease, attempt_name
from podium.ports.store import Limit, Store
from podium.testing.events import event, new_run
from podium.testing.store_promises.world import R1, TTL, World, started

_PARKED = "conductor/podium-r1"
_TEN_YEARS = 3650 * 86_400.0


class TakingOverPromises:
    """A run that waits is parked: its lease belongs to no process and never lapses, until a worker takes it over."""

    @pytest.mark.parametrize("attempt", ["", attempt_name("build", 1)])
    def test_a_live_lease_is_taken_over_from_the_owner_that_is_named(
        self, world: World, attempt: str
    ) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1"), [event("r1", "RunQueued")])
            first = await world.store.claim(R1, owner="a", ttl=TTL, attempt=attempt)
            assert first is not None
            parked = await world.other.claim(R1, owner=_PARKED, ttl=None, attempt=attempt, takes_over="a")
            assert parked is not None
            assert (parked.owner, parked.expires_at) == (_PARKED, None)
            assert parked.fence.generation == first.fence.generation + 1
            # The previous owner can neither write nor renew it.
            with pytest.raises(StaleFence):
                await world.store.append(R1, [event("r1", "StepStarted", "build")], fence=first.fence)
            assert await world.store.renew(first, ttl=TTL) is None
            await world.store.release(first)
            world.pass_time(_TEN_YEARS)
            again = await world.store.claim(R1, owner="b", ttl=TTL, attempt=attempt, takes_over=_PARKED)
            assert again is not None
            assert again.fence.generation == parked.fence.generation + 1
            assert again.expires_at is not None
            await world.store.append(R1, [event("r1", "StepStarted", "build")], fence=again.fence)
            # The new duration counts.
            world.pass_time(31)
            assert await world.other.claim(R1, owner="c", ttl=TTL, attempt=attempt) is not None

        world.run(scenario())

    def test_a_lease_is_not_taken_over_from_anybody_else(self, world: World) -> None:
        async def scenario() -> None:
            first = await started(world.store)
            for wrong in ("", "x", "Driver", "driver ", "driv%"):
                assert await world.other.claim(R1, owner="b", ttl=TTL, takes_over=wrong) is None
            # The owner itself only renews it, whatever owner it names.
            for named in ("x", "driver"):
                again = await world.other.claim(R1, owner="driver", ttl=TTL, takes_over=named)
                assert again is not None
                assert again.fence == first.fence
            # A lease that is free, or has lapsed, is claimed as usual.
            await world.store.release(first)
            second = await world.store.claim(R1, owner="b", ttl=TTL, takes_over="driver")
            assert second is not None
            world.pass_time(31)
            third = await world.store.claim(R1, owner="c", ttl=TTL, takes_over="driver")
            assert third is not None
            assert third.fence.generation == second.fence.generation + 1

        world.run(scenario())

    def test_of_many_that_take_over_at_the_same_time_one_succeeds(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1"), [])
            lease = await world.store.claim(R1, owner=_PARKED, ttl=None)
            assert lease is not None
            both = (world.store, world.other)

            async def take(number: int) -> Lease | None:
                store = both[number % 2]
                return await store.claim(R1, owner=f"w{number}", ttl=TTL, takes_over=_PARKED)

            for generation in (2, 4, 6):
                answers = await asyncio.gather(*(take(number) for number in range(8)))
                (won,) = [answer for answer in answers if answer is not None]
                assert won.fence.generation == generation
                assert await world.store.claim(R1, owner=_PARKED, ttl=None, takes_over=won.owner) is not None

        world.run(scenario())

    def test_a_run_that_is_taken_over_keeps_its_slot_and_a_lapsed_one_needs_one(self, world: World) -> None:
        async def scenario() -> None:
            for name in ("r1", "r2"):
                await world.store.create_run(new_run(name, concurrency_key="k"), [])
            first = await world.store.claim(R1, owner="a", ttl=TTL, slots=1)
            assert first is not None
            # Both limits are reached now, and another run waits in the queue.
            await world.store.set_limit(Limit("default", "concurrency", "k", 1))
            place = await world.store.claim(RunId("r2"), owner="w", ttl=TTL, attempt=IN_LINE)
            assert place is not None
            parked = await world.other.claim(R1, owner=_PARKED, ttl=None, slots=1, takes_over="a")
            assert parked is not None
            line = await world.store.slot_line(R1)
            assert ([one.run_id for one in line.holders], [one.run_id for one in line.waiting]) == (
                ["r1"],
                ["r2"],
            )
            assert await world.store.claim(RunId("r2"), owner="w", ttl=TTL, slots=1) is None
            taken = await world.store.claim(R1, owner="b", ttl=TTL, slots=1, takes_over=_PARKED)
            assert taken is not None
            world.pass_time(31)
            assert await world.store.claim(RunId("r2"), owner="w", ttl=TTL, slots=1) is not None
            assert await world.store.claim(R1, owner="c", ttl=TTL, slots=1, takes_over="b") is None
            assert await world.store.claim(R1, owner="c", ttl=TTL, takes_over="b") is None

        world.run(scenario())

    def test_a_parked_run_is_held_for_every_one_that_looks_for_work(self, world: World) -> None:
        async def scenario() -> None:
            for name, status in (("r1", "RunStarted"), ("r2", "RunQueued")):
                engine = ConductorRunRef(
                    conductor_url="http://c", workflow_id=f"podium-{name}", run_id=RunId(name)
                )
                await world.store.create_run(new_run(name, engine=engine), [])
                lease = await world.store.claim(RunId(name), owner="a", ttl=TTL)
                assert lease is not None
                await world.store.append(RunId(name), [event(name, status)], fence=lease.fence)
                owner = f"conductor/podium-{name}"
                parked = await world.store.claim(RunId(name), owner=owner, ttl=None, takes_over="a")
                assert parked is not None
            world.pass_time(_TEN_YEARS)
            await world.store.set_limit(Limit("default", "tenant", "default", 2))
            await world.store.create_run(new_run("r3", pool="p"), [])
            assert await world.other.claim(RunId("r3"), owner="b", ttl=TTL) is None
            assert await world.other.claim_of_pool("p", owner="b", ttl=TTL) == []
            held = await world.other.held_lease(R1)
            assert held is not None
            assert (held.lease.owner, held.lease.expires_at, held.is_live) == (_PARKED, None, True)
            # The end of a parked run frees its slot.
            await world.store.append(R1, [event("r1", "RunFailed")], fence=held.lease.fence)
            assert len(await world.other.claim_of_pool("p", owner="b", ttl=TTL)) == 1

        world.run(scenario())

    @pytest.mark.parametrize("seed", range(4))
    def test_runs_that_are_parked_and_taken_over_at_random_never_share_a_slot(
        self, world: World, seed: int
    ) -> None:
        """Workers take runs over, park them, let them lapse and release them, all with one concurrency key."""

        async def scenario() -> None:
            names = [RunId(f"r{number}") for number in range(4)]
            for name in names:
                await world.store.create_run(new_run(name, concurrency_key="k"), [])
            # The two ways to limit how many work concurrently.
            slots = 2 if seed % 2 else None
            if slots is None:
                await world.store.set_limit(Limit("default", "concurrency", "k", 2))
            seen: dict[RunId, list[int]] = {name: [] for name in names}
            both = (world.store, world.other)

            for turn in range(12):
                workers = (
                    _work(both[w % 2], seen, f"w{turn}.{w}", Random(f"{seed} {turn} {w}"), slots)
                    for w in range(6)
                )
                await asyncio.gather(*workers)
                line = await world.other.slot_line(names[0])
                assert len(line.holders) <= 2
                world.pass_time(Random(f"{seed} {turn}").choice((0, 10, 31)))
            for generations in seen.values():
                # Each was given to one owner, and they rise.
                assert sorted(set(generations)) == generations
            assert sum(map(len, seen.values())) > 10

        world.run(scenario())


async def _work(
    store: Store, seen: dict[RunId, list[int]], worker: str, random: Random, slots: int | None
) -> None:
    for number in range(5):
        name = random.choice(list(seen))
        owner, parked = f"{worker}.{number}", f"conductor/podium-{name}"
        lease = await store.claim(name, owner=owner, ttl=TTL, slots=slots, takes_over=parked)
        assert len((await store.slot_line(name)).holders) <= 2
        if lease is None:
            continue
        seen[name].append(lease.fence.generation)
        match random.randrange(4):
            case 0:
                await store.release(lease)
            case 1:
                pass  # it dies
            case _:
                assert (
                    await store.claim(name, owner=parked, ttl=None, slots=slots, takes_over=owner) is not None
                )
