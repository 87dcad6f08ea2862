"""The store in one SQLite file.

Every change is made in a write transaction of `writer.py`; reads use a connection of their own and never wait
for writers. Each part of the port is a module `store_*.py`, which names the module with its statements; the
tables are explained in `migrations/`.

A store belongs to the event loop it was opened on. Several stores, in one process or in many, may share a
file.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from podium.log.ids import RunId
from podium.log.runs import Run, RunPage, RunQuery
from podium.ports.store import StoreStats
from podium.stores.sqlite.endpoints import SqliteEndpoints
from podium.stores.sqlite.schedules import SqliteSchedules
from podium.stores.sqlite.store_access import SqliteAccess
from podium.stores.sqlite.store_fleet import SqliteFleet
from podium.stores.sqlite.store_leases import SqliteLeases
from podium.stores.sqlite.store_log import SqliteLog
from podium.stores.sqlite.store_outbox import SqliteOutbox
from podium.stores.sqlite.store_snapshots import SqliteSnapshots

if TYPE_CHECKING:
    from podium.stores.sqlite.plans import SqlitePlans


class SqliteStore(
    SqliteLog,
    SqliteAccess,
    SqliteLeases,
    SqliteFleet,
    SqliteSnapshots,
    SqliteOutbox,
    SqliteEndpoints,
    SqliteSchedules,
):
    """Implements `podium.ports.store.Store`. Made by `await SqliteStore.open(path)`."""

    @property
    def runs(self) -> "SqliteTenantRuns":
        return SqliteTenantRuns(self)

    @property
    def plans(self) -> "SqlitePlans":
        from podium.stores.sqlite.plans import SqlitePlans

        return SqlitePlans(self, self._writer)

    async def store_id(self) -> str:
        return str(self.query(lambda db: db.execute("SELECT id FROM store_id").get))

    async def prune(self, run_id: RunId) -> None:
        from podium.stores.sqlite import maintenance

        await self._writer.write(
            lambda db: maintenance.remove(db, self._writer.moment, run_id), touches=run_id
        )
        while await self._writer.write(maintenance.remove_some):
            await asyncio.sleep(0)  # other tasks run in between, and it can be cancelled

    async def stats(self) -> StoreStats:
        from podium.stores.sqlite import maintenance

        return await self.scan(maintenance.stats)

    async def problems(self) -> list[str]:
        from podium.stores.sqlite import maintenance

        return await self._in_thread(lambda: maintenance.all_problems(self._database))

    async def backup(self, target: Path) -> None:
        """Copy the current state of the database while others keep writing."""
        from podium.stores.sqlite import maintenance

        await self._in_thread(lambda: maintenance.backup(self._database, target))

    async def free_memory(self) -> None:
        self.query(lambda db: db.release_memory())
        await self._writer.alone(lambda db: db.release_memory())

    async def vacuum(self) -> None:
        """Return the space of removed runs to the file system. Blocks writers while it runs."""
        await self._writer.alone(lambda db: db.execute("VACUUM").fetchall())


class SqliteTenantRuns:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def find(self, tenant_id: str, run_id: str) -> Run:
        from podium.stores.sqlite import tenants

        return self._store.query(lambda db: tenants.find(db, tenant_id, run_id))

    async def page(self, tenant_id: str, query: RunQuery) -> RunPage:
        from podium.stores.listing import could_match, place_of
        from podium.stores.sqlite import tenants

        place_of(query)
        if not could_match(tenant_id, query):
            return RunPage(runs=(), cursor=None)
        return await self._store.scan(lambda db: tenants.page(db, tenant_id, query))
