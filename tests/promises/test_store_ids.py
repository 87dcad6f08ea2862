"""Two stores have different ids; copies, and later versions of a store, keep theirs."""

import asyncio
from pathlib import Path
from uuid import uuid4

import apsw
import psycopg

from podium.ports.store import Store
from podium.stores.memory import MemoryStore
from podium.stores.postgres import PostgresStore
from podium.stores.postgres import migrations as postgres_migrations
from podium.stores.postgres.connections import Connections
from podium.stores.sqlite import SqliteStore, migrations
from podium.testing.clock import VirtualClock
from services.postgres import PostgresServer


async def id_of(store: Store) -> str:
    try:
        return await store.store_id()
    finally:
        await store.close()


def test_two_stores_in_memory_have_different_ids() -> None:
    async def scenario() -> None:
        assert await id_of(MemoryStore(VirtualClock())) != await id_of(MemoryStore(VirtualClock()))

    asyncio.run(scenario())


def test_two_files_have_different_ids_and_a_backup_keeps_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "a.db")
        await store.backup(tmp_path / "copy.db")
        await store.vacuum()
        first = await id_of(store)
        assert first == await id_of(await SqliteStore.open(tmp_path / "a.db"))
        assert first == await id_of(await SqliteStore.open(tmp_path / "copy.db"))
        assert first != await id_of(await SqliteStore.open(tmp_path / "b.db"))

    asyncio.run(scenario())


def test_processes_that_open_a_new_file_at_the_same_time_see_one_id(tmp_path: Path) -> None:
    async def scenario() -> None:
        stores = await asyncio.gather(*(SqliteStore.open(tmp_path / "a.db") for _ in range(6)))
        assert len({await id_of(store) for store in stores}) == 1

    asyncio.run(scenario())


def test_a_file_that_was_made_before_ids_gets_one_for_good(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "a.db"
        before = tuple(one for one in migrations.known() if one.number < 13)
        db = apsw.Connection(str(path))
        migrations.migrate(db, path, "2020-01-01T00:00:00.000000Z", before)
        db.close()
        ids = {await id_of(await SqliteStore.open(path)) for _ in range(3)}
        assert [len(one) for one in ids] == [32]

    asyncio.run(scenario())


def test_two_schemas_have_different_ids_and_each_keeps_its_own(shared_postgres: PostgresServer) -> None:
    async def scenario() -> None:
        schemas = [f"test_{uuid4().hex}" for _ in range(2)]
        try:
            ids = []
            for schema in schemas:
                first, *again = await asyncio.gather(
                    *(_id_of_schema(shared_postgres.conninfo, schema) for _ in range(4))
                )
                assert set(again) == {first}
                ids.append(first)
            assert ids[0] != ids[1]
        finally:
            _drop(shared_postgres.conninfo, schemas)

    asyncio.run(scenario())


async def _id_of_schema(conninfo: str, schema: str) -> str:
    return await id_of(await PostgresStore.open(conninfo, schema=schema))


def test_a_schema_that_was_made_before_ids_gets_one_for_good(shared_postgres: PostgresServer) -> None:
    async def scenario() -> None:
        conninfo, schema = shared_postgres.conninfo, f"test_{uuid4().hex}"
        before = tuple(one for one in postgres_migrations.KNOWN if one.number < 10)
        connections = Connections(conninfo, schema=schema, most=1, budget=10, schema_version=9)
        try:
            await postgres_migrations.migrate(connections, before)
            ids = {await _id_of_schema(conninfo, schema) for _ in range(3)}
            assert [len(one) for one in ids] == [32]
        finally:
            await connections.close()
            _drop(conninfo, [schema])

    asyncio.run(scenario())


def _drop(conninfo: str, schemas: list[str]) -> None:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for schema in schemas:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())
