"""Bringing a schema to what this code knows, once, whoever comes first.

The schema's version is checked again in every writing transaction (`begin_writing` in 0001_log.sql), so a process
that was started before a migration is refused instead of writing by old rules.
"""

from typing import Final

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
_TABLES: Final = (
    "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind IN ('r', 'p', 'v')"
)


async def migrate(connections: Connections, known: tuple[Migration, ...] = KNOWN) -> None:
    """Apply what is missing, in one transaction."""
    connection = await connections.connect()
    try:
        if await _applied(connection, connections.schema) != {one.number: one.sha256 for one in known}:
            async with connection.transaction():
                await connection.execute("SET LOCAL statement_timeout = 0")
                # Writers hold it shared: none is at work while the tables change.
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
    applied = await _applied(connection, connections.schema)
    if applied is None:
        await connection.execute(
            sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(connections.schema))
        )
        await connection.execute(_HISTORY)
    for migration in missing(applied or {}, known, connections.name):
        await connection.execute(migration.sql.encode())
        await connection.execute(
            "INSERT INTO migrations (number, name, sha256) VALUES (%s, %s, %s)",
            [migration.number, migration.name, migration.sha256],
        )


async def _applied(connection: Connection, schema: str) -> dict[int, str] | None:
    """Number and checksum of what was applied; None in an empty schema. Refuses tables of somebody else."""
    found = await connection.execute(_TABLES, [schema])
    tables = {name for (name,) in await found.fetchall()}
    if "migrations" not in tables:
        if tables:
            raise StoreVersion(
                f"schema {schema!r} holds tables of another program; choose another schema for Podium"
            )
        return None
    rows = await connection.execute("SELECT number, sha256 FROM migrations")
    return dict(await rows.fetchall())
