"""The run host: many runs in one process, each once and in its turn, and nothing left behind."""

import asyncio
from pathlib import Path

import pytest
import yaml

from podium import InvalidWorkflow, Workflow
from podium.engines.run_host import RunHost
from podium.errors import RunRequestConflict
from podium.log.ids import RunId
from podium.log.transitions import RunStatus
from podium.stores.sqlite import SqliteStore
from tests.unit.hosting.hosts import (
    CONTRACT,
    LIMIT,
    NODES,
    POOL,
    Ends,
    Work,
    contract,
    parts_of,
    request,
    serving,
    until,
)


async def open_store(folder: Path) -> SqliteStore:
    return await SqliteStore.open(folder / "podium.db")


def test_runs_of_a_pool_are_driven_without_a_directory(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, ends = await open_store(tmp_path), Ends()
        host = RunHost(parts_of(store, tmp_path), pool=POOL, view=ends)
        async with serving(host):
            plan = contract()
            for number in range(20):
                await host.create(request(plan, run_id=f"r{number}"))
            await ends.wait(20)
            await until(lambda: host.free == host.slots)
        assert set(ends.ended_runs.values()) == {"RunCompleted"}
        assert sorted(Work.calls) == sorted(f"r{number}" for number in range(20))
        assert [one for one in tmp_path.iterdir() if one.is_dir()] == []
        await store.close()

    asyncio.run(scenario())


def test_a_contract_is_the_same_as_text_and_as_data() -> None:
    assert Workflow.from_dict(yaml.safe_load(CONTRACT), nodes=NODES).plan == contract()
    with pytest.raises(InvalidWorkflow, match="second"):
        Workflow.from_dict(yaml.safe_load(CONTRACT), nodes=NODES[:1])


def test_a_repeated_request_is_the_same_run_and_other_content_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await open_store(tmp_path)
        host = RunHost(parts_of(store, tmp_path), pool=POOL)
        plan = contract()
        first = await host.create(request(plan, inputs={"event": {"a": 1}}, run_request_id="x"))
        again = await host.create(request(plan, inputs={"event": {"a": 1}}, run_request_id="x"))
        assert (first.duplicate, again.duplicate) == (False, True)
        assert again.run.identity == first.run.identity
        with pytest.raises(RunRequestConflict):
            await host.create(request(plan, inputs={"event": {"a": 2}}, run_request_id="x"))
        await store.close()

    asyncio.run(scenario())


def test_runs_with_one_key_follow_each_other_by_age_and_others_do_not_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, ends = await open_store(tmp_path), Ends()
        open_gate, under_way, most = asyncio.Event(), set[str](), 0

        async def gate(run_id: str) -> None:
            nonlocal most
            under_way.add(run_id)
            most = max(most, len({one for one in under_way if one.startswith("a")}))
            await open_gate.wait()
            under_way.discard(run_id)

        Work.gate = staticmethod(gate)
        host = RunHost(parts_of(store, tmp_path), pool=POOL, view=ends)
        plan = contract()
        for name in ("a1", "a2", "a3", "b1"):
            key = {"concurrency_key": name[0], "concurrency_limit": 1}
            await host.create(request(plan, run_id=name, **key))
        async with serving(host):
            await until(lambda: under_way == {"a1", "b1"})
            open_gate.set()
            await ends.wait(4)
        assert most == 1
        assert [one for one in Work.calls if one.startswith("a")] == ["a1", "a2", "a3"]
        await store.close()

    asyncio.run(scenario())


def test_a_host_drives_no_more_runs_than_it_has_slots(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, ends = await open_store(tmp_path), Ends()
        under_way, most = 0, 0

        async def gate(_run_id: str) -> None:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            under_way -= 1

        Work.gate = staticmethod(gate)
        host = RunHost(parts_of(store, tmp_path), pool=POOL, slots=3, view=ends)
        plan = contract()
        for number in range(12):
            await host.create(request(plan, run_id=f"r{number}"))
        async with serving(host):
            await ends.wait(12)
        assert 1 <= most <= 3
        await store.close()

    asyncio.run(scenario())


def test_a_run_whose_node_is_missing_ends_with_the_reason(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, ends = await open_store(tmp_path), Ends()
        creator = RunHost(parts_of(store, tmp_path), pool=POOL)
        await creator.create(request(contract(), run_id="r1"))
        host = RunHost(parts_of(store, tmp_path, nodes=()), pool=POOL, view=ends)
        async with serving(host):
            await ends.wait(1)
        run = await store.get_run(RunId("r1"))
        assert run.status is RunStatus.FAILED
        last = (await store.read(RunId("r1")))[-1]
        assert b"NODE_NOT_AVAILABLE" in last.payload
        await store.close()

    asyncio.run(scenario())


def test_a_stopped_host_leaves_its_runs_to_the_next_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, ends = await open_store(tmp_path), Ends()
        never = asyncio.Event()

        async def gate(_run_id: str) -> None:
            await never.wait()

        Work.gate = staticmethod(gate)
        first = RunHost(parts_of(store, tmp_path), pool=POOL)
        await first.create(request(contract(), run_id="r1"))
        async with serving(first):
            await until(lambda: Work.calls == ["r1"])
        Work.gate = None
        second = RunHost(parts_of(store, tmp_path), pool=POOL, view=ends)
        async with serving(second):
            await ends.wait(1)
        assert ends.ended_runs == {"r1": "RunCompleted"}
        assert Work.calls == ["r1", "r1"]
        await store.close()

    asyncio.run(scenario())


def test_a_host_that_is_stopped_lets_running_steps_end_and_starts_no_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, ends = await open_store(tmp_path), Ends()
        opened = asyncio.Event()

        async def gate(_run_id: str) -> None:
            await opened.wait()

        Work.gate = staticmethod(gate)
        first = RunHost(parts_of(store, tmp_path), pool=POOL)
        await first.create(request(contract(), run_id="r1"))
        async with serving(first, drain=LIMIT, starts_steps=False):
            await until(lambda: Work.calls == ["r1"])
            asyncio.get_running_loop().call_later(0.3, opened.set)
        ended = [one.event_type for one in await store.read(RunId("r1"))][-1]
        assert ended == "StepCompleted"
        assert await store.held_lease(RunId("r1")) is None
        async with serving(RunHost(parts_of(store, tmp_path), pool=POOL, view=ends)):
            await ends.wait(1)
        assert Work.calls == ["r1"]
        started = [one for one in await store.read(RunId("r1")) if one.event_type == "StepStarted"]
        assert [(one.step_id, one.engine_attempt_id) for one in started] == [("work", 1), ("second", 1)]
        await store.close()

    asyncio.run(scenario())


def test_a_tenant_with_a_long_queue_delays_another_by_one_run_at_most(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, ends = await open_store(tmp_path), Ends()
        plan = contract()
        host = RunHost(parts_of(store, tmp_path), pool=POOL, slots=2, view=ends)
        for number in range(60):
            await host.create(request(plan, run_id=f"many-{number}", tenant_id="large"))
        async with serving(host):
            await until(lambda: len(ends.ended_runs) >= 5)
            await host.create(request(plan, run_id="first", tenant_id="small"))
            started_before = len(ends.started_runs)
            await until(lambda: "first" in ends.started_runs)
            place = ends.started_runs.index("first")
        # Whoever was claimed before it was there, and at most one batch that was under way.
        assert place - started_before <= 2 * host.slots
        await store.close()

    asyncio.run(scenario())


def test_a_host_of_several_pools_starves_none_of_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, ends = await open_store(tmp_path), Ends()
        plan = contract()
        parts = parts_of(store, tmp_path)
        host = RunHost(parts, pool=POOL, other_pools=("q", "r"), slots=1, view=ends)
        for number in range(30):
            await host.create(request(plan, run_id=f"p{number}"))
        for pool in ("q", "r"):
            other = RunHost(parts, pool=pool)
            await other.create(request(plan, run_id=pool))
        async with serving(host):
            await until(lambda: {"q", "r"} <= set(ends.started_runs))
        assert max(ends.started_runs.index(one) for one in ("q", "r")) < 10
        await store.close()

    asyncio.run(scenario())


def test_a_host_drives_the_runs_of_its_tenants_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, ends = await open_store(tmp_path), Ends()
        plan = contract()
        host = RunHost(parts_of(store, tmp_path), pool=POOL, tenants=frozenset({"mine"}), view=ends)
        await host.create(request(plan, run_id="theirs", tenant_id="other"))
        await host.create(request(plan, run_id="mine", tenant_id="mine"))
        async with serving(host):
            await ends.wait(1)
        assert ends.started_runs == ["mine"]
        await store.close()

    asyncio.run(scenario())
