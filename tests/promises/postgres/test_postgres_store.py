"""The store in PostgreSQL keeps the promises of every store."""

import asyncio
import time
from datetime import timedelta

import psycopg
import pytest

from podium.errors import InvalidId, RunNotFound, StoreUnavailable
from podium.log.ids import RunId
from podium.log.leases import WakeUp
from podium.log.runs import RunPage, RunQuery
from podium.stores.postgres import PostgresStore
from podium.testing.events import event, new_run
from podium.testing.store_promises import R1, TTL, StorePromises, started
from tests.promises.postgres.world import PostgresWorld


class TestPostgresStore(StorePromises):
    """`world` is in conftest.py."""


def test_watchers_are_told_at_once_and_share_one_connection(world: PostgresWorld) -> None:
    async def scenario() -> None:
        lease = await started(world.store)
        # It would look by itself only after the test has ended.
        store = await PostgresStore.open(
            world.conninfo, schema=world.schema, look_again_every=timedelta(minutes=10)
        )
        waiting = asyncio.Event()

        async def watching() -> float:
            async for records in store.watch(R1, after=1):
                waiting.set()
                if records[-1].run_seq == 3:
                    return time.monotonic()
            raise AssertionError("a watch never ends by itself")

        watchers = [asyncio.create_task(watching()) for _ in range(20)]
        await waiting.wait()
        began = time.monotonic()
        await world.other.append(R1, [event("r1", "StepStarted", "a")], fence=lease.fence)
        seen = await asyncio.wait_for(asyncio.gather(*watchers), 10)
        assert max(seen) - began < 5
        listening = world.execute(
            f"SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN \"podium_{world.schema}\"'"
        )
        assert listening == [(1,)]
        await store.close()

    world.run(scenario())


def test_nobody_takes_a_lease_while_its_holder_is_appending(world: PostgresWorld) -> None:
    """Otherwise an append could pass its fence, and be stored after the successor had begun."""

    async def scenario() -> None:
        lease = await started(world.store, pool="p")
        world.pass_time(31)  # lapsed, and not taken yet: its holder may go on until somebody takes it
        with psycopg.connect(world.conninfo) as beside:
            beside.execute(f"LOCK TABLE {world.schema}.wake_ups IN EXCLUSIVE MODE".encode())
            wake_up = WakeUp(run_id=R1, key="k", due="2026-01-01T12:00:00.000000Z")
            asked = world.store.append(
                R1, [event("r1", "StepStarted", "a")], fence=lease.fence, set_wake_ups=[wake_up]
            )
            appending = asyncio.create_task(asked)
            await _somebody_waits_for(world, "wake_ups")
            claiming = asyncio.create_task(world.other.claim(R1, owner="successor", ttl=TTL))
            assert await world.other.claim_of_pool("p", owner="recovery", ttl=TTL) == []
            assert not claiming.done()
        assert (await appending)[0].record.run_seq == 3
        taken = await claiming
        assert taken is not None
        assert taken.fence.generation == lease.fence.generation + 1

    world.run(scenario())


def test_a_cancelled_append_leaves_nothing_behind(world: PostgresWorld) -> None:
    async def scenario() -> None:
        lease = await started(world.store)
        write = event("r1", "StepStarted", "a")
        with psycopg.connect(world.conninfo) as beside:
            beside.execute(f"LOCK TABLE {world.schema}.events IN EXCLUSIVE MODE".encode())
            appending = asyncio.create_task(world.store.append(R1, [write], fence=lease.fence))
            await _somebody_waits_for(world, "events")
            appending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await appending
        assert (await world.other.get_run(R1)).head == 2
        assert not (await world.store.append(R1, [write], fence=lease.fence))[0].duplicate

    world.run(scenario())


def test_texts_that_postgres_cannot_keep_are_refused_in_our_words(world: PostgresWorld) -> None:
    async def scenario() -> None:
        await world.store.add_bus("kafka")
        await started(world.store)
        for unknown in ("a\0b", "a\ud800b", ""):
            with pytest.raises(RunNotFound):
                await world.store.get_run(RunId(unknown))
            with pytest.raises(RunNotFound):
                await world.store.runs.find("default", unknown)
        for bad in ("a\0b", "a\ud800b"):
            with pytest.raises(InvalidId):
                await world.store.claim(R1, owner=bad, ttl=TTL, attempt="x|1")
            assert await world.store.runs.page(bad, RunQuery()) == RunPage(runs=(), cursor=None)
            claim = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
            assert claim is not None
            assert await world.store.failed(claim, bad, retry_in=timedelta(0))
        assert [line.failures for line in await world.store.outbox_lines()] == [2]

    world.run(scenario())


def test_a_claim_takes_one_line_whatever_plan_the_server_makes(world: PostgresWorld) -> None:
    """For a table that is said to have one row, PostgreSQL reads a part of a statement again for every row it has."""

    async def scenario() -> None:
        await world.store.add_bus("kafka")
        await started(world.store, "r1")
        await world.store.vacuum()  # counts the lines
        for name in ("r2", "r3", "r4"):
            await started(world.store, name)
        claimed = [await world.store.claim_line("kafka", owner="relay", ttl=TTL) for _ in range(5)]
        assert [claim and claim.run_id for claim in claimed] == ["r1", "r2", "r3", "r4", None]

    world.run(scenario())


def test_where_nobody_listens_the_store_says_what_to_do(world: PostgresWorld) -> None:
    nowhere = "host=127.0.0.1 port=1 dbname=podium"
    with pytest.raises(StoreUnavailable, match="check that the server runs"):
        world.run(PostgresStore.open(nowhere))
    with pytest.raises(InvalidId, match="schema"):
        world.run(PostgresStore.open(nowhere, schema='x"; DROP'))


def test_more_callers_than_connections_wait_their_turn(world: PostgresWorld) -> None:
    async def scenario() -> None:
        store = await PostgresStore.open(world.conninfo, schema=world.schema, connections=2)
        await store.create_run(new_run("r1"), [])
        found = await asyncio.gather(*(store.get_run(R1) for _ in range(50)))
        assert len(found) == 50
        connected = world.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'podium' AND query LIKE '%run_id = $1'"
        )
        assert connected[0][0] <= 2
        await store.vacuum()
        await store.close()

    world.run(scenario())


async def _somebody_waits_for(world: PostgresWorld, table: str) -> None:
    async with asyncio.timeout(60):
        while not world.execute(
            f"SELECT 1 FROM pg_locks WHERE NOT granted AND relation = '{table}'::regclass"
        ):
            await asyncio.sleep(0.01)
