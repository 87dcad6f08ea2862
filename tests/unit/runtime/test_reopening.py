"""A reopening is recorded only on top of the end that its caller saw."""

import asyncio
from datetime import timedelta

import pytest

from podium.log.ids import RunId
from podium.log.leases import Lease
from podium.log.runs import Run
from podium.runtime.ends import last_end
from podium.runtime.lock import RunLocked
from podium.runtime.reopening import Reopening
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event, new_run

R1 = RunId("r1")
TTL = timedelta(seconds=30)


class Failed:
    """A run that has failed, and what is done to it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)

    async def make(self) -> Run:
        await self.store.create_run(new_run("r1"), [event("r1", "RunQueued")])
        await self.end_again(1, "RunStarted")
        return await self.store.get_run(R1)

    async def lease(self, owner: str = "a") -> Lease:
        lease = await self.store.claim(R1, owner=owner, ttl=TTL)
        assert lease is not None
        return lease

    async def end_again(self, opening: int, *before: str) -> None:
        lease = await self.lease()
        writes = [*(event("r1", one) for one in before), event("r1", "RunFailed", attempt=opening)]
        await self.store.append(R1, writes, fence=lease.fence)

    async def reopening(self) -> Reopening:
        run = await self.store.get_run(R1)
        end = await last_end(self.store, run)
        return Reopening(self.store, self.clock, run, end.run_seq if end is not None else None)


def test_the_end_that_was_seen_is_reopened() -> None:
    async def scenario() -> None:
        failed = Failed()
        await failed.make()
        # What may follow an end does not hide it.
        await failed.store.append(R1, [event("r1", "AlertRaised", subject="X:1")])
        await (await failed.reopening()).carry_out(await failed.lease())
        assert (await failed.store.get_run(R1)).status == "RUNNING"

    asyncio.run(scenario())


def test_another_end_than_the_one_that_was_seen_is_not_reopened() -> None:
    async def scenario() -> None:
        failed = Failed()
        await failed.make()
        late = await failed.reopening()
        lease = await failed.lease("host:1:2:boot:3:x")
        await (await failed.reopening()).carry_out(lease)
        await failed.store.append(R1, [event("r1", "RunFailed", attempt=2)], fence=lease.fence)
        with pytest.raises(RunLocked, match="reopened by process 1 on host, it is now failed"):
            await late.check()
        with pytest.raises(RunLocked, match="reopened by process 1 on host"):
            await late.carry_out(await failed.lease("b"))
        assert [r.event_type for r in await failed.store.read(R1)].count("RunReopened") == 1

    asyncio.run(scenario())


@pytest.mark.rule("D31")
def test_a_run_that_was_open_when_it_was_looked_at_is_never_reopened() -> None:
    async def scenario() -> None:
        failed = Failed()
        await failed.store.create_run(new_run("r1"), [event("r1", "RunQueued")])
        lease = await failed.lease()
        await failed.store.append(R1, [event("r1", "RunStarted")], fence=lease.fence)
        reopening = await failed.reopening()
        assert not reopening.is_wanted
        await reopening.check()
        await failed.store.append(R1, [event("r1", "RunFailed")], fence=lease.fence)
        with pytest.raises(RunLocked, match=r"has ended \(failed\)"):
            await reopening.check()

    asyncio.run(scenario())


@pytest.mark.rule("D31")
def test_an_end_between_the_caller_s_look_and_the_engine_s_is_not_the_caller_s() -> None:
    async def scenario() -> None:
        failed = Failed()
        run = await failed.make()
        with pytest.raises(RunLocked, match=r"has ended \(failed\)"):
            await Reopening(failed.store, failed.clock, run, None, was_open=True).check(run)

    asyncio.run(scenario())


@pytest.mark.rule("G51")
def test_a_caller_that_never_saw_the_driver_learns_who_had_reopened_the_run() -> None:
    async def scenario() -> None:
        failed = Failed()
        await failed.make()
        lease = await failed.lease("host:1:2:boot:3:x")
        await (await failed.reopening()).carry_out(lease)
        await failed.store.append(R1, [event("r1", "RunFailed", attempt=2)], fence=lease.fence)
        run = await failed.store.get_run(R1)
        with pytest.raises(RunLocked, match=r"was driven by process 1 on host and has ended \(failed\)"):
            await Reopening(failed.store, failed.clock, run, None, was_open=True).check(run)

    asyncio.run(scenario())
