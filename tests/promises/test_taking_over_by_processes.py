"""Several processes take runs over, work on them, and park them or give them up: never two at the same time."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from uuid import uuid4

import psycopg

from podium.log.ids import RunId
from podium.ports.store import Store
from podium.stores.postgres import PostgresStore
from podium.stores.sqlite import SqliteStore
from podium.testing.events import new_run
from services.postgres import PostgresServer
from tests.promises.sqlite import writing

RUNS = [RunId(f"r{number}") for number in range(4)]
SLOTS = 2
# No lease lapses in this test, however slow the machine.
TTL = timedelta(hours=1)
Open = Callable[[], Awaitable[Store]]


def test_processes_on_one_file(tmp_path: Path) -> None:
    async def open_store() -> Store:
        return await SqliteStore.open(tmp_path / "podium.db", patience=timedelta(seconds=60))

    _check(open_store, tmp_path)


def test_processes_on_one_schema(tmp_path: Path, shared_postgres: PostgresServer) -> None:
    schema = f"test_{uuid4().hex}"

    async def open_store() -> Store:
        budget = timedelta(seconds=60)
        return await PostgresStore.open(shared_postgres.conninfo, schema=schema, budget=budget)

    try:
        _check(open_store, tmp_path)
    finally:
        with psycopg.connect(shared_postgres.conninfo, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def _check(open_store: Open, folder: Path) -> None:
    asyncio.run(_prepare(open_store))
    workers = [
        writing.fork(lambda pipe, w=worker: asyncio.run(_work(open_store, folder, w, pipe)))  # type: ignore[misc]
        for worker in range(4)
    ]
    said = [line for _, pipe in workers for line in writing.lines_of(pipe)]
    for child, _ in workers:
        os.waitpid(child, 0)
    assert [line for line in said if line.startswith("!")] == []
    # Each claim of a run has a generation of its own, and something happened.
    assert len(set(said)) == len(said) >= 10


async def _prepare(open_store: Open) -> None:
    store = await open_store()
    for name in RUNS:
        await store.create_run(new_run(name, concurrency_key="k"), [])
    await store.close()


async def _work(open_store: Open, folder: Path, worker: int, pipe: int) -> None:
    store, random = await open_store(), Random(worker)
    for number in range(60):
        name = random.choice(RUNS)
        owner, parked = f"w{worker}.{number}", f"parked/{name}"
        lease = await store.claim(name, owner=owner, ttl=TTL, slots=SLOTS, takes_over=parked)
        if lease is None:
            await asyncio.sleep(0)
            continue
        os.write(pipe, f"{name} {lease.fence.generation}\n".encode())
        _alone(folder / f"held-{name}", folder)
        # For so long that another one would be noticed.
        await asyncio.sleep(0.01 * random.random())
        (folder / f"held-{name}").unlink()
        if random.random() < 0.4:
            await store.release(lease)
        else:
            assert await store.claim(name, owner=parked, ttl=None, slots=SLOTS, takes_over=owner) is not None
    await store.close()


def _alone(mark: Path, folder: Path) -> None:
    """No other process works on this run, and no more than the slots allow on all of them."""
    os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    assert len(list(folder.glob("held-*"))) <= SLOTS
