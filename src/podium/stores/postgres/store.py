"""The store in PostgreSQL, as the port asks for it; each part is a module beside this one."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from podium.errors import InvalidId, RunNotFound, StoreUnavailable
from podium.log.checkpoints import Checkpoint
from podium.log.engines import LOCAL, EngineRunRef
from podium.log.events import EventRecord, EventWrite
from podium.log.ids import RunId
from podium.log.leases import AttemptClaim, Fence, HeldLease, Lease, WakeUp
from podium.log.outbox import BusFilter, DeadLetter, OutboxClaim, OutboxLine
from podium.log.runs import NewRun, Run, RunPage, RunQuery
from podium.log.snapshots import RunSummary, StepSnapshot
from podium.log.times import Timestamp
from podium.log.workers import PoolLoad, QueuedRun, Worker, WorkerReport
from podium.ports.changes import RunChanges
from podium.ports.store import (
    NO_CONTENTS,
    AppendedEvent,
    Claimed,
    CreatedRun,
    KeptContent,
    Limit,
    SlotLine,
    StartedAttempt,
    StoreStats,
)
from podium.stores import texts
from podium.stores.feed import position_of
from podium.stores.postgres import (
    checkpoints,
    leases,
    limits,
    log,
    migrations,
    outbox,
    snapshots,
    tenant_states,
    upkeep,
)
from podium.stores.postgres import contents as contents_sql
from podium.stores.postgres.connections import Connections
from podium.stores.postgres.endpoints import PostgresEndpoints
from podium.stores.postgres.listening import EVERY_RUN, Listener
from podium.stores.postgres.plans import PostgresPlans
from podium.stores.postgres.rows import RUN, askable, run_of
from podium.stores.postgres.schedules import PostgresSchedules

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft, AuditHead, AuditRecord
    from podium.access.sessions import LoginCode, StoredSession
    from podium.access.stored_tokens import StoredToken
    from podium.access.tenants import TenantState

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}")


class PostgresStore(PostgresEndpoints, PostgresSchedules):
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

        `connections` is the most at once, besides one that listens. `budget` is how long an operation may take
        before it is `StoreUnavailable`. `look_again_every` is how often a watcher looks for itself, should a
        notification be lost.
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

    async def create_run(
        self,
        new: NewRun,
        writes: Sequence[EventWrite],
        contents: Mapping[str, bytes] = NO_CONTENTS,
        *,
        audit: "Sequence[AuditDraft]" = (),
    ) -> CreatedRun:
        return await log.create_run(self._connections, new, writes, contents, audit=audit)

    async def append(
        self,
        run_id: RunId,
        writes: Sequence[EventWrite],
        *,
        fence: Fence | None = None,
        after: int | None = None,
        set_wake_ups: Sequence[WakeUp] = (),
        drop_wake_ups: Sequence[str] = (),
        audit: "Sequence[AuditDraft]" = (),
    ) -> tuple[AppendedEvent, ...]:
        return await log.append(
            self._connections,
            run_id,
            writes,
            fence=fence,
            after=after,
            set_wake_ups=set_wake_ups,
            drop_wake_ups=drop_wake_ups,
            audit=audit,
        )

    async def read(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> list[EventRecord]:
        return await log.read(self._connections, run_id, after=after, limit=limit)

    async def find(self, run_id: RunId, keys: Sequence[str]) -> list[EventRecord]:
        return await log.find(self._connections, run_id, keys)

    async def watch(self, run_id: RunId, *, after: int = 0) -> AsyncIterator[list[EventRecord]]:
        """Continues by itself when the server was away: what was appended is still there."""
        async with self._listener.watching(run_id) as news:
            while True:
                news.clear()  # before reading, so that what comes meanwhile is not missed
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
        """Continues by itself when the server was away."""
        from podium.stores.postgres import feed

        oldest, following = await feed.bounds(self._connections)
        position = oldest if after is None else position_of(after)
        is_reset = position > following
        position = oldest if is_reset else position
        # What was given with the batch before, and is read again.
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

    async def save_position(self, reader: str, cursor: str) -> None:
        from podium.stores.postgres import feed

        await feed.save_position(self._connections, reader, cursor)

    async def load_position(self, reader: str) -> str | None:
        from podium.stores.postgres import feed

        return await feed.load_position(self._connections, reader)

    async def get_run(self, run_id: RunId) -> Run:
        return await log.get_run(self._connections, run_id)

    async def set_engine(self, run_id: RunId, engine: EngineRunRef, *, fence: Fence) -> None:
        await log.set_engine(self._connections, run_id, engine, fence)

    async def run_of_engine(self, provider: str, workflow_id: str, provider_run_id: str = "") -> Run | None:
        return await log.run_of_engine(self._connections, (provider, workflow_id, provider_run_id))

    async def open_runs(self, provider: str, *, after: str = "", limit: int = 100) -> list[Run]:
        return await log.open_runs(self._connections, provider, after, limit)

    # --- the audit log ----------------------------------------------------------------------------

    async def record_audit(self, drafts: "Sequence[AuditDraft]") -> None:
        from podium.stores.postgres import audit

        await audit.record_alone(self._connections, drafts)

    async def read_audit(self, tenant_id: str, *, after: int = 0, limit: int = 1000) -> "list[AuditRecord]":
        from podium.stores.postgres import audit

        return await audit.read(self._connections, tenant_id, after=after, limit=limit)

    async def audit_tenants(self) -> list[str]:
        from podium.stores.postgres import audit

        return await audit.tenants(self._connections)

    async def audit_head(self, tenant_id: str) -> "AuditHead | None":
        from podium.stores.postgres import audit

        return await audit.head(self._connections, tenant_id)

    # --- tokens -----------------------------------------------------------------------------------

    async def add_token(
        self, token: "StoredToken", *, only_first: bool = False, audit: "Sequence[AuditDraft]" = ()
    ) -> bool:
        from podium.stores.postgres import tokens

        return await tokens.add(self._connections, token, only_first, audit)

    async def find_token(self, token_id: str) -> "StoredToken | None":
        from podium.stores.postgres import tokens

        return await tokens.find(self._connections, token_id)

    async def list_tokens(self, tenant_id: str) -> "list[StoredToken]":
        from podium.stores.postgres import tokens

        return await tokens.list_all(self._connections, tenant_id)

    async def remove_token(
        self, tenant_id: str, token_id: str, *, audit: "Sequence[AuditDraft]" = ()
    ) -> bool:
        from podium.stores.postgres import tokens

        return await tokens.remove(self._connections, tenant_id, token_id, audit)

    async def note_token_use(self, token_id: str, at: Timestamp) -> None:
        from podium.stores.postgres import tokens

        await tokens.note_use(self._connections, token_id, at)

    # --- sessions ---------------------------------------------------------------------------------

    async def add_session(self, session: "StoredSession", *, now: Timestamp) -> bool:
        from podium.stores.postgres import sessions

        return await sessions.add(self._connections, session, now)

    async def find_session(self, sha256: str) -> "StoredSession | None":
        from podium.stores.postgres import sessions

        return await sessions.find(self._connections, sha256)

    async def remove_session(self, sha256: str) -> None:
        from podium.stores.postgres import sessions

        await sessions.remove(self._connections, sha256)

    async def add_login_code(self, code: "LoginCode") -> bool:
        from podium.stores.postgres import sessions

        return await sessions.add_code(self._connections, code)

    async def take_login_code(self, sha256: str) -> "LoginCode | None":
        from podium.stores.postgres import sessions

        return await sessions.take_code(self._connections, sha256)

    # --- tenants ----------------------------------------------------------------------------------

    async def open_tenant(self, tenant_id: str, at: Timestamp, *, audit: "Sequence[AuditDraft]" = ()) -> bool:
        return await tenant_states.open_(self._connections, tenant_id, at, audit)

    async def close_tenant(
        self, tenant_id: str, at: Timestamp, *, audit: "Sequence[AuditDraft]" = ()
    ) -> bool:
        return await tenant_states.close(self._connections, tenant_id, at, audit)

    async def tenant_states(self) -> "list[TenantState]":
        return await tenant_states.states(self._connections)

    # --- contents ---------------------------------------------------------------------------------

    async def keep(self, run_id: RunId, contents: Mapping[str, bytes]) -> None:
        await contents_sql.keep(self._connections, run_id, contents)

    async def kept(self, run_id: RunId, name: str) -> bytes:
        return await contents_sql.read(self._connections, run_id, name)

    async def list_kept(self, run_id: RunId) -> list[KeptContent]:
        return await contents_sql.list_kept(self._connections, run_id)

    # --- leases and the queue ---------------------------------------------------------------------

    async def claim(
        self,
        run_id: RunId,
        *,
        owner: str,
        ttl: timedelta | None,
        attempt: str = "",
        slots: int | None = None,
        takes_over: str | None = None,
    ) -> Lease | None:
        return await leases.claim(
            self._connections,
            run_id,
            owner=owner,
            ttl=ttl,
            attempt=attempt,
            slots=slots,
            takes_over=takes_over,
        )

    async def start_attempt(
        self,
        run_id: RunId,
        writes: Sequence[EventWrite],
        *,
        fence: Fence,
        claim: AttemptClaim,
        set_wake_ups: Sequence[WakeUp] = (),
        drop_wake_ups: Sequence[str] = (),
    ) -> StartedAttempt:
        return await log.start_attempt(
            self._connections,
            run_id,
            writes,
            fence=fence,
            claim=claim,
            set_wake_ups=set_wake_ups,
            drop_wake_ups=drop_wake_ups,
        )

    async def slot_line(self, run_id: RunId) -> SlotLine:
        return await leases.slot_line(self._connections, run_id)

    async def renew(self, lease: Lease, *, ttl: timedelta | None) -> Lease | None:
        return await leases.renew(self._connections, lease, ttl=ttl)

    async def release(self, lease: Lease) -> None:
        await leases.release(self._connections, lease)

    async def held_lease(self, run_id: RunId) -> HeldLease | None:
        return await leases.held_lease(self._connections, run_id)

    async def held_attempts(self, run_id: RunId) -> list[HeldLease]:
        return await leases.held_attempts(self._connections, run_id)

    async def claim_next(self, *, owner: str, ttl: timedelta | None, provider: str = LOCAL) -> Claimed | None:
        return await leases.claim_next(self._connections, owner=owner, ttl=ttl, provider=provider)

    async def claim_lapsed(
        self, *, owner: str, ttl: timedelta | None, provider: str = LOCAL
    ) -> Claimed | None:
        return await leases.claim_lapsed(self._connections, owner=owner, ttl=ttl, provider=provider)

    async def claim_of_pool(
        self,
        pool: str,
        *,
        owner: str,
        ttl: timedelta,
        limit: int = 1,
        tenants: frozenset[str] | None = None,
    ) -> list[Claimed]:
        from podium.stores.postgres import pools

        return await pools.claim(self._connections, pool, owner=owner, ttl=ttl, limit=limit, tenants=tenants)

    async def renew_all(self, leases: Sequence[Lease], *, ttl: timedelta) -> list[Lease]:
        from podium.stores.postgres import pools

        return await pools.renew_all(self._connections, leases, ttl=ttl)

    async def park(self, lease: Lease, *, after: int, until: Timestamp | None) -> bool:
        from podium.stores.postgres import pools

        return await pools.park(self._connections, lease, after, until)

    async def moved(self, heads: Mapping[RunId, int]) -> list[RunId]:
        from podium.stores.postgres import pools

        return await pools.moved(self._connections, heads)

    async def set_limit(self, limit: Limit) -> None:
        await limits.set_limit(self._connections, limit)

    async def limits(self, tenant_id: str) -> list[Limit]:
        return await limits.limits(self._connections, tenant_id)

    async def remove_limit(self, tenant_id: str, scope: str, name: str) -> bool:
        return await limits.remove_limit(self._connections, tenant_id, scope, name)

    # --- queues and workers -----------------------------------------------------------------------

    async def queued(
        self, tenant_id: str, pool: str, *, after: str = "", limit: int = 100
    ) -> list[QueuedRun]:
        from podium.stores.postgres import fleet

        return await fleet.queued(self._connections, tenant_id, pool, after, limit)

    async def queue_position(self, run_id: RunId) -> int | None:
        from podium.stores.postgres import fleet

        return await fleet.position(self._connections, run_id)

    async def held_back_by(self, run_id: RunId) -> str | None:
        from podium.stores.postgres import pools

        return await pools.held_back_by(self._connections, run_id)

    async def open_of_key(self, tenant_id: str, concurrency_key: str) -> list[Run]:
        from podium.stores.postgres import fleet

        return await fleet.open_of_key(self._connections, tenant_id, concurrency_key)

    async def pool_loads(self, tenant_id: str) -> list[PoolLoad]:
        from podium.stores.postgres import fleet

        return await fleet.pool_loads(self._connections, tenant_id)

    async def report_worker(self, report: WorkerReport) -> bool:
        from podium.stores.postgres import fleet

        return await fleet.report(self._connections, report)

    async def workers(self) -> list[Worker]:
        from podium.stores.postgres import fleet

        return await fleet.workers(self._connections)

    async def drain_worker(self, worker_id: str) -> bool:
        from podium.stores.postgres import fleet

        return await fleet.drain(self._connections, worker_id)

    async def remove_worker(self, worker_id: str) -> None:
        from podium.stores.postgres import fleet

        await fleet.remove(self._connections, worker_id)

    # --- wake-ups and snapshots -------------------------------------------------------------------

    async def due(self, before: Timestamp, *, limit: int = 100, provider: str | None = None) -> list[WakeUp]:
        return await log.due(self._connections, before, limit, provider)

    async def save_snapshot(
        self, run_id: RunId, summary: RunSummary, changed_steps: Sequence[StepSnapshot]
    ) -> None:
        await snapshots.save(self._connections, run_id, summary, changed_steps)

    async def load_summary(self, run_id: RunId) -> RunSummary | None:
        return await snapshots.load_summary(self._connections, run_id)

    async def load_summaries(self, run_ids: Sequence[RunId]) -> list[RunSummary]:
        return await snapshots.load_summaries(self._connections, run_ids)

    async def load_steps(self, run_id: RunId, *, after: str = "", limit: int = 100) -> list[StepSnapshot]:
        return await snapshots.load_steps(self._connections, run_id, after=after, limit=limit)

    async def find_steps(self, run_id: RunId, step_ids: Sequence[str]) -> list[StepSnapshot]:
        return await snapshots.find_steps(self._connections, run_id, step_ids)

    async def save_checkpoint(self, run_id: RunId, checkpoint: Checkpoint) -> None:
        await checkpoints.save(self._connections, run_id, checkpoint)

    async def load_checkpoint(self, run_id: RunId) -> Checkpoint | None:
        return await checkpoints.load(self._connections, run_id)

    # --- the outbox -------------------------------------------------------------------------------

    async def add_bus(self, bus: str, *, from_start: bool = False, only: BusFilter | None = None) -> None:
        await outbox.add_bus(self._connections, bus, from_start=from_start, only=only)

    async def remove_bus(self, bus: str) -> None:
        await outbox.remove_bus(self._connections, bus)

    async def claim_line(
        self, bus: str, *, owner: str, ttl: timedelta, limit: int = 100
    ) -> OutboxClaim | None:
        return await outbox.claim_line(self._connections, bus, owner=owner, ttl=ttl, limit=limit)

    async def delivered(self, claim: OutboxClaim, through_seq: int) -> bool:
        return await outbox.delivered(self._connections, claim, through_seq)

    async def failed(self, claim: OutboxClaim, error: str, *, retry_in: timedelta | None) -> bool:
        return await outbox.failed(self._connections, claim, error, retry_in)

    async def outbox_lines(self, bus: str | None = None) -> list[OutboxLine]:
        return await outbox.lines(self._connections, bus)

    async def dead_letters(self, bus: str | None = None) -> list[DeadLetter]:
        return await outbox.dead_letters(self._connections, bus)

    async def retry_dead(self, bus: str, run_id: RunId, run_seq: int) -> bool:
        return await outbox.retry_dead(self._connections, bus, run_id, run_seq)

    async def drop_dead(self, bus: str, run_id: RunId, run_seq: int) -> bool:
        return await outbox.drop_dead(self._connections, bus, run_id, run_seq)

    # --- maintenance ------------------------------------------------------------------------------

    async def store_id(self) -> str:
        return await upkeep.store_id(self._connections)

    async def prune(self, run_id: RunId) -> None:
        await upkeep.prune(self._connections, run_id)

    async def stats(self) -> StoreStats:
        return await upkeep.stats(self._connections)

    async def problems(self) -> list[str]:
        return await upkeep.problems(self._connections)

    async def vacuum(self) -> None:
        await upkeep.vacuum(self._connections)

    async def backup(self, path: Path) -> None:
        """Not ours to do: PostgreSQL has a tool for it that knows every version and every login."""
        raise StoreUnavailable(
            f"a store in PostgreSQL is copied by its own tool: "
            f"pg_dump --format=custom --schema={self._connections.schema} --file={path} DATABASE"
        )

    async def close(self) -> None:
        await self._listener.close()
        await self._connections.close()


class PostgresTenantRuns:
    """What one may ask on behalf of a tenant; every statement here says whose."""

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
