"""The store in one SQLite file.

Everything that changes does so in a write transaction of `writer.py`; reads go through a connection of their own and
never wait for writers. What the statements say is in `appending.py`, `log.py`, `ownership.py`, `outbox.py`,
`snapshots.py`, `tenants.py` and `maintenance.py`; the tables are explained in `migrations/`.

A store belongs to the event loop it was opened on. Several stores, in one process or in many, may share a file.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import apsw

from podium.errors import StoreUnavailable
from podium.log.checkpoints import Checkpoint
from podium.log.engines import LOCAL, EngineRunRef, check_engine_ref
from podium.log.events import EventRecord, EventWrite
from podium.log.ids import RunId
from podium.log.leases import AttemptClaim, Fence, HeldLease, Lease, WakeUp
from podium.log.outbox import BusFilter, DeadLetter, OutboxClaim, OutboxLine
from podium.log.runs import NewRun, Run, RunPage, RunQuery, check_new_run
from podium.log.snapshots import RunSummary, StepSnapshot
from podium.log.times import Timestamp
from podium.ports.clock import Clock
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
from podium.stores import rules, texts
from podium.stores.sqlite import (
    checkpoints,
    log,
    migrations,
    outbox,
    ownership,
    snapshots,
)
from podium.stores.sqlite import contents as contents_sql
from podium.stores.sqlite.appending import Append
from podium.stores.sqlite.clock import BootClock, boot_id
from podium.stores.sqlite.connection import Database
from podium.stores.sqlite.filesystem import make_folder, refuse_network
from podium.stores.sqlite.lock import FileLock
from podium.stores.sqlite.lock_holder import describe_holder
from podium.stores.sqlite.moments import Moments
from podium.stores.sqlite.watching import Watching
from podium.stores.sqlite.writer import Writer
from podium.text import reason_of

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft, AuditHead, AuditRecord

_T = TypeVar("_T")

# Read in one go on the event loop; longer reads let others have a turn in between.
_BATCH_SIZE: Final = 200


class SqliteStore:
    """Implements `podium.ports.store.Store`. Made by `await SqliteStore.open(path)`."""

    def __init__(
        self, database: Database, lock: FileLock, moments: Moments, version: int, patience: float
    ) -> None:
        self._database = database
        self._lock = lock
        self._moments = moments
        self._reader = database.connect()
        self._watching = Watching(self._data_version)
        self._writer = Writer(
            database, lock, moments, version=version, patience=patience, on_commit=self._watching.notify
        )
        # For what takes long: lists, counts, checks.
        self._scans = ThreadPoolExecutor(max_workers=1, thread_name_prefix="podium-scan")
        self._closed = False

    @classmethod
    async def open(
        cls,
        path: Path | str,
        *,
        clock: Clock | None = None,
        boot: str | None = None,
        patience: timedelta = timedelta(seconds=10),
        vfs: str | None = None,
        synchronous: str = "FULL",
    ) -> "SqliteStore":
        """Open a database, making or migrating it if need be.

        `patience` is how long opening, and every write, waits for its turn before it raises `StoreUnavailable`. The
        clock, the boot id, the VFS and the level of `synchronous` are replaced by tests only.
        """
        database = Database(Path(path).absolute(), vfs, synchronous)
        moments = Moments(clock or BootClock(), boot if boot is not None else boot_id())
        return await asyncio.to_thread(cls._open, database, moments, patience.total_seconds())

    @classmethod
    def _open(cls, database: Database, moments: Moments, patience: float) -> "SqliteStore":
        path = database.path
        refuse_network(path.parent)
        try:
            make_folder(path.parent)
            lock = FileLock(path.with_name(path.name + ".lock"))
        except OSError as error:
            raise StoreUnavailable(
                f"{path} cannot be opened: {reason_of(error)}; choose a directory that can be written"
            ) from error
        try:
            version = cls._current_version(database)
            if version is None:
                version = cls._migrate(database, lock, moments, patience)
            return cls(database, lock, moments, version, patience)
        except apsw.Error as error:
            lock.close()
            raise database.translate_error(error) from error
        except BaseException:
            lock.close()
            raise

    @classmethod
    def _current_version(cls, database: Database) -> int | None:
        """None if it has to be made or migrated. To look takes no lock: a stopped writer keeps no one from opening."""
        try:
            if not database.path.stat().st_size:
                return None
        except OSError:
            return None
        db = database.connect()
        try:
            return migrations.current_version(db, database.path, migrations.known())
        finally:
            db.close()

    @classmethod
    def _migrate(cls, database: Database, lock: FileLock, moments: Moments, patience: float) -> int:
        path = database.path
        if not lock.take_within(patience):
            raise StoreUnavailable(
                f"{path} could not be opened for {patience:g} seconds, nothing was changed: another process has "
                f"the turn to write; {describe_holder(path)}"
            )
        try:
            db = database.connect()
            try:
                return migrations.migrate(db, path, moments().text, migrations.known())
            finally:
                db.close()
        finally:
            lock.release()

    @property
    def path(self) -> Path:
        return self._database.path

    @property
    def runs(self) -> "SqliteTenantRuns":
        return SqliteTenantRuns(self)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._watching.close()
        await self._writer.close()
        self._scans.shutdown(wait=True)
        self._reader.close()
        self._lock.close()

    # --- the log ----------------------------------------------------------------------------------

    async def create_run(
        self,
        new: NewRun,
        writes: Sequence[EventWrite],
        contents: Mapping[str, bytes] = NO_CONTENTS,
        *,
        audit: "Sequence[AuditDraft]" = (),
    ) -> CreatedRun:
        check_new_run(new)
        texts.check_texts_of_run(new)
        texts.check_contents(contents)
        texts.check_audit(audit)
        rules.check_writes(writes)
        prepared = rules.contents_of(contents)

        def change(db: apsw.Connection) -> CreatedRun:
            created, number = log.create_run(db, self._writer.moment, new, writes)
            if number is not None:
                contents_sql.keep(db, number, prepared)
                _record_audit(db, audit)
            return created

        return await self._writer.write(change, touches=new.identity.run_id)

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
        append = _checked_append(run_id, writes, fence, after, set_wake_ups, drop_wake_ups, audit)
        return await self._writer.append(append)

    async def read(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> list[EventRecord]:
        records = self._read(lambda db: log.read(db, run_id, after, min(limit, _BATCH_SIZE)))
        part = records
        while len(part) == _BATCH_SIZE and len(records) < limit:
            await asyncio.sleep(0)
            last, most = records[-1].run_seq, min(limit - len(records), _BATCH_SIZE)
            part = self._read(lambda db, last=last, most=most: log.read(db, run_id, last, most))  # type: ignore[misc]
            records += part
        return records

    async def find(self, run_id: RunId, keys: Sequence[str]) -> list[EventRecord]:
        return self._read(lambda db: log.find(db, run_id, rules.key_bytes(keys)))

    async def watch(self, run_id: RunId, *, after: int = 0) -> AsyncIterator[list[EventRecord]]:
        while True:
            # Only while it is waited for: a caller that is busy with what it has got needs no looking.
            with self._watching.on(run_id) as changed:
                while not (records := await self.read(run_id, after=after)):
                    await changed.wait()
                    changed.clear()
            after = records[-1].run_seq
            yield records

    async def get_run(self, run_id: RunId) -> Run:
        return self._read(lambda db: log.get_run(db, run_id))

    async def set_engine(self, run_id: RunId, engine: EngineRunRef, *, fence: Fence) -> None:
        check_engine_ref(engine, run_id)
        texts.check_engine(engine)
        await self._writer.write(lambda db: log.set_engine(db, run_id, engine, fence))

    async def run_of_engine(self, provider: str, workflow_id: str, provider_run_id: str = "") -> Run | None:
        ids = (provider, workflow_id, provider_run_id)
        if not texts.could_be_kept(*ids):
            return None
        return self._read(lambda db: log.run_of_engine(db, ids))

    async def open_runs(self, provider: str, *, after: str = "", limit: int = 100) -> list[Run]:
        return self._read(lambda db: log.open_runs(db, provider, after, limit))

    # --- the audit log ----------------------------------------------------------------------------

    async def record_audit(self, drafts: "Sequence[AuditDraft]") -> None:
        texts.check_audit(drafts)
        if drafts:
            await self._writer.write(lambda db: _record_audit(db, drafts))

    async def read_audit(self, tenant_id: str, *, after: int = 0, limit: int = 1000) -> "list[AuditRecord]":
        from podium.stores.sqlite import audit

        if not texts.could_be_kept(tenant_id):
            return []
        return await self._scan(lambda db: audit.read(db, tenant_id, after, limit))

    async def audit_tenants(self) -> list[str]:
        from podium.stores.sqlite import audit

        return await self._scan(audit.tenants)

    async def audit_head(self, tenant_id: str) -> "AuditHead | None":
        from podium.stores.sqlite import audit

        if not texts.could_be_kept(tenant_id):
            return None
        return self._read(lambda db: audit.head(db, tenant_id))

    # --- contents ---------------------------------------------------------------------------------

    async def keep(self, run_id: RunId, contents: Mapping[str, bytes]) -> None:
        texts.check_contents(contents)
        prepared = rules.contents_of(contents)
        await self._writer.write(lambda db: contents_sql.keep(db, log.number_of(db, run_id), prepared))

    async def kept(self, run_id: RunId, name: str) -> bytes:
        texts.check_name("the name of a content", name)
        return self._read(lambda db: contents_sql.read(db, run_id, name))

    async def list_kept(self, run_id: RunId) -> list[KeptContent]:
        return self._read(lambda db: contents_sql.list_kept(db, run_id))

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
        texts.check_holder(owner, attempt, takes_over)

        def change(db: apsw.Connection) -> Lease | None:
            at = self._writer.moment
            number = log.number_of(db, run_id)
            held = ownership.live_lease(db, at, number, run_id, attempt)
            if held is not None and held.owner == owner:
                return ownership.renew(db, at, held, ttl)
            if held is not None and held.owner != takes_over:
                return None
            # Whoever takes over a live run gets its slot with it.
            if held is None and not attempt:
                run = log.get_run(db, run_id)
                if ownership.full_limit(db, at, rules.scopes(run.identity, run.concurrency_key)):
                    return None
                if slots is not None and not rules.has_slot(ownership.slot_line(db, at, run), run_id, slots):
                    return None
            return ownership.take(db, at, number, run_id, owner, ttl, attempt)

        return await self._writer.write(change)

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
        # Loaded by workers: a run that this process drives has no attempts that others claim.
        from podium.stores.sqlite.attempts import start_attempt

        texts.check_holder(claim.owner, claim.name)
        append = _checked_append(run_id, writes, fence, None, set_wake_ups, drop_wake_ups)

        def change(db: apsw.Connection) -> StartedAttempt:
            return start_attempt(db, self._writer.moment, append, claim, self._writer.known_runs)

        return await self._writer.write(change, touches=run_id)

    async def renew(self, lease: Lease, *, ttl: timedelta | None) -> Lease | None:
        return await self._writer.write(lambda db: ownership.renew(db, self._writer.moment, lease, ttl))

    async def release(self, lease: Lease) -> None:
        await self._writer.write(
            lambda db: ownership.release(db, log.number_of(db, lease.run_id), lease.fence)
        )

    async def slot_line(self, run_id: RunId) -> SlotLine:
        return self._read(lambda db: ownership.slot_line(db, self._moments(), log.get_run(db, run_id)))

    async def held_lease(self, run_id: RunId) -> HeldLease | None:
        return self._read(
            lambda db: ownership.held_lease(db, self._moments(), log.number_of(db, run_id), run_id)
        )

    async def held_attempts(self, run_id: RunId) -> list[HeldLease]:
        return self._read(
            lambda db: ownership.held_attempts(db, self._moments(), log.number_of(db, run_id), run_id)
        )

    async def claim_next(self, *, owner: str, ttl: timedelta | None, provider: str = LOCAL) -> Claimed | None:
        return await self._claim_found(ownership.next_waiting, owner, ttl, provider)

    async def claim_lapsed(
        self, *, owner: str, ttl: timedelta | None, provider: str = LOCAL
    ) -> Claimed | None:
        return await self._claim_found(ownership.next_lapsed, owner, ttl, provider)

    async def _claim_found(
        self, find: ownership.FindRun, owner: str, ttl: timedelta | None, provider: str
    ) -> Claimed | None:
        texts.check_holder(owner)
        if not texts.could_be_kept(provider):
            return None

        def change(db: apsw.Connection) -> Claimed | None:
            at = self._writer.moment
            number = find(db, at, provider)
            if number is None:
                return None
            run = log.run_by_number(db, number)
            return Claimed(run, ownership.take(db, at, number, run.identity.run_id, owner, ttl, ""))

        return await self._writer.write(change)

    async def set_limit(self, limit: Limit) -> None:
        texts.check_limit(limit)
        await self._writer.write(lambda db: ownership.set_limit(db, limit))

    async def limits(self, tenant_id: str) -> list[Limit]:
        if not texts.could_be_kept(tenant_id):
            return []
        return self._read(lambda db: ownership.limits(db, tenant_id))

    # --- wake-ups and snapshots -------------------------------------------------------------------

    async def due(self, before: Timestamp, *, limit: int = 100, provider: str | None = None) -> list[WakeUp]:
        return self._read(lambda db: snapshots.due(db, before, limit, provider))

    async def save_snapshot(
        self, run_id: RunId, summary: RunSummary, changed_steps: Sequence[StepSnapshot]
    ) -> None:
        texts.check_snapshot(summary, changed_steps)
        await self._writer.write(lambda db: snapshots.save(db, run_id, summary, changed_steps))

    async def load_summary(self, run_id: RunId) -> RunSummary | None:
        return self._read(lambda db: snapshots.load_summary(db, run_id))

    async def load_steps(self, run_id: RunId, *, after: str = "", limit: int = 100) -> list[StepSnapshot]:
        texts.check_name("after", after)
        return self._read(lambda db: snapshots.load_steps(db, run_id, after, limit))

    async def find_steps(self, run_id: RunId, step_ids: Sequence[str]) -> list[StepSnapshot]:
        possible = [step_id for step_id in step_ids if texts.could_be_kept(step_id)]
        return self._read(lambda db: snapshots.find_steps(db, run_id, possible))

    async def save_checkpoint(self, run_id: RunId, checkpoint: Checkpoint) -> None:
        texts.check_checkpoint(checkpoint)
        await self._writer.write(lambda db: checkpoints.save(db, run_id, checkpoint))

    async def load_checkpoint(self, run_id: RunId) -> Checkpoint | None:
        return self._read(lambda db: checkpoints.load(db, run_id))

    # --- the outbox -------------------------------------------------------------------------------

    async def add_bus(self, bus: str, *, from_start: bool = False, only: BusFilter | None = None) -> None:
        texts.check_name("bus", bus)
        first = rules.BusState.FILLING if from_start else rules.BusState.OPEN
        while (
            state := await self._writer.write(lambda db: outbox.add_bus(db, bus, first, only))
        ) == "removing":
            await self._remove_rows(bus)
        while state == rules.BusState.FILLING and await self._writer.write(
            lambda db: outbox.fill_some(db, bus)
        ):
            await asyncio.sleep(0)

    async def remove_bus(self, bus: str) -> None:
        if texts.could_be_kept(bus):
            await self._writer.write(lambda db: outbox.remove_bus(db, bus))
            await self._remove_rows(bus)

    async def _remove_rows(self, bus: str) -> None:
        while await self._writer.write(lambda db: outbox.remove_some(db, bus)):
            await asyncio.sleep(0)

    async def claim_line(
        self, bus: str, *, owner: str, ttl: timedelta, limit: int = 100
    ) -> OutboxClaim | None:
        texts.check_holder(owner)
        if not texts.could_be_kept(bus):
            return None
        return await self._writer.write(
            lambda db: outbox.claim_line(db, self._writer.moment, bus, owner, ttl, limit)
        )

    async def delivered(self, claim: OutboxClaim, through_seq: int) -> bool:
        return await self._writer.write(lambda db: outbox.delivered(db, claim, through_seq))

    async def failed(self, claim: OutboxClaim, error: str, *, retry_in: timedelta | None) -> bool:
        return await self._writer.write(
            lambda db: outbox.failed(db, self._writer.moment, claim, texts.readable(error), retry_in)
        )

    async def outbox_lines(self, bus: str | None = None) -> list[OutboxLine]:
        if not texts.could_be_kept(bus):
            return []
        return await self._scan(lambda db: outbox.lines(db, self._moments(), bus))

    async def dead_letters(self, bus: str | None = None) -> list[DeadLetter]:
        if not texts.could_be_kept(bus):
            return []
        return await self._scan(lambda db: outbox.dead_letters(db, bus))

    async def retry_dead(self, bus: str, run_id: RunId, run_seq: int) -> bool:
        if not texts.could_be_kept(bus, run_id):
            return False
        return await self._writer.write(lambda db: outbox.retry_dead(db, bus, run_id, run_seq))

    async def drop_dead(self, bus: str, run_id: RunId, run_seq: int) -> bool:
        if not texts.could_be_kept(bus, run_id):
            return False
        return await self._writer.write(lambda db: outbox.drop_dead(db, bus, run_id, run_seq))

    # --- maintenance ------------------------------------------------------------------------------

    async def store_id(self) -> str:
        return str(self._read(lambda db: db.execute("SELECT id FROM store_id").get))

    async def prune(self, run_id: RunId) -> None:
        from podium.stores.sqlite import maintenance

        await self._writer.write(
            lambda db: maintenance.remove(db, self._writer.moment, run_id), touches=run_id
        )
        while await self._writer.write(maintenance.remove_some):
            await asyncio.sleep(0)  # others come in between, and it can be cut short

    async def stats(self) -> StoreStats:
        from podium.stores.sqlite import maintenance

        return await self._scan(maintenance.stats)

    async def problems(self) -> list[str]:
        from podium.stores.sqlite import maintenance

        return await self._in_thread(lambda: maintenance.all_problems(self._database))

    async def backup(self, target: Path) -> None:
        """Copy the database as it is now, while others keep writing."""
        from podium.stores.sqlite import maintenance

        await self._in_thread(lambda: maintenance.backup(self._database, target))

    async def vacuum(self) -> None:
        """Give the space of removed runs back to the file system. Nobody writes meanwhile."""
        await self._writer.alone(lambda db: db.execute("VACUUM").fetchall())

    # --- reading ----------------------------------------------------------------------------------

    def _read(self, query: Callable[[apsw.Connection], _T]) -> _T:
        """For what takes microseconds: a thread would cost more. Leaves no transaction open."""
        if self._closed:
            raise StoreUnavailable(f"{self.path}: the store was closed; open it again")
        try:
            return query(self._reader)
        except apsw.Error as error:
            raise self._database.translate_error(error) from error

    async def _scan(self, query: Callable[[apsw.Connection], _T]) -> _T:
        def scan() -> _T:
            db = self._database.connect()
            try:
                return query(db)
            finally:
                db.close()

        return await self._in_thread(scan)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        if self._closed:
            raise StoreUnavailable(f"{self.path}: the store was closed; open it again")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._scans, work)
        except apsw.Error as error:
            raise self._database.translate_error(error) from error

    def _data_version(self) -> int:
        return int(self._reader.execute("PRAGMA data_version").get)


class SqliteTenantRuns:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def find(self, tenant_id: str, run_id: str) -> Run:
        from podium.stores.sqlite import tenants

        return self._store._read(lambda db: tenants.find(db, tenant_id, run_id))

    async def page(self, tenant_id: str, query: RunQuery) -> RunPage:
        from podium.stores.sqlite import tenants

        last = texts.cursor_of(query)
        if not texts.could_be_kept(tenant_id, query.project_id, query.environment_id, query.plan_id):
            return RunPage(runs=(), cursor=None)
        return await self._store._scan(lambda db: tenants.page(db, tenant_id, query, last))


def _checked_append(
    run_id: str,
    writes: Sequence[EventWrite],
    fence: Fence | None,
    after: int | None,
    set_wake_ups: Sequence[WakeUp],
    drop_wake_ups: Sequence[str],
    audit: "Sequence[AuditDraft]" = (),
) -> Append:
    rules.check_writes(writes)
    rules.check_one_end(writes)
    if set_wake_ups:
        texts.check_wake_ups(set_wake_ups)
    if drop_wake_ups:
        drop_wake_ups = [key for key in drop_wake_ups if texts.could_be_kept(key)]
    if audit:
        texts.check_audit(audit)
    return Append(run_id, writes, fence, after, set_wake_ups, drop_wake_ups, audit)


def _record_audit(db: apsw.Connection, drafts: "Sequence[AuditDraft]") -> None:
    if drafts:
        from podium.stores.sqlite import audit

        audit.record(db, drafts)
