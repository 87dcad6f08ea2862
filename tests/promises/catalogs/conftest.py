import asyncio
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from podium.catalogs.postgres import PostgresTable
from services.postgres import PostgresServer


@pytest.fixture
def tables(shared_postgres: PostgresServer) -> Iterator[str]:
    """A schema with empty registration tables."""
    name = f"test_{uuid4().hex}"
    asyncio.run(_make(shared_postgres.conninfo, name))
    yield name
    with psycopg.connect(shared_postgres.conninfo, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())


async def _make(conninfo: str, schema: str) -> None:
    await (await PostgresTable.open(conninfo, schema=schema)).close()
