"""Real servers for the promises: a missing one is a skip with its name on a laptop, and a failure under CI=true.

And for what has to hold over every store, whichever it is, their worlds.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import psycopg
import pytest

from podium.testing.store_promises import World
from services import postgres
from services.missing import ServiceMissing
from tests.promises.postgres.world import PostgresWorld
from tests.promises.sqlite.worlds import SqliteWorld
from tests.promises.worlds import MemoryWorld

_Server = TypeVar("_Server")
_MISSING = "missing service "


def need(start: Callable[[], _Server]) -> _Server:
    """Start a server, or skip whatever needs it."""
    try:
        return start()
    except ServiceMissing as missing:
        told = f"{_MISSING}{missing}"
        if os.environ.get("CI") == "true":
            pytest.fail(told, pytrace=False)
        pytest.skip(told)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = [
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    ]
    missing = sorted({reason for reason in reasons if reason.startswith(_MISSING)})
    if missing:
        terminalreporter.section("services that are missing here")
        for reason in missing:
            tests = reasons.count(reason)
            terminalreporter.write_line(f"{reason.removeprefix(_MISSING)} ({tests} tests skipped)")


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same folder for all workers of a test run; pytest removes it when it is old."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "services"


@pytest.fixture(scope="session")
def shared_postgres(run_folder: Path) -> Iterator[postgres.PostgresServer]:
    """One server per test run, whatever the number of workers. Tests take a schema each, and never stop it."""
    server = need(lambda: postgres.share(run_folder, fsync=True))
    yield server
    server.stop(wait=False)


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
