"""The registration tables in PostgreSQL, beyond what every table promises: versions, restarts, secrets and cost."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from podium.catalogs.postgres import PostgresTable, statements
from podium.catalogs.postgres.table import _values
from podium.errors import PodiumError
from podium.ports.catalog import (
    CatalogRefused,
    CatalogUnavailable,
    CatalogVersion,
    RegistrationTable,
    RevisionConflict,
)
from podium.testing.catalog_promises import change, node, projection
from podium.testing.catalog_promises.values import at, node_id, renewal
from podium.wiring import catalogs, plans
from services import postgres
from services.postgres import PostgresServer
from tests.servers import need

SECRET = "hunter2-s3cr3t"


@pytest.fixture
def database(shared_postgres: PostgresServer) -> Iterator[Callable[[str], list[Any]]]:
    """Executes a statement and returns its rows."""
    with psycopg.connect(shared_postgres.conninfo, autocommit=True) as connection:

        def execute(statement: str) -> list[Any]:
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description else []

        yield execute


@pytest.fixture
def schema(database: Callable[[str], list[Any]]) -> Iterator[str]:
    """A name that no schema has yet."""
    name = f"test_{uuid4().hex}"
    yield name
    database(f"DROP SCHEMA IF EXISTS {name} CASCADE")


def _url(server: PostgresServer) -> str:
    parts = dict(part.split("=", 1) for part in server.conninfo.split())
    return f"postgresql://{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}"


# --- versions ---------------------------------------------------------------------------------------


@pytest.mark.rule("RC07")
def test_processes_that_start_concurrently_make_the_tables_once(
    shared_postgres: PostgresServer, schema: str, database: Callable[[str], list[Any]]
) -> None:
    async def main() -> None:
        tables = await asyncio.gather(
            *(PostgresTable.open(shared_postgres.conninfo, schema=schema) for _ in range(6))
        )
        for table in tables:
            await table.close()

    asyncio.run(main())
    assert database(f"SELECT number, name FROM {schema}.migrations") == [(1, "0001_registrations.sql")]


def _opening_fails(server: PostgresServer, schema: str) -> str:
    with pytest.raises(CatalogVersion) as refused:
        asyncio.run(catalogs.open_registration_table(_url(server), schema=schema))
    return str(refused.value)


@pytest.mark.rule("RC07")
def test_tables_of_a_newer_podium_are_left_alone(
    shared_postgres: PostgresServer, tables: str, database: Callable[[str], list[Any]]
) -> None:
    database(f"INSERT INTO {tables}.migrations (number, name) VALUES (2, 'later')")
    said = _opening_fails(shared_postgres, tables)
    assert "have version 2 and this Podium knows 1" in said


@pytest.mark.rule("RC07")
def test_tables_of_another_program_are_left_alone(
    shared_postgres: PostgresServer, schema: str, database: Callable[[str], list[Any]]
) -> None:
    database(f"CREATE SCHEMA {schema}")
    database(f"CREATE TABLE {schema}.migrations (number integer)")
    assert "tables that are not those of the registration" in _opening_fails(shared_postgres, schema)
    assert database(f"SELECT relname FROM pg_class WHERE relnamespace = '{schema}'::regnamespace") == [
        ("migrations",)
    ]


@pytest.mark.rule("RC07")
def test_a_table_that_disappears_while_it_is_used_is_a_wrong_version(
    shared_postgres: PostgresServer, tables: str, database: Callable[[str], list[Any]]
) -> None:
    async def main() -> None:
        table = PostgresTable(shared_postgres.conninfo, schema=tables)
        database(f"DROP TABLE {tables}.registration_projection")
        try:
            with pytest.raises(CatalogVersion, match="lacks a table or column"):
                await table.read(node_id())
        finally:
            await table.close()

    asyncio.run(main())


@pytest.mark.rule("RC05")
def test_tables_of_another_installation_are_refused(shared_postgres: PostgresServer, schema: str) -> None:
    async def open_for(owner: str | None) -> None:
        table = await catalogs.open_registration_table(_url(shared_postgres), schema=schema, owner=owner)
        await table.close()

    async def main() -> None:
        await asyncio.gather(*(open_for("prod/main") for _ in range(4)))
        await open_for("prod/main")
        await open_for(None)
        with pytest.raises(CatalogRefused, match=r"has the nodes of 'prod/main', not those of 'dev/main'"):
            await open_for("dev/main")

    asyncio.run(main())


# --- a server that dies -----------------------------------------------------------------------------


@pytest.mark.rule("RC06")
def test_rows_survive_the_death_of_the_server_and_calls_continue_when_it_is_back() -> None:
    async def main(server: PostgresServer) -> None:
        table = await PostgresTable.open(server.conninfo)
        writes = [change(projection(number), status="registered") for number in range(1, 9)]
        written = await asyncio.gather(*(table.write(one) for one in writes))
        server.kill9()
        for call in _calls(table):
            with pytest.raises(CatalogUnavailable):
                await call()
        server.restart()
        # What failed is repeated with the same arguments, whether it was stored or not.
        assert await asyncio.gather(*(table.write(one) for one in writes)) == written
        assert await table.projections(None, 10) == written
        assert len(await table.registrations(None, 10)) == 8
        await table.close()

    with need(postgres.start) as server:
        asyncio.run(main(server))


def _calls(table: RegistrationTable) -> list[Callable[[], Awaitable[Any]]]:
    return [
        lambda: table.read(node_id()),
        lambda: table.write(change(projection())),
        lambda: table.unsettle(node_id(), at(1)),
        lambda: table.due(at(1), 10),
        lambda: table.renew([renewal(seconds=1, deadline=9)]),
        lambda: table.registrations(None, 10),
        lambda: table.projections(node_id(), 10),
    ]


@pytest.mark.rule("RC06")
def test_a_call_that_the_server_does_not_answer_in_time_is_unavailable(
    shared_postgres: PostgresServer, tables: str, database: Callable[[str], list[Any]]
) -> None:
    async def main() -> None:
        table = PostgresTable(shared_postgres.conninfo, schema=tables, budget=timedelta(seconds=0.3))
        try:
            with pytest.raises(CatalogUnavailable):
                await table.read(node_id())
        finally:
            await table.close()

    database("BEGIN")
    database(f"LOCK TABLE {tables}.registration_projection")
    try:
        asyncio.run(main())
    finally:
        database("ROLLBACK")


# --- two writers --------------------------------------------------------------------------------------


@pytest.mark.rule("RC02")
def test_of_writers_in_several_processes_one_succeeds_and_both_rows_are_its_own(
    shared_postgres: PostgresServer, tables: str
) -> None:
    async def main() -> None:
        writers = [PostgresTable(shared_postgres.conninfo, schema=tables) for _ in range(4)]
        for revision in range(25):
            changes = [
                change(
                    projection(description=node(node_version=f"{revision}.{index}.0")),
                    revision,
                    change_id=f"run-{revision}-{index}/step",
                    status="registered",
                )
                for index in range(len(writers))
            ]
            ended = await asyncio.gather(
                *(writer.write(one) for writer, one in zip(writers, changes, strict=True)),
                return_exceptions=True,
            )
            (stored,) = (one for one in ended if not isinstance(one, RevisionConflict))
            (row,) = await writers[0].registrations(None, 10)
            assert await writers[1].read(node_id()) == stored
            assert (row.node, stored.revision) == (stored.node, revision + 1)
        for writer in writers:
            await writer.close()

    asyncio.run(main())


@pytest.mark.rule("RC02")
def test_a_heartbeat_that_waited_for_a_later_one_does_not_move_the_deadline_back(
    shared_postgres: PostgresServer, tables: str, database: Callable[[str], list[Any]]
) -> None:
    async def main() -> None:
        table = PostgresTable(shared_postgres.conninfo, schema=tables, budget=timedelta(seconds=60))
        await table.write(change(projection(liveness_deadline=at(90))))
        database("BEGIN")
        database(
            f"UPDATE {tables}.registration_projection SET liveness_deadline = '{at(107)}', heartbeat_at = '{at(7)}'"
        )
        waiting = asyncio.create_task(table.renew([renewal(seconds=1, deadline=101)]))
        # Inside the transaction, because what it shows of other sessions is read anew each time.
        while not database(f"SELECT 1 FROM pg_stat_activity WHERE query LIKE '%{_MARK}%' AND {_WAITS}"):
            await asyncio.sleep(0.01)
            database("SELECT pg_stat_clear_snapshot()")
        database("COMMIT")
        assert await waiting == 0
        row = await table.read(node_id())
        assert row is not None
        assert (row.liveness_deadline, row.heartbeat_at) == (at(107), at(7))
        await table.close()

    asyncio.run(main())


_MARK = "AS given (node_id, epoch, heartbeat_at, deadline)"
_WAITS = "wait_event_type = 'Lock' AND pid <> pg_backend_pid()"


# --- what errors say --------------------------------------------------------------------------------


async def _error_of(call: Awaitable[Any]) -> PodiumError:
    with pytest.raises(PodiumError) as caught:
        await call
    shown = "".join(traceback.format_exception(caught.value))
    for secret in (SECRET, "127.0.0.1", "CONTEXT", "DETAIL"):
        assert secret not in shown
    return caught.value


@pytest.mark.rule("RC03")
def test_no_error_shows_a_value_an_address_or_a_text_of_the_server(
    shared_postgres: PostgresServer, tables: str, database: Callable[[str], list[Any]]
) -> None:
    database(
        f"ALTER TABLE {tables}.registration_projection ADD CHECK (state <> '{SECRET}'), "
        f"ADD CHECK (last_change NOT LIKE '%odd%')"
    )
    broken = [
        change(projection(state=SECRET)),
        change(projection(), change_id=f"odd {SECRET}"),
        change(projection(description=node(node_role=f"{SECRET}\0")), status="registered"),
        change(projection(description=node(metadata={"k": f"{SECRET}\ud800"}))),
        change(projection(state=f"{SECRET}\ud800")),
    ]

    async def main() -> None:
        table = PostgresTable(shared_postgres.conninfo, schema=tables)
        for one in broken:
            assert isinstance(await _error_of(table.write(one)), CatalogRefused)
        assert await table.projections(None, 10) == []
        await table.close()

    asyncio.run(main())


@pytest.mark.rule("RC03")
@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("postgresql://{secret}:{secret}@{server}/nowhere", CatalogUnavailable),
        ("postgresql://{secret}:{secret}@127.0.0.1:1/db", CatalogUnavailable),
        ("postgresql://user:{secret}@127.0.0.1:port/db", CatalogUnavailable),
        ("postgresql://user:{secret}%@127.0.0.1/db", catalogs.UnknownCatalog),
        ("mysql://user:{secret}@127.0.0.1/db", catalogs.UnknownCatalog),
    ],
)
def test_a_wrong_user_and_a_wrong_address_are_not_shown(
    shared_postgres: PostgresServer, address: str, kind: type[PodiumError]
) -> None:
    server = _url(shared_postgres).partition("@")[2].partition("/")[0]
    url = address.format(secret=SECRET, server=server)
    assert isinstance(asyncio.run(_error_of(catalogs.open_registration_table(url))), kind)


def test_the_address_comes_from_the_secrets_and_the_schema_is_checked(
    monkeypatch: pytest.MonkeyPatch, shared_postgres: PostgresServer, schema: str
) -> None:
    async def main() -> None:
        table = await catalogs.open_registration_table(None, schema=schema)
        assert await table.read(node_id()) is None
        await table.close()

    plans.secret_lookup.cache_clear()
    monkeypatch.delenv("PODIUM_REGISTRATION_DB", raising=False)
    with pytest.raises(catalogs.UnknownCatalog, match="set the secret PODIUM_REGISTRATION_DB"):
        asyncio.run(main())
    monkeypatch.setenv("PODIUM_REGISTRATION_DB", _url(shared_postgres))
    plans.secret_lookup.cache_clear()
    asyncio.run(main())
    plans.secret_lookup.cache_clear()
    with pytest.raises(catalogs.UnknownCatalog, match="the name of a schema has"):
        asyncio.run(catalogs.open_registration_table(_url(shared_postgres), schema="a.b; DROP"))


# --- what it costs ----------------------------------------------------------------------------------


@pytest.mark.rule("RC08")
def test_no_statement_reads_more_rows_because_there_are_more_nodes(
    shared_postgres: PostgresServer, tables: str, database: Callable[[str], list[Any]]
) -> None:
    database(f"SET search_path = {tables}")
    _fill(database, 20_000)
    with psycopg.connect(shared_postgres.conninfo) as connection:
        connection.execute(f"SET search_path = {tables}".encode())
        for name, (statement, values) in _STATEMENTS.items():
            # With the plan that is kept for all values, too.
            for mode in ("force_custom_plan", "force_generic_plan"):
                connection.execute(f"SET plan_cache_mode = {mode}".encode())
                explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}".encode()
                found = connection.execute(explained, values).fetchone()
                assert found is not None
                assert max(_rows_read(found[0][0]["Plan"])) < 100, (name, mode)
        connection.rollback()


_HALF = [UUID(int=number) for number in (10_000, 10_001)]
_STATEMENTS: dict[str, tuple[str, Any]] = {
    "read": (statements.READ, [_HALF[0]]),
    "read changed": (statements.READ_CHANGED, [_HALF[0], "x"]),
    "write": (statements.WRITE, _values(change(projection(7), 1, status="registered"))),
    "retire": (statements.WRITE, _values(change(projection(8), 1, status="retired"))),
    "unsettle": (statements.UNSETTLE, [at(1), _HALF[0]]),
    "due": (statements.DUE, [at(15_000), 10]),
    "renew": (statements.RENEW, [_HALF, [1, 1], [at(1), at(1)], [at(90_000), at(90_000)], _HALF]),
    "projections": (
        statements.page_of("registration_projection", statements.PROJECTION, is_first=False),
        [_HALF[0], 10],
    ),
    "registrations": (
        statements.page_of("node_registrations", statements.REGISTRATION, is_first=False),
        [_HALF[0], 10],
    ),
    "first page": (statements.page_of("node_registrations", statements.REGISTRATION, is_first=True), [10]),
}


def _rows_read(plan: dict[str, Any]) -> Iterator[int]:
    """By each part of the plan, with those that it did not use."""
    rows = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
    yield int(rows * plan["Actual Loops"])
    for part in plan.get("Plans", ()):
        yield from _rows_read(part)


def _fill(database: Callable[[str], list[Any]], count: int) -> None:
    numbered = f"generate_series(1, {count}) AS n"
    node_of = "lpad(to_hex(n), 32, '0')::uuid"
    database(
        f"INSERT INTO node_registrations SELECT {node_of}, 'registered', 'effect', '1.0.0', '{{}}', '{{}}', NULL, "
        f"'{{}}', {node_of}, NULL, NULL, 1, now() FROM {numbered}"
    )
    database(
        "INSERT INTO registration_projection (node_id, revision, last_change, state, node, epoch, consul_applied, "
        "postgres_applied, seen_at, liveness_deadline) "
        f"SELECT {node_of}, 1, 'x', 'ACTIVE', '{{}}', 1, true, true, now(), "
        f"'2026-01-01 00:00Z'::timestamptz + n * interval '1 s' FROM {numbered}"
    )
    database("ANALYZE node_registrations")
    database("ANALYZE registration_projection")
