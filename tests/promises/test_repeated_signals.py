"""Signals with the same id: one decision for each, on every store."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from podium.testing.store_promises.world import World
from services.postgres import PostgresServer
from tests.promises.postgres.world import PostgresWorld
from tests.promises.repeated_signals import ask, check
from tests.promises.sqlite.worlds import SqliteWorld
from tests.promises.worlds import MemoryWorld


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param == "sqlite":
        sqlite = SqliteWorld(tmp_path)
        yield sqlite
        sqlite.close()
        return
    loop = asyncio.new_event_loop()
    if request.param == "memory":
        yield MemoryWorld(loop)
    else:
        server: PostgresServer = request.getfixturevalue("shared_postgres")
        postgres = PostgresWorld(server.conninfo, request.getfixturevalue("schema"), loop)
        yield postgres
        postgres.close()
    loop.close()


@pytest.mark.rule("G27")
@pytest.mark.parametrize("seed", [1, 2])
def test_a_thousand_repeated_and_conflicting_signals_have_one_decision_for_each_id(
    world: World, seed: int
) -> None:
    async def scenario() -> None:
        sent = await ask(world, seed)
        assert {one.answer for one in sent} == {"ACCEPTED", "SIGNAL_DUPLICATE", "AUTHZ_DENIED"}
        await check(world.store, sent)

    world.run(scenario())
