"""The store in PostgreSQL, as the port requires it; each part is a module beside this one."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from podium.errors import InvalidId, RunNotFound, StoreUnavailable
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.runs import Run, RunPage, RunQuery
from podium.ports.changes import RunChanges
from podium.stores import texts
from podium.stores.feed import position_of
from podium.stores.postgres import feed, migrations
from podium.stores.postgres.audit import PostgresAudit
from podium.stores.postgres.checkpoints import PostgresCheckpoints
from podium.stores.postgres.connections import Connections
from podium.stores.postgres.contents import PostgresContents
from podium.stores.postgres.endpoints import PostgresEndpoints
from podium.stores.postgres.feed import PostgresFeed
from podium.stores.postgres.fleet import PostgresFleet
from podium.stores.postgres.leases import PostgresLeases
from podium.stores.postgres.limits import PostgresLimits
from podium.stores.postgres.listening import EVERY_RUN, Listener
from podium.stores.postgres.log import PostgresLog
from podium.stores.postgres.outbox import PostgresOutbox
from podium.stores.postgres.plans import PostgresPlans
from podium.stores.postgres.pools import PostgresPools
from podium.stores.postgres.rows import RUN, askable, run_of
from podium.stores.postgres.schedules import PostgresSchedules
from podium.stores.postgres.sessions import PostgresSessions
from podium.stores.postgres.snapshots import PostgresSnapshots
from podium.stores.postgres.tenant_states import PostgresTenants
from podium.stores.postgres.tokens import PostgresTokens
from podium.stores.postgres.upkeep import PostgresUpkeep

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}")


class PostgresStore(
    PostgresLog,
    PostgresFeed,
    PostgresAudit,
    PostgresTokens,
    PostgresSessions,
    PostgresTenants,
    PostgresContents,
    PostgresLeases,
    PostgresPools,
    PostgresLimits,
    PostgresFleet,
    PostgresSnapshots,
    PostgresCheckpoints,
    PostgresOutbox,
    PostgresUpkeep,
    PostgresEndpoints,
    PostgresSchedules,
):
    """Opened by `await PostgresStore.open(conninfo)`; belongs to the event loop it was opened on."""

    def __init__(self, connections: Connections, listener: Listener) -> None:
        self._connections = connections
        self._listener = listener

    @classmethod
    async def open(
        cls,
        conninfo: str,
        *,
        schema: str = "podium",
        connections: int = 8,
        budget: timedelta = timedelta(seconds=3),
        look_again_every: timedelta = timedelta(seconds=2),
    ) -> "PostgresStore":
        """Connect, and bring the schema up to date.

        `connections`: the maximum number of connections, plus one that listens. `budget`: how long an
        operation may take before it is `StoreUnavailable`. `look_again_every`: how often a watcher checks by
        itself, in case a notification is lost.
        """
        if not _SCHEMA.fullmatch(schema):
            raise InvalidId(
                f"schema {schema!a} is not a valid name: use at most 40 lower-case letters, digits and _"
            )
        shared = Connections(
            conninfo,
            schema=schema,
            most=connections,
            budget=budget.total_seconds(),
            schema_version=migrations.KNOWN[-1].number,
        )
        await migrations.migrate(shared)
        return cls(shared, Listener(shared, look_again_every=look_again_every.total_seconds()))

    @property
    def runs(self) -> "PostgresTenantRuns":
        return PostgresTenantRuns(self, self._connections)

    @property
    def plans(self) -> PostgresPlans:
        return PostgresPlans(self._connections)

    # --- the log ----------------------------------------------------------------------------------

    async def watch(self, run_id: RunId, *, after: int = 0) -> AsyncIterator[list[EventRecord]]:
        """Continues automatically after the server was unavailable: what was appended is still there."""
        async with self._listener.watching(run_id) as news:
            while True:
                news.clear()  # before reading, so that events during the read are not missed
                try:
                    records = await self.read(run_id, after=after)
                except StoreUnavailable:
                    await self._listener.wait(news)
                    continue
                if records:
                    after = records[-1].run_seq
                    yield records
                else:
                    await self._listener.wait(news)

    async def changes(self, *, after: str | None = None) -> AsyncIterator[RunChanges]:
        """Continues automatically after the server was unavailable."""
        oldest, following = await feed.bounds(self._connections)
        position = oldest if after is None else position_of(after)
        is_reset = position > following
        position = oldest if is_reset else position
        # What was returned with the previous batch, and is read again.
        heads: dict[str, int] = {}
        is_first = True
        async with self._listener.watching(EVERY_RUN) as news:
            while True:
                news.clear()
                try:
                    batch = await feed.read(self._connections, position)
                except StoreUnavailable:
                    await self._listener.wait(news)
                    continue
                runs = tuple(run for run in batch.runs if heads.get(run.identity.run_id) != run.head)
                heads = {run.identity.run_id: run.head for run in batch.runs}
                follows, position = batch.is_full and batch.after > position, batch.after
                if runs or is_first:
                    yield RunChanges(runs, str(position), is_reset)
                    is_first = is_reset = False
                elif not follows:
                    await self._listener.wait(news)

    # --- maintenance ------------------------------------------------------------------------------

    async def backup(self, path: Path) -> None:
        """Not supported: PostgreSQL has a tool for it that handles every version and every kind of login."""
        raise StoreUnavailable(
            f"a store in PostgreSQL is copied by its own tool: "
            f"pg_dump --format=custom --schema={self._connections.schema} --file={path} DATABASE"
        )

    async def close(self) -> None:
        await self._listener.close()
        await self._connections.close()


class PostgresTenantRuns:
    """Requests on behalf of a tenant; every statement here names the tenant."""

    def __init__(self, store: PostgresStore, connections: Connections) -> None:
        self._store = store
        self._connections = connections

    async def find(self, tenant_id: str, run_id: str) -> Run:
        askable(run_id)
        if not texts.could_be_kept(tenant_id):
            raise RunNotFound(run_id)
        rows = await self._select("r.run_id = %(run_id)s", tenant_id, {"run_id": run_id})
        if not rows:
            raise RunNotFound(run_id)
        return rows[0][1]

    async def page(self, tenant_id: str, query: RunQuery) -> RunPage:
        from podium.stores.postgres import tenants

        return await tenants.page(self._connections, tenant_id, query)

    async def _select(self, condition: str, tenant_id: str, asked: dict[str, Any]) -> list[tuple[int, Run]]:
        query = f"SELECT {RUN} FROM runs r WHERE r.tenant_id = %(tenant_id)s AND {condition}"
        async with self._connections.lend() as connection:
            found = await connection.execute(query.encode(), {**asked, "tenant_id": tenant_id}, binary=True)
            return [run_of(row) for row in await found.fetchall()]
