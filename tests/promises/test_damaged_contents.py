"""A content whose bytes have changed in the database is never handed out, and `podium store check` names it."""

import asyncio
from pathlib import Path

import apsw
import pytest

from podium.errors import ContentDamaged
from podium.log.ids import RunId
from podium.stores.memory import MemoryStore
from podium.stores.sqlite import SqliteStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event, new_run
from podium.testing.store_promises import TTL

R1 = RunId("r1")


def test_sqlite(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "podium.db")
        await store.create_run(new_run("r1"), [], {"plan.json": b"plan"})
        raw = apsw.Connection(str(tmp_path / "podium.db"))
        raw.execute("UPDATE contents SET content = x'00'")
        raw.close()
        with pytest.raises(ContentDamaged, match=r"plan\.json"):
            await store.kept(R1, "plan.json")
        assert any("another SHA-256" in problem for problem in await store.problems())
        await store.close()

    asyncio.run(scenario())


def test_memory() -> None:
    async def scenario() -> None:
        store = MemoryStore(VirtualClock())
        await store.create_run(new_run("r1"), [], {"plan.json": b"plan"})
        store._contents = dict.fromkeys(store._contents, b"other")
        with pytest.raises(ContentDamaged):
            await store.kept(R1, "plan.json")

    asyncio.run(scenario())


def test_contents_of_a_removed_run_go_bit_by_bit(tmp_path: Path) -> None:
    """More than one transaction removes."""

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "podium.db")
        await store.create_run(new_run("r1"), [], {f"values/{n}": bytes([n]) for n in range(70)})
        lease = await store.claim(R1, owner="driver", ttl=TTL)
        assert lease is not None
        await store.append(R1, [event("r1", "RunCancelled")], fence=lease.fence)
        await store.prune(R1)
        assert await store.problems() == []
        await store.close()
        raw = apsw.Connection(str(tmp_path / "podium.db"))
        assert raw.execute("SELECT count(*) FROM contents").get == 0
        raw.close()

    asyncio.run(scenario())
