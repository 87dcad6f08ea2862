import asyncio
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from services.postgres import PostgresServer
from tests.promises.postgres.world import PostgresWorld


@pytest.fixture(scope="session")
def schema(shared_postgres: PostgresServer) -> Iterator[str]:
    """One for each worker; dropped, because the server may be one that was given."""
    name = f"test_{uuid4().hex}"
    yield name
    with psycopg.connect(shared_postgres.conninfo, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())


@pytest.fixture
def world(shared_postgres: PostgresServer, schema: str) -> Iterator[PostgresWorld]:
    loop = asyncio.new_event_loop()
    world = PostgresWorld(shared_postgres.conninfo, schema, loop)
    yield world
    world.close()
    loop.close()
