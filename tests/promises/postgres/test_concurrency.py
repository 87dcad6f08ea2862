"""What holds for one writer holds for many: real processes, one database."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from podium.errors import RunRefused
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.leases import Lease
from podium.log.runs import Backpressure
from podium.ports.store import Limit, Store
from podium.testing.events import event, new_run
from podium.testing.store_promises import started
from tests.promises.postgres.processes import Writers
from tests.promises.postgres.world import PostgresWorld
from tests.promises.postgres.writers import Job

RUNS = ["r1", "r2", "r3"]
PROCESSES, WRITERS, BATCHES = 4, 4, 40
TTL = timedelta(minutes=10)


def test_sixteen_writers_in_four_processes_and_a_reader(
    world: PostgresWorld, record_property: object, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scenario() -> tuple[list[list[EventRecord]], Writers]:
        leases = [await started(world.store, run) for run in RUNS]
        assert {lease.fence.generation for lease in leases} == {1}
        jobs = [Job(world.conninfo, world.schema, n, WRITERS, RUNS, 1, BATCHES) for n in range(PROCESSES)]
        with Writers(jobs) as writers:
            logs = await asyncio.gather(*(follow(RunId(run), writers) for run in RUNS))
            await asyncio.to_thread(writers.wait)
        return logs, writers

    async def follow(run: RunId, writers: Writers) -> list[EventRecord]:
        """Read on and on: each record must be the one after the last, whatever is being written."""
        seen: list[EventRecord] = []
        while True:
            working = writers.working
            records = await world.other.read(run, after=len(seen))
            numbers = [record.run_seq for record in records]
            assert numbers == list(range(len(seen) + 1, len(seen) + 1 + len(records)))
            seen += records
            if not records and not working:
                return seen

    logs, writers = world.run(scenario())

    by_run = dict(zip(RUNS, logs, strict=True))
    for log in logs:
        assert len({record.idempotency_key for record in log}) == len(log)
    for ack in writers.acks:
        stored = [by_run[ack.run][seq - 1].step_id for seq in ack.seqs]
        assert all(step is not None and step.startswith(ack.name) for step in stored)
        assert ack.seqs == sorted(ack.seqs)
    assert sum(len(log) for log in logs) == 2 * len(RUNS) + len(
        {(ack.run, seq) for ack in writers.acks for seq in ack.seqs}
    )
    assert any(ack.duplicate for ack in writers.acks)
    assert world.run(world.other.problems()) == []

    seconds = sorted(ack.seconds for ack in writers.acks)
    p99, longest = seconds[len(seconds) * 99 // 100], seconds[-1]
    with capsys.disabled():
        print(f" [{len(seconds)} appends: p99 {p99 * 1e3:.0f} ms, longest {longest * 1e3:.0f} ms] ", end="")
    assert longest < 1.0


def test_two_hosts_never_start_a_run_twice(world: PostgresWorld) -> None:
    async def host(store: Store, owner: str) -> list[str]:
        got = []
        while claimed := await store.claim_of_pool("p", owner=owner, ttl=TTL):
            run = claimed[0].run.identity.run_id
            await store.append(run, [event(run, "RunStarted")], fence=claimed[0].lease.fence)
            got.append(str(run))
        return got

    async def scenario() -> None:
        tenants = ["a", "b", "c"]
        for number in range(60):
            where = {"tenant_id": tenants[number % 3]}
            queued = new_run(f"r{number}", run=where, pool="p")
            await world.store.create_run(queued, [event(f"r{number}", "RunQueued")])
        stores = [world.store, world.other] * 4
        taken = await asyncio.gather(*(host(store, f"w{n}") for n, store in enumerate(stores)))
        assert Counter(run for each in taken for run in each) == Counter(f"r{n}" for n in range(60))
        for number in range(60):
            assert [record.event_type for record in await world.store.read(RunId(f"r{number}"))] == [
                "RunQueued",
                "RunStarted",
            ]

    world.run(scenario())


def test_the_statements_of_a_claim_under_limits_do_not_grow_with_its_runs(
    world: PostgresWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[object] = []
    execute = psycopg.AsyncConnection.execute

    async def counted(self: Any, query: Any, *args: Any, **more: Any) -> Any:
        statements.append(query)
        return await execute(self, query, *args, **more)

    async def statements_of_claim(runs: int) -> int:
        del statements[:]
        claimed = await world.store.claim_of_pool("p", owner="w", ttl=TTL, limit=runs)
        assert len(claimed) == runs
        return len(statements)

    async def scenario() -> None:
        for number in range(60):
            tenant = {"tenant_id": "a" if number % 2 else "b"}
            await world.store.create_run(new_run(f"r{number}", run=tenant, pool="p"), [])
        await world.store.set_limit(Limit("a", "tenant", "a", 40))
        await world.store.set_limit(Limit("b", "plan", "nightly", 40))
        monkeypatch.setattr(psycopg.AsyncConnection, "execute", counted)
        assert await statements_of_claim(4) == await statements_of_claim(40)

    world.run(scenario())


def test_concurrent_claims_of_several_runs_never_exceed_a_limit(world: PostgresWorld) -> None:
    """Eight tasks over two stores claim five runs at a time and give them back."""
    most = 7

    async def work(store: Store, held: list[Lease]) -> None:
        for _ in range(8):
            claimed = await store.claim_of_pool("p", owner="w", ttl=TTL, limit=5)
            leases = [one.lease for one in claimed]
            held += leases
            assert len(held) <= most
            await asyncio.sleep(0.002)
            for lease in leases:
                held.remove(lease)
                await store.release(lease)

    async def scenario() -> None:
        for number in range(20):
            await world.store.create_run(new_run(f"r{number}", pool="p"), [])
        await world.store.set_limit(Limit("default", "plan", "nightly", most))
        held: list[Lease] = []
        await asyncio.gather(*(work(store, held) for store in [world.store, world.other] * 4))

    world.run(scenario())


@pytest.mark.parametrize("way", ["queued", "claim", "lapsed"])
def test_no_moment_has_more_live_runs_than_a_limit(world: PostgresWorld, way: str) -> None:
    """Eight tasks over two stores take and give back; after each take, all that are live are counted."""
    most = 3

    async def take(store: Store, number: int) -> object:
        if way == "claim":
            return await store.claim(RunId(f"r{number}"), owner="w", ttl=TTL)
        claimed = await store.claim_of_pool("p", owner="w", ttl=TTL)
        return claimed[0].lease if claimed else None

    async def work(store: Store, number: int, held: list[int]) -> None:
        for _ in range(12):
            lease = await take(store, number)
            if lease is None:
                await asyncio.sleep(0)
                continue
            held.append(number)
            assert len(held) <= most
            await asyncio.sleep(0.002)
            held.remove(number)
            await store.release(lease)  # type: ignore[arg-type]

    async def scenario() -> None:
        for number in range(8):
            run = f"r{number}"
            if way == "lapsed":
                await world.store.release(await started(world.store, run, pool="p"))
            else:
                await world.store.create_run(new_run(run, pool="p"), [])
        await world.store.set_limit(Limit("default", "plan", "nightly", most))
        held: list[int] = []
        stores = [world.store, world.other] * 4
        await asyncio.gather(*(work(store, number, held) for number, store in enumerate(stores)))
        live = world.execute("SELECT count(*) FROM leases WHERE owner <> ''")
        assert live == [(0,)]

    world.run(scenario())


def test_requests_at_once_are_one_run(world: PostgresWorld) -> None:
    async def scenario() -> None:
        stores = [world.store, world.other] * 4
        asked = [
            store.create_run(new_run(f"r{n}", run_request_id="req"), [event(f"r{n}", "RunQueued")])
            for n, store in enumerate(stores)
        ]
        created = await asyncio.gather(*asked)
        assert [one.duplicate for one in created].count(False) == 1
        assert len({one.run.identity.run_id for one in created}) == 1
        stats = await world.store.stats()
        assert (stats.runs, stats.open_runs, stats.events) == (1, 1, 1)

    world.run(scenario())


def test_refusals_at_once_leave_nothing(world: PostgresWorld) -> None:
    async def scenario() -> None:
        await world.store.set_limit(Limit("default", "tenant", "default", 1))
        await started(world.store, "r0")
        stores = [world.store, world.other] * 4
        asked = [
            store.create_run(new_run(f"n{n}", backpressure=Backpressure.REJECT), [])
            for n, store in enumerate(stores)
        ]
        refused = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(one, RunRefused) for one in refused)
        assert (await world.store.stats()).runs == 1
        assert await world.store.problems() == []

    world.run(scenario())
