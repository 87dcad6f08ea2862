"""How a host claims runs while its store is slow, and what becomes of claims when it is stopped."""

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from podium.engines.run_host import RunHost
from podium.log.ids import RunId
from podium.ports.store import Claimed
from podium.stores.memory import MemoryStore
from podium.testing.virtual_time import run_virtually
from tests.torture.operating import LoopClock
from tests.unit.hosting.hosts import POOL, Ends, contract, parts_of, request, serving

OTHER_POOL = "q"


class SlowStore(MemoryStore):
    """Takes this many seconds of virtual time for the next call of a kind."""

    def __init__(self) -> None:
        super().__init__(LoopClock())
        self.claim_takes = 0.0
        self.freeing_takes = 0.0
        self.second_pool_takes = 0.0
        self.freed = 0

    async def free_memory(self) -> None:
        self.freed += 1
        await asyncio.sleep(self.freeing_takes)

    async def claim_of_pool(self, pool: str, **named: Any) -> list[Claimed]:
        takes, self.claim_takes = self.claim_takes, 0.0
        await asyncio.sleep(takes + (self.second_pool_takes if pool == OTHER_POOL else 0.0))
        return await super().claim_of_pool(pool, **named)


def host_on(store: SlowStore, folder: Path, ends: Ends | None = None, **named: Any) -> RunHost:
    parts = replace(parts_of(store, folder), clock=LoopClock())
    return RunHost(parts, pool=POOL, view=ends, **named)


@pytest.mark.parametrize("slow", ["claim_takes", "freeing_takes"])
def test_an_idle_host_does_not_pause_for_minutes_because_the_store_was_slow_once(
    tmp_path: Path, slow: str
) -> None:
    async def scenario() -> None:
        store, ends = SlowStore(), Ends()
        elsewhere = host_on(store, tmp_path)
        async with serving(host_on(store, tmp_path, ends)):
            await elsewhere.create(request(contract(), run_id="r1"))
            await ends.wait(1)
            setattr(store, slow, 9.0)
            await asyncio.sleep(15)
            assert store.freed == 1
            created = asyncio.get_running_loop().time()
            await elsewhere.create(request(contract(), run_id="r2"))
            while len(ends.ended_runs) < 2:
                await asyncio.sleep(0.1)
            assert asyncio.get_running_loop().time() - created < 6

    run_virtually(scenario())


def test_a_host_that_is_stopped_releases_what_it_claimed_from_the_first_pool(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = SlowStore()
        store.second_pool_takes = 3.0
        host = host_on(store, tmp_path, other_pools=(OTHER_POOL,))
        await host.create(request(contract(), run_id="r1"))
        async with serving(host, drain=10):
            await asyncio.sleep(0.5)
            held = await store.held_lease(RunId("r1"))
            assert held is not None
            assert held.is_live
        held = await store.held_lease(RunId("r1"))
        assert held is None or not held.is_live

    run_virtually(scenario())


def test_a_host_whose_program_ends_restores_the_garbage_collection(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = SlowStore()
        store.claim_takes = 60.0
        # `asyncio.run` cancels every task that is left, the claim included.
        hosting = asyncio.create_task(host_on(store, tmp_path).serve(asyncio.Event(), drain=0))
        await asyncio.sleep(1)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.gather(hosting, return_exceptions=True)

    before = gc.get_threshold()
    run_virtually(scenario())
    assert gc.get_threshold() == before
