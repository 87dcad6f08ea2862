"""Migrates a schema to the version of this code, once, by the first process that needs it.

The schema's version is checked again in every writing transaction (`begin_writing` in 0021_works_with.sql), so a
process that was started before a migration is refused instead of writing by old rules, unless the migration says
that it works with such processes.
"""

from typing import Final

import msgspec
import psycopg
from psycopg import sql

from podium.errors import StoreVersion
from podium.stores.migration_plan import Migration, migrations_of, missing
from podium.stores.postgres.connections import Connection, Connections

KNOWN: Final = migrations_of(__file__)

_HISTORY: Final = """
CREATE TABLE migrations (
    number      integer PRIMARY KEY,
    name        text NOT NULL,
    sha256      text NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""
# The column `works_with` is missing before 0021.
_APPLIED: Final = """
SELECT number, sha256, coalesce((to_jsonb(one) ->> 'works_with')::integer, number) FROM migrations one
"""
_TABLES: Final = (
    "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind IN ('r', 'p', 'v')"
)


class _Applied(msgspec.Struct, frozen=True):
    # Checksums by number.
    sha256: dict[int, str]
    # The newest migration that processes must know to work on this schema.
    needed: int


async def migrate(connections: Connections, known: tuple[Migration, ...] = KNOWN) -> None:
    """Apply what is missing, in one transaction."""
    connection = await connections.connect()
    try:
        # Without the lock if the schema is up to date or newer: writers do not wait for a process that starts.
        if await _missing(connection, connections, known):
            async with connection.transaction():
                await connection.execute("SET LOCAL statement_timeout = 0")
                # Writers hold it in shared mode: none is active while the tables change.
                await connection.execute("SELECT pg_advisory_xact_lock(%s)", [connections.key("store")])
                await _apply_missing(connection, connections, known)
    except psycopg.errors.InsufficientPrivilege as error:
        raise connections.unavailable(error) from error
    except psycopg.Error as error:
        raise connections.translate_error(error) from error
    finally:
        await connection.close()


async def _apply_missing(
    connection: Connection, connections: Connections, known: tuple[Migration, ...]
) -> None:
    if await _applied(connection, connections.schema) is None:
        await connection.execute(
            sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(connections.schema))
        )
        await connection.execute(_HISTORY)
    for migration in await _missing(connection, connections, known):
        await connection.execute(migration.sql.encode())
        await connection.execute(
            "INSERT INTO migrations (number, name, sha256) VALUES (%s, %s, %s)",
            [migration.number, migration.name, migration.sha256],
        )
        if migration.works_with is not None:
            await connection.execute(
                "UPDATE migrations SET works_with = %s WHERE number = %s",
                [migration.works_with, migration.number],
            )


async def _missing(
    connection: Connection, connections: Connections, known: tuple[Migration, ...]
) -> list[Migration]:
    applied = await _applied(connection, connections.schema) or _Applied({}, 0)
    return missing(applied.sha256, known, connections.name, needed=applied.needed)


async def _applied(connection: Connection, schema: str) -> _Applied | None:
    """What was applied; None in an empty schema. Refuses tables of other programs."""
    found = await connection.execute(_TABLES, [schema])
    tables = {name for (name,) in await found.fetchall()}
    if "migrations" not in tables:
        if tables:
            raise StoreVersion(
                f"schema {schema!r} holds tables of another program; choose another schema for Podium"
            )
        return None
    rows = await (await connection.execute(_APPLIED)).fetchall()
    return _Applied(
        {number: sha256 for number, sha256, _ in rows}, max((needed for _, _, needed in rows), default=0)
    )
