"""Migrates the registration schema to the version of this code, once, by the first process that needs it."""

from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

from podium.catalogs.postgres.connections import Connections
from podium.ports.catalog import CatalogVersion
from podium.postgres import Connection

_FILES: Final = sorted((Path(__file__).parent / "migrations").glob("*.sql"))
VERSION: Final = len(_FILES)
_HISTORY: Final = """
CREATE TABLE migrations (
    number      integer PRIMARY KEY,
    name        text NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""
_TABLES: Final = (
    "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind IN ('r', 'p', 'v')"
)
_OURS: Final = {"migrations", "installation", "node_registrations", "registration_projection"}


async def migrate(connections: Connections) -> None:
    """Apply what is missing, in one transaction. Raises `CatalogVersion` for tables that are not ours."""
    connection = await connections.connect()
    try:
        if await _applied(connection, connections.schema) < VERSION:
            async with connection.transaction():
                await connection.execute("SET LOCAL statement_timeout = 0")
                await connection.execute("SELECT pg_advisory_xact_lock(%s)", [connections.key("migrate")])
                await _apply_missing(connection, connections.schema)
    except psycopg.Error as error:
        raise connections.translate_error(error) from None
    finally:
        await connection.close()


async def _apply_missing(connection: Connection, schema: str) -> None:
    applied = await _applied(connection, schema)
    if applied == 0:
        await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        await connection.execute(_HISTORY)
    for number, file in enumerate(_FILES[applied:], start=applied + 1):
        await connection.execute(file.read_bytes())
        await connection.execute("INSERT INTO migrations (number, name) VALUES (%s, %s)", [number, file.name])


async def _applied(connection: Connection, schema: str) -> int:
    """How many migrations were applied; 0 in an empty schema."""
    found = await connection.execute(_TABLES, [schema])
    tables = {name for (name,) in await found.fetchall()}
    if not tables:
        return 0
    if not tables >= _OURS:
        raise CatalogVersion(
            f"schema {schema!r} has tables that are not those of the registration; choose another schema for them"
        )
    rows = await connection.execute("SELECT coalesce(max(number), 0) FROM migrations")
    ((number,),) = await rows.fetchall()
    if number > VERSION:
        raise CatalogVersion(
            f"the registration tables in schema {schema!r} have version {number} and this Podium knows {VERSION}: "
            "they were migrated by a newer Podium; install that version, or choose another schema"
        )
    return int(number)
