"""The worlds of all stores, for what has to hold over each of them."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from podium.testing.store_promises import World
from services import postgres
from tests.promises.postgres.world import PostgresWorld
from tests.promises.sqlite.worlds import SqliteWorld
from tests.promises.worlds import MemoryWorld


@pytest.fixture(scope="session")
def schema(shared_postgres: postgres.PostgresServer) -> Iterator[str]:
    """One for each worker; dropped, because the server may be one that was given."""
    name = f"test_{uuid4().hex}"
    yield name
    with psycopg.connect(shared_postgres.conninfo, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def empty_world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], World]]:
    """Runs a test on every store. Each call gives a world with nothing in it; the one before is no longer used."""
    with ExitStack() as stack:
        loop = asyncio.new_event_loop()
        stack.callback(loop.close)
        if request.param == "memory":
            yield lambda: MemoryWorld(loop)
        elif request.param == "sqlite":
            yield lambda: _sqlite_world(stack, tmp_path)
        else:
            server = request.getfixturevalue("shared_postgres")
            world = PostgresWorld(server.conninfo, request.getfixturevalue("schema"), loop)
            stack.callback(world.close)
            yield lambda: _emptied(world)


def _sqlite_world(stack: ExitStack, folder: Path) -> SqliteWorld:
    world = SqliteWorld(folder / uuid4().hex)
    stack.callback(world.close)
    return world


def _emptied(world: PostgresWorld) -> PostgresWorld:
    world.empty()
    return world
