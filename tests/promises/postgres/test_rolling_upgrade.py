"""An older and a newer process on one store: what a migration says about older processes decides.

The older process is a store that does not know the newest migrations.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from podium.engines.run_host import RunHost
from podium.errors import StoreVersion
from podium.log.ids import RunId
from podium.ports.store import Store
from podium.stores.migration_plan import Migration
from podium.stores.postgres import PostgresStore, migrations
from podium.stores.postgres.connections import Connections
from podium.stores.postgres.listening import Listener
from podium.testing.events import event
from podium.testing.store_promises import R1, started, types_in
from services.postgres import PostgresServer
from tests.unit.hosting.hosts import Ends, Work, contract, parts_of, request, serving

NOW = migrations.KNOWN[-1].number
# What additive migrations do: here to every table, because an older process uses them all.
ADDITIVE = """
DO $$
DECLARE one regclass;
BEGIN
    FOR one IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relname <> 'migrations'
                                          AND relnamespace = current_schema()::regnamespace LOOP
        EXECUTE format('ALTER TABLE %s ADD COLUMN later text NOT NULL DEFAULT ''''', one);
    END LOOP;
END $$;
CREATE TABLE more (name text PRIMARY KEY);
"""
Open = Callable[..., Coroutine[Any, Any, PostgresStore]]


def migration(number: int, header: str = "", statements: str = "") -> Migration:
    return Migration(number, f"{number:04}_later.sql", f"-- A later one.\n{header}\n{statements}")


def works_with(number: int) -> str:
    return f"-- works with: {number:04}"


@pytest.fixture
def open_store(shared_postgres: PostgresServer) -> Iterator[Open]:
    """Opens a store as a process that has these migrations after the present ones."""
    schema = f"test_{uuid4().hex}"

    async def opened(*later: Migration) -> PostgresStore:
        known = (*migrations.KNOWN, *later)
        connections = Connections(
            shared_postgres.conninfo, schema=schema, most=8, budget=3, schema_version=known[-1].number
        )
        await migrations.migrate(connections, known)
        return PostgresStore(connections, Listener(connections, look_again_every=2))

    yield opened
    with psycopg.connect(shared_postgres.conninfo, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


async def write(store: Store, subject: str) -> None:
    await store.append(R1, [event("r1", "SignalAccepted", subject=subject)])


def test_an_older_and_a_newer_process_create_and_drive_runs_on_one_store(
    open_store: Open, tmp_path: Path
) -> None:
    newer_one = migration(NOW + 1, works_with(NOW), ADDITIVE)

    def host(store: Store, pool: str, view: Ends | None = None) -> RunHost:
        return RunHost(parts_of(store, tmp_path), pool=pool, slots=4, view=view)

    async def scenario() -> None:
        older, by_older, by_newer = await open_store(), Ends(), Ends()
        has_migrated, is_held = asyncio.Event(), asyncio.Event()

        async def hold(run_id: str) -> None:
            is_held.set()
            await has_migrated.wait()

        Work.gate = hold
        plan = contract()
        async with serving(host(older, "older", by_older)):
            # Its runs are in progress while the newer process migrates the store.
            for number in range(10):
                await host(older, "older").create(request(plan, run_id=f"before-{number}"))
            await is_held.wait()
            newer = await open_store(newer_one)
            has_migrated.set()
            async with serving(host(newer, "newer", by_newer)):
                for number in range(10):
                    # Each drives what the other one created.
                    await host(newer, "older").create(request(plan, run_id=f"of-newer-{number}"))
                    await host(older, "newer").create(request(plan, run_id=f"of-older-{number}"))
                await by_older.wait(20)
                await by_newer.wait(10)
        assert set(by_older.ended_runs.values()) == set(by_newer.ended_runs.values()) == {"RunCompleted"}
        assert sorted(by_newer.ended_runs) == [f"of-older-{number}" for number in range(10)]
        # The older version can also be started again.
        again = await open_store()
        for store in (older, newer, again):
            await started(store, f"last-{id(store)}")
            assert await store.problems() == []
            assert (await store.stats()).schema_version == NOW + 1
            assert await types_in(store, "before-0") == await types_in(store, "of-older-0")
            await store.close()

    try:
        asyncio.run(scenario())
    finally:
        Work.gate = None
        Work.calls.clear()


def test_a_process_keeps_writing_while_the_store_is_migrated(open_store: Open) -> None:
    """A write that waits for the migration continues after it."""

    async def scenario() -> None:
        older = await open_store()
        await started(older)
        written, is_over = 0, False

        async def keep_writing(name: str) -> None:
            nonlocal written
            while not is_over:
                await write(older, f"{name}-{written}")
                written += 1

        async with asyncio.TaskGroup() as writers:
            for name in "abc":
                writers.create_task(keep_writing(name))
            for number in range(1, 6):
                before = written
                newer = await open_store(
                    *(migration(NOW + one, works_with(NOW)) for one in range(1, number + 1))
                )
                await newer.close()
                while written < before + 10:
                    await asyncio.sleep(0.01)
            is_over = True
        assert (await older.get_run(RunId("r1"))).head == 2 + written
        await older.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("header", ["", works_with(NOW + 1), "-- works with: everything"])
def test_an_older_process_is_refused_by_a_migration_that_does_not_work_with_it(
    open_store: Open, header: str
) -> None:
    first, second = migration(NOW + 1, works_with(NOW)), migration(NOW + 2, header)

    async def scenario() -> None:
        older = await open_store()
        await started(older)
        between = await open_store(first)
        await write(older, "before")
        newer = await open_store(first, second)
        refusal = f"has schema {NOW + 2} and this Podium knows {NOW}: it was migrated by a newer Podium"
        with pytest.raises(StoreVersion, match=refusal):
            await write(older, "after")
        with pytest.raises(StoreVersion, match=refusal):
            await open_store()
        # Reading is never refused.
        assert (await older.get_run(R1)).head == 3
        if header == works_with(NOW + 1):
            await write(between, "after")
        else:
            with pytest.raises(StoreVersion, match=f"knows {NOW + 1}"):
                await write(between, "after")
        await write(newer, "last")
        for store in (older, between, newer):
            await store.close()

    asyncio.run(scenario())


def test_a_compatible_migration_does_not_undo_the_refusal_of_an_earlier_one(open_store: Open) -> None:
    async def scenario() -> None:
        older = await open_store()
        await started(older)
        newer = await open_store(migration(NOW + 1), migration(NOW + 2, works_with(NOW)))
        with pytest.raises(StoreVersion):
            await write(older, "after")
        await older.close()
        await newer.close()

    asyncio.run(scenario())


def test_a_migration_that_was_changed_afterwards_is_refused_although_a_later_one_is_compatible(
    open_store: Open,
) -> None:
    async def scenario() -> None:
        newer = await open_store(migration(NOW + 1, works_with(NOW), "-- one"))
        with pytest.raises(StoreVersion, match="was migrated by another"):
            await open_store(migration(NOW + 1, works_with(NOW), "-- other"))
        await newer.close()

    asyncio.run(scenario())
