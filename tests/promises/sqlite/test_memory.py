"""A store that is in use for weeks takes as much memory as after an hour."""

import asyncio
from pathlib import Path

import apsw

from podium.log.ids import RunId
from podium.stores.sqlite import SqliteStore
from podium.testing.events import event, new_run

MIB = 1024 * 1024


def test_the_pages_that_connections_keep_take_a_few_megabytes(tmp_path: Path) -> None:
    async def scenario() -> None:
        before = apsw.memory_used()
        store = await SqliteStore.open(tmp_path / "podium.db")
        for number in range(24):
            await store.create_run(new_run(f"r{number}"), [], {"plan": bytes([number]) * MIB})
        assert apsw.memory_used() - before < 10 * MIB
        await store.free_memory()
        assert apsw.memory_used() - before < 2 * MIB
        assert (await store.get_run(RunId("r23"))).identity.run_id == "r23"
        await store.close()

    asyncio.run(scenario())


def test_only_so_many_runs_are_known_by_the_writer(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "podium.db")
        for start in range(0, 1500, 100):
            await asyncio.gather(*(append_to_new_run(store, f"r{start + number}") for number in range(100)))
        assert len(store._writer.known_runs) <= 1000
        await store.close()

    asyncio.run(scenario())


async def append_to_new_run(store: SqliteStore, run_id: str) -> None:
    await store.create_run(new_run(run_id), [])
    await store.append(RunId(run_id), [event(run_id, "RunQueued")])
