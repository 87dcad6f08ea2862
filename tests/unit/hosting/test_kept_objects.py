"""A host keeps nothing of a run that has ended, or that is parked."""

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from podium.engines.pool_run import PoolRun
from podium.engines.run_host import RunHost
from podium.plan.plan import Plan
from podium.runtime.drive import Driver
from podium.runtime.tasks.dispatch import RunTasks
from podium.runtime.tasks.order import CancelToken, TaskOrder
from podium.stores.memory import MemoryStore
from podium.testing.virtual_time import run_virtually
from tests.unit.hosting.hosts import POOL, Ends, Work, contract, parts_of, request, serving, until, workflow
from tests.unit.node_runs.running import LoopClock

RUNS = 20
ASKS = "  - name: ask\n    approval: {message: Continue?}\n"
OF_A_RUN = (PoolRun, Driver, RunTasks, TaskOrder, CancelToken)


def kept_objects() -> Counter[str]:
    return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, OF_A_RUN))


async def longer_than_a_renewal(_run_id: str) -> None:
    await asyncio.sleep(11)


@contextmanager
def without_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("plan", [contract(), workflow(ASKS)], ids=["ended", "parked"])
def test_a_run_that_left_its_slot_is_freed_without_the_garbage_collector(tmp_path: Path, plan: Plan) -> None:
    async def scenario() -> None:
        ends, gate = Ends(), asyncio.Event()

        async def hold_first(run_id: str) -> None:
            if run_id == "first":
                await gate.wait()

        Work.gate = staticmethod(hold_first)
        host = RunHost(parts_of(MemoryStore(LoopClock()), tmp_path), pool=POOL, view=ends)
        async with serving(host):
            # A host that is idle collects its garbage; this one is not.
            await host.create(request(contract(), run_id="first"))
            await until(lambda: "first" in Work.calls)
            before = kept_objects()
            for number in range(RUNS):
                await host.create(request(plan, run_id=f"r{number}"))
            await until(lambda: len(ends.started_runs) == RUNS + 1 and host.running == 1)
            assert kept_objects() == before
            gate.set()
            await until(lambda: "first" in ends.ended_runs)

    with without_collection():
        run_virtually(scenario())


def test_a_run_that_ended_after_its_lease_was_renewed_is_not_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        gc.collect()
        ends, before = Ends(), kept_objects()
        host = RunHost(parts_of(MemoryStore(LoopClock()), tmp_path), pool=POOL, view=ends)
        Work.gate = staticmethod(longer_than_a_renewal)
        async with serving(host):
            for number in range(RUNS):
                await host.create(request(contract(), run_id=f"r{number}"))
            await ends.wait(RUNS)
            await asyncio.sleep(1)
            gc.collect()
            assert kept_objects() == before

    run_virtually(scenario())
