import asyncio
from collections.abc import Iterator

import pytest

from services.postgres import PostgresServer
from tests.promises.postgres.world import PostgresWorld


@pytest.fixture
def world(shared_postgres: PostgresServer, schema: str) -> Iterator[PostgresWorld]:
    loop = asyncio.new_event_loop()
    world = PostgresWorld(shared_postgres.conninfo, schema, loop)
    yield world
    world.close()
    loop.close()
