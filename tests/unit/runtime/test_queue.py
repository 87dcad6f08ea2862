"""Runs that wait are started, each once."""

import asyncio
from datetime import timedelta

from podium.log.ids import RunId
from podium.ports.store import Claimed, Limit
from podium.runtime.queue import Dequeued, dequeue_and_start
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event, new_run

TTL = timedelta(seconds=30)


def test_every_run_that_may_start_is_started_once() -> None:
    async def scenario() -> None:
        store = MemoryStore(VirtualClock())
        await store.set_limit(Limit("default", "tenant", "default", 2))
        for name in ("a", "b", "c"):
            await store.create_run(new_run(name), [event(name, "RunQueued")])

        async def start(claimed: Claimed) -> bool:
            run_id = claimed.run.identity.run_id
            await store.append(run_id, [event(run_id, "RunStarted")], fence=claimed.lease.fence)
            return True

        first = await dequeue_and_start(store, start, owner="w", ttl=TTL)
        assert first == [Dequeued(RunId("a"), "STARTED"), Dequeued(RunId("b"), "STARTED")]
        assert await dequeue_and_start(store, start, owner="w", ttl=TTL) == []

    asyncio.run(scenario())


def test_a_run_that_cannot_be_started_is_tried_again_when_its_lease_has_lapsed() -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        store = MemoryStore(clock)
        for name in ("bad", "good"):
            await store.create_run(new_run(name), [])

        async def start(claimed: Claimed) -> bool:
            if claimed.run.identity.run_id == "bad":
                raise OSError("no worker")
            return False

        assert await dequeue_and_start(store, start, owner="w", ttl=TTL) == [
            Dequeued(RunId("bad"), "FAILED"),
            Dequeued(RunId("good"), "SKIPPED"),
        ]
        assert await dequeue_and_start(store, start, owner="w", ttl=TTL) == []
        clock.move(31)
        again = await dequeue_and_start(store, start, owner="w", ttl=TTL, most=1)
        assert again == [Dequeued(RunId("bad"), "FAILED")]

    asyncio.run(scenario())
