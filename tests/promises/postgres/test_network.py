"""Between store and server is a network that may swallow anything, at any moment."""

import asyncio
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg import AsyncConnection

import podium.postgres
from podium.errors import StoreUnavailable
from podium.stores.postgres import PostgresStore
from podium.testing.events import event
from podium.testing.store_promises import R1, started
from tests.promises.postgres.proxy import Proxy
from tests.promises.postgres.world import PostgresWorld

BUDGET = timedelta(seconds=0.2)
# The budget, the second that the server has to give up first, and room for a busy machine.
IN_TIME = 4.0
MAX_MESSAGES = 12


async def open_through(proxy: Proxy, world: PostgresWorld) -> PostgresStore:
    conninfo = f"{proxy.conninfo} connect_timeout=2"
    return await PostgresStore.open(conninfo, schema=world.schema, budget=BUDGET)


def test_a_server_that_never_answers_is_not_waited_for_whenever_it_falls_silent(world: PostgresWorld) -> None:
    """After each message of an append in turn: nothing comes back, and the connection stays."""

    async def scenario() -> None:
        lease = await started(world.store)
        async with Proxy(world.conninfo) as proxy:
            store = await open_through(proxy, world)
            told: list[str] = []
            for after in range(MAX_MESSAGES):
                await store.get_run(R1)  # there is a connection
                write = event("r1", "StepStarted", f"s{after}")
                proxy.swallow(after=after)
                began = time.monotonic()
                try:
                    await store.append(R1, [write], fence=lease.fence)
                except StoreUnavailable as error:
                    told.append(str(error))
                else:
                    break
                finally:
                    proxy.forward()
                assert time.monotonic() - began < IN_TIME
                (answer,) = await store.append(R1, [write], fence=lease.fence)
                assert (answer.record.run_seq, answer.duplicate) == (3 + after, False)
            assert 3 <= len(told) < MAX_MESSAGES - 1
            # Only of the last message, COMMIT, nobody knows whether it arrived.
            assert all("check that the server runs" in text for text in told[:-1])
            assert "whether anything was stored is unknown; repeat the same call" in told[-1]
            assert [record.run_seq for record in await world.other.read(R1)] == list(range(1, 4 + len(told)))
            await store.close()

    world.run(scenario())


def test_a_server_that_takes_a_connection_and_says_nothing_is_not_waited_for(world: PostgresWorld) -> None:
    async def scenario() -> None:
        lease = await started(world.store)
        async with Proxy(world.conninfo) as proxy:
            store = await open_through(proxy, world)
            proxy.swallow()
            for _ in range(2):  # at first the old connection is lost, then there is no new one
                began = time.monotonic()
                with pytest.raises(StoreUnavailable, match="nothing was acknowledged: check that the server"):
                    await store.append(R1, [event("r1", "StepStarted", "a")], fence=lease.fence)
                assert time.monotonic() - began < IN_TIME
            proxy.forward()
            (answer,) = await store.append(R1, [event("r1", "StepStarted", "a")], fence=lease.fence)
            assert (answer.record.run_seq, answer.duplicate) == (3, False)
            await store.close()

    world.run(scenario())


def test_a_connection_on_which_the_server_falls_silent_while_it_is_made_is_not_waited_for(
    world: PostgresWorld,
) -> None:
    """After each message of a new connection in turn, until all of them were answered."""

    async def scenario() -> None:
        await started(world.store)
        async with Proxy(world.conninfo) as proxy:
            told: list[str] = []
            while len(told) < MAX_MESSAGES:
                store = await open_through(proxy, world)  # has no connection yet
                proxy.swallow(after=len(told))
                began = time.monotonic()
                try:
                    async with asyncio.timeout(30):
                        await store.get_run(R1)
                except StoreUnavailable as error:
                    told.append(str(error))
                else:
                    break
                finally:
                    proxy.forward()
                    await store.close()
                assert time.monotonic() - began < IN_TIME
            # The handshake, the settings and the question.
            assert 3 <= len(told) < MAX_MESSAGES
            assert all("nothing was acknowledged: check that the server runs" in text for text in told)

    world.run(scenario())


def test_a_connection_whose_settings_fail_or_are_cut_short_is_closed(world: PostgresWorld) -> None:
    async def scenario() -> None:
        store = await PostgresStore.open(world.conninfo, schema=world.schema)
        made: list[AsyncConnection[Any]] = []

        async def connect(*args: Any, **kwargs: Any) -> AsyncConnection[Any]:
            made.append(await AsyncConnection.connect(*args, **kwargs))
            return made[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(podium.postgres, "AsyncConnection", SimpleNamespace(connect=connect))
            patch.setattr(podium.postgres, "_SETTINGS", "SELECT 1 / 0, %s, %s")
            with pytest.raises(StoreUnavailable, match="division by zero"):
                await store.stats()
            patch.setattr(podium.postgres, "_SETTINGS", "SELECT pg_sleep(10), %s, %s")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await store.stats()
        assert [connection.closed for connection in made] == [True, True]
        await store.close()

    world.run(scenario())


def test_what_was_stored_although_the_answer_was_lost_is_found_again_and_is_there_once(
    world: PostgresWorld,
) -> None:
    async def scenario() -> None:
        lease = await started(world.store)
        async with Proxy(world.conninfo) as proxy:
            store = await open_through(proxy, world)
            write = event("r1", "StepStarted", "a")
            proxy.cut_when_committed()
            with pytest.raises(
                StoreUnavailable, match="whether anything was stored is unknown; repeat the same"
            ):
                await store.append(R1, [write], fence=lease.fence)
            (stored,) = await world.other.read(R1, after=2)
            (answer,) = await store.append(R1, [write], fence=lease.fence)
            assert (answer.record, answer.duplicate, answer.differs) == (stored, True, False)
            assert answer.record.run_seq == 3
            assert world.execute("SELECT count(*) FROM events WHERE step_id = 'a'") == [(1,)]
            assert (await store.get_run(R1)).head == 3
            await store.close()

    world.run(scenario())
