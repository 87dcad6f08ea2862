"""Runs that a host loses to another, runs that only wait, and runs that a host leaves."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from podium.engines.run_host import RunHost
from podium.errors import StoreUnavailable
from podium.log.ids import RunId
from podium.log.leases import Lease
from podium.log.times import Timestamp
from podium.stores.sqlite import SqliteStore
from tests.unit.hosting.hosts import (
    POOL,
    Ends,
    Work,
    contract,
    parts_of,
    request,
    serving,
    until,
    workflow,
)
from tests.unit.hosting.test_host_telemetry import Recorded

ASKS = "  - name: ask\n    approval: {message: Continue?}\n"


def test_a_run_that_waits_for_a_person_leaves_its_slot(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, ends = await SqliteStore.open(tmp_path / "podium.db"), Ends()
        host = RunHost(parts_of(store, tmp_path), pool=POOL, slots=1, view=ends)
        async with serving(host):
            await host.create(request(workflow(ASKS), run_id="asks"))
            await until(lambda: "asks" in ends.started_runs and host.free == 1)
            await host.create(request(contract(), run_id="works"))
            await ends.wait(1)
        assert ends.ended_runs == {"works": "RunCompleted"}
        assert await store.held_lease(RunId("asks")) is None
        await store.close()

    asyncio.run(scenario())


def test_a_host_that_gets_many_runs_that_only_wait_holds_few_of_them_at_a_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, runs = await SqliteStore.open(tmp_path / "podium.db"), 400
        most = 0

        class Counts(Ends):
            def started(self, run_id: RunId) -> None:
                nonlocal most
                super().started(run_id)
                most = max(most, host.running)

        ends = Counts()
        host = RunHost(parts_of(store, tmp_path), pool=POOL, view=ends)
        plan = workflow(ASKS)
        for number in range(runs):
            await host.create(request(plan, run_id=f"r{number}"))
        async with serving(host):
            await until(lambda: len(ends.started_runs) == runs and host.free == host.slots)
        assert most <= host.slots // 4
        await store.close()

    asyncio.run(scenario())


def test_runs_that_cannot_be_parked_hold_up_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        store, ends = await SqliteStore.open(tmp_path / "podium.db"), Ends()
        park = store.park

        async def refuse_some(lease: Lease, *, after: int, until: Timestamp | None) -> bool:
            if lease.run_id.startswith("kept"):
                raise StoreUnavailable("not this one")
            return await park(lease, after=after, until=until)

        monkeypatch.setattr(store, "park", refuse_some)
        host = RunHost(parts_of(store, tmp_path), pool=POOL, view=ends)
        for name in [f"kept-{number}" for number in range(20)] + [f"r{number}" for number in range(40)]:
            await host.create(request(workflow(ASKS), run_id=name))
        async with serving(host):
            await until(lambda: len(ends.started_runs) == 60 and host.running == 20)
        await store.close()

    asyncio.run(scenario())


def test_a_host_that_only_gets_runs_that_work_fills_its_slots(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "podium.db")
        never = asyncio.Event()

        async def gate(_run_id: str) -> None:
            await never.wait()

        Work.gate = staticmethod(gate)
        host = RunHost(parts_of(store, tmp_path), pool=POOL)
        plan = contract()
        for number in range(host.slots + 10):
            await host.create(request(plan, run_id=f"r{number}"))
        async with serving(host):
            await until(lambda: len(Work.calls) == host.slots)
        await store.close()

    asyncio.run(scenario())


def test_a_host_whose_run_was_taken_over_writes_nothing_more_to_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, ends = await SqliteStore.open(tmp_path / "podium.db"), Ends()
        gate = asyncio.Event()

        async def wait(_run_id: str) -> None:
            await gate.wait()

        Work.gate = staticmethod(wait)
        recorded = Recorded()
        parts = replace(parts_of(store, tmp_path, lease=0.6), telemetry=recorded)
        host = RunHost(parts, pool=POOL, view=ends)
        await host.create(request(contract(), run_id="r1"))
        async with serving(host):
            await until(lambda: Work.calls == ["r1"])
            assert recorded.counts["podium_lease_lapses_total",] == 0
            held = await store.held_lease(RunId("r1"))
            assert held is not None
            owner = held.lease.owner
            taken = await store.claim(RunId("r1"), owner="other", ttl=None, takes_over=owner)
            assert taken is not None
            await until(lambda: host.free == host.slots)
            assert recorded.counts["podium_lease_lapses_total",] == 1
            head = (await store.get_run(RunId("r1"))).head
            gate.set()
            await asyncio.sleep(0)
            assert (await store.get_run(RunId("r1"))).head == head
        assert ends.ended_runs == {}
        await store.close()

    asyncio.run(scenario())


def test_a_host_that_was_frozen_before_its_first_renewal_does_not_rely_on_its_lease(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, ends = await SqliteStore.open(tmp_path / "podium.db"), Ends()
        relied_on: list[bool] = []

        async def freeze(run_id: str) -> None:
            time.sleep(1.0)
            driver = host._runs[RunId(run_id)].driver
            assert driver is not None
            relied_on.append(driver.is_leased())

        Work.gate = staticmethod(freeze)
        host = RunHost(parts_of(store, tmp_path, lease=0.9), pool=POOL, view=ends)
        await host.create(request(contract(), run_id="r1"))
        async with serving(host):
            await ends.wait(1)
        assert relied_on == [False]
        assert ends.ended_runs == {"r1": "RunCompleted"}
        await store.close()

    asyncio.run(scenario())


class SlowToAnswer(SqliteStore):
    """Claims runs, and answers when the test says so."""

    answers: asyncio.Event

    async def claim_of_pool(self, *arguments: Any, **options: Any) -> Any:
        claimed = await super().claim_of_pool(*arguments, **options)
        self.has_claimed = bool(claimed)
        await self.answers.wait()
        return claimed


def test_runs_that_are_claimed_while_the_host_is_stopped_are_free_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await SlowToAnswer.open(tmp_path / "podium.db")
        assert isinstance(store, SlowToAnswer)
        store.answers, store.has_claimed = asyncio.Event(), False
        host, stop = RunHost(parts_of(store, tmp_path), pool=POOL), asyncio.Event()
        await host.create(request(contract(), run_id="r1"))
        serving = asyncio.create_task(host.serve(stop, drain=0))
        await until(lambda: store.has_claimed)
        stop.set()
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.05, store.answers.set)
        await asyncio.wait_for(serving, 60)
        assert await store.held_lease(RunId("r1")) is None
        await store.close()

    asyncio.run(scenario())


def test_runs_that_are_claimed_while_the_host_is_stopped_do_not_wait_for_those_that_drain(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        store = await SlowToAnswer.open(tmp_path / "podium.db")
        assert isinstance(store, SlowToAnswer)
        store.answers, store.has_claimed, opened = asyncio.Event(), False, asyncio.Event()
        store.answers.set()

        async def gate(_run_id: str) -> None:
            await opened.wait()

        Work.gate = staticmethod(gate)
        host, stop = RunHost(parts_of(store, tmp_path), pool=POOL), asyncio.Event()
        await host.create(request(contract(), run_id="r1"))
        serving = asyncio.create_task(host.serve(stop, drain=60))
        await until(lambda: Work.calls)
        store.answers.clear()
        store.has_claimed = False
        await host.create(request(contract(), run_id="r2"))
        await until(lambda: store.has_claimed)
        stop.set()
        asyncio.get_running_loop().call_later(0.05, store.answers.set)
        async with asyncio.timeout(10):
            while await store.held_lease(RunId("r2")) is not None:
                await asyncio.sleep(0.01)
        assert await store.held_lease(RunId("r1")) is not None
        opened.set()
        await asyncio.wait_for(serving, 60)
        await store.close()

    asyncio.run(scenario())


def test_a_defect_is_reported_without_the_values_in_its_text(tmp_path: Path, caplog: Any) -> None:
    class Broken(Ends):
        def ended(self, run_id: RunId, event_type: str) -> None:
            super().ended(run_id, event_type)
            raise KeyError("hunter2")

    async def scenario() -> None:
        store, ends = await SqliteStore.open(tmp_path / "podium.db"), Broken()
        host = RunHost(parts_of(store, tmp_path), pool=POOL, view=ends)
        await host.create(request(contract(), run_id="r1"))
        async with serving(host):
            await until(lambda: ends.troubles)
        assert "INTERNAL_ERROR: KeyError in test_lost_and_parked.py" in ends.troubles[0]
        assert "hunter2" not in ends.troubles[0] + caplog.text
        await store.close()

    asyncio.run(scenario())
