"""Runs and their events: creating, appending, reading."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from psycopg import Rollback

from podium.errors import (
    LogMoved,
    RunNotFound,
    RunRefused,
    RunRequestConflict,
    RunRequestPruned,
    TenantClosed,
)
from podium.log.engines import EngineRunRef, check_engine_ref
from podium.log.events import EventRecord, EventWrite, RunIdentity
from podium.log.ids import RunId
from podium.log.leases import AttemptClaim, Fence, Lease, WakeUp
from podium.log.runs import Backpressure, NewRun, Run, check_new_run, request_id_of
from podium.log.times import Timestamp
from podium.log.transitions import TERMINAL, RunStatus
from podium.ports.store import NO_CONTENTS, AppendedEvent, CreatedRun, StartedAttempt
from podium.stores import rules, texts
from podium.stores.engine_refs import engine_columns
from podium.stores.labels import labels_column
from podium.stores.plan_refs import plan_ref_column
from podium.stores.postgres import contents as contents_sql
from podium.stores.postgres import limits, outbox, tenant_states
from podium.stores.postgres.connections import Connection, Connections
from podium.stores.postgres.rows import (
    EVENT,
    EXPIRES,
    IDENTITY,
    NOW,
    RUN,
    askable,
    identity_of,
    records_of,
    run_of,
)

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft

# What an append has to know, under the locks of the run.
_OPEN: Final = f"""
SELECT {RUN}, o.moment, o.generation, o.has_buses, o.repeated, o.held
  FROM open_run(%s, %s, %s, %s, %s, %b::bytea[], %b::text[]) o, LATERAL (SELECT (o.run).*) r
"""
_KNOWN: Final = f"SELECT {EVENT} FROM events e WHERE e.run = %s AND e.run_seq = ANY(%s::bigint[])"
# Also taken from the same owner: what it did before is fenced off.
_TAKE_ATTEMPT: Final = f"""
INSERT INTO leases (run, attempt, owner, generation, expires_at)
VALUES (%s, %s, %s, 1, clock_timestamp() + %s)
ON CONFLICT (run, attempt) DO UPDATE
   SET owner = excluded.owner, generation = leases.generation + 1, expires_at = excluded.expires_at
 WHERE leases.owner IN ('', excluded.owner) OR leases.expires_at <= clock_timestamp()
RETURNING generation, {EXPIRES}
"""
_HOLDER: Final = f"SELECT owner, generation, {EXPIRES} FROM leases WHERE run = %s AND attempt = %s"
# Stores the events and the run's new status, and notifies watchers, in one statement and one round trip.
_STORE: Final = """
WITH stored AS (
    INSERT INTO events (run, run_seq, persisted_at, event_id, event_type, step_id, logical_attempt_id,
                        engine_attempt_id, idempotency_key, emitted_at, payload)
    SELECT %s::bigint, %s::bigint + place, %s::text, event_id::uuid, event_type, step_id, logical,
           engine, key, emitted, payload
      FROM unnest(%b::text[], %b::text[], %b::text[], %b::int[], %b::int[], %b::bytea[], %b::text[], %b::bytea[])
           WITH ORDINALITY AS w (event_id, event_type, step_id, logical, engine, key, emitted, payload, place)
),
moved AS (
    UPDATE runs SET status = %s, head = %s, updated_at = %s WHERE number = %s
)
SELECT pg_notify(%s, %s)
"""
_NEW_NUMBER: Final = f"SELECT nextval('run_numbers'), {NOW}, EXISTS (SELECT FROM buses)"
_READ: Final = f"""
SELECT {EVENT} FROM events e
 WHERE e.run = (SELECT number FROM runs WHERE run_id = %s) AND e.run_seq > %s ORDER BY e.run_seq LIMIT %s
"""
_FIND: Final = f"""
SELECT {EVENT} FROM events e
 WHERE e.run = (SELECT number FROM runs WHERE run_id = %s) AND e.idempotency_key = ANY(%b::bytea[]) ORDER BY e.run_seq
"""
_ADMIT: Final = """
INSERT INTO admissions (tenant_id, project_id, environment_id, plan_id, plan_version, run_request_id, run, run_id)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING run
"""
_ADMITTED: Final = f"""
SELECT {RUN} FROM admissions a LEFT JOIN runs r ON r.number = a.run
 WHERE (a.tenant_id, a.project_id, a.environment_id, a.plan_id, a.plan_version, a.run_request_id)
     = (%s, %s, %s, %s, %s, %s)
"""
_CREATE: Final = """
INSERT INTO runs (number, run_id, tenant_id, project_id, environment_id, plan_id, plan_version, run_request_id,
                  status, head, priority, concurrency_key, plan_sha256, inputs_sha256, created_at, updated_at, start_at,
                  needs_approval, provider, workflow_id, provider_run_id, engine_ref, metadata, plan_ref, pool,
                  concurrency_limit, labels)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %b, %b, %b, %s, %s, %b)
ON CONFLICT (run_id) DO NOTHING RETURNING number
"""


_LABEL: Final = """
INSERT INTO labels (tenant_id, created_at, run, name, value)
SELECT %s, %s, %s::bigint, name, value FROM unnest(%b::text[], %b::text[]) AS given (name, value)
"""
_MAX_IDENTITIES: Final = 10_000


class _Opened(NamedTuple):
    """A locked run, and what an append to it has to know."""

    number: int
    row: Run
    now: Timestamp
    generation: int | None
    has_buses: bool
    # The runSeq of events with the requested keys.
    repeated: list[int]
    # Attempts that the append would end under the run's lease, although they are held.
    held: list[str]


async def _starts_while_paused(connection: Connection, run: _Opened, writes: Sequence[EventWrite]) -> bool:
    starts = [bytes.fromhex(key) for key in rules.keys_of_starts(writes)]
    if run.row.status is not RunStatus.PAUSED or not starts:
        return False
    logged = "SELECT count(*) FROM events WHERE run = %s AND idempotency_key = ANY(%s)"
    found = await (await connection.execute(logged, [run.number, starts])).fetchone()
    return found is not None and found[0] < len(starts)


async def _take(
    connection: Connection, run: _Opened, claim: AttemptClaim, events: tuple[AppendedEvent, ...]
) -> StartedAttempt:
    run_id = run.row.identity.run_id
    taken = await connection.execute(_TAKE_ATTEMPT, [run.number, claim.name, claim.owner, claim.ttl])
    row = await taken.fetchone()
    if row is not None:
        fence = Fence(row[0], claim.name)
        lease = Lease(run_id=run_id, owner=claim.owner, fence=fence, expires_at=row[1])
        return StartedAttempt(events, lease=lease)
    held = await (await connection.execute(_HOLDER, [run.number, claim.name])).fetchone()
    assert held is not None
    owner, generation, expires_at = held
    fence = Fence(generation, claim.name)
    holder = Lease(run_id=run_id, owner=owner, fence=fence, expires_at=expires_at)
    return StartedAttempt(events, holder=holder)


def _check_append(run_id: str, writes: Sequence[EventWrite], set_wake_ups: Sequence[WakeUp]) -> None:
    rules.check_writes(writes)
    rules.check_one_end(writes)
    texts.check_wake_ups(set_wake_ups)
    askable(run_id)


async def _open_for(
    connections: Connections,
    connection: Connection,
    run_id: str,
    writes: Sequence[EventWrite],
    fence: Fence | None,
    keys: Sequence[bytes],
) -> _Opened:
    """The run, with the records in the log that have the keys of the writes or `keys`."""
    own = [bytes.fromhex(write.idempotency_key) for write in writes]
    ended = [name for write in writes if (name := rules.ended_attempt(write, fence)) is not None]
    return await _open_run(connections, connection, run_id, fence, [*own, *keys], ended)


async def _repeated(connection: Connection, run: _Opened) -> dict[str, EventRecord]:
    """The requested records, by their keys."""
    if not run.repeated:
        return {}
    found = await connection.execute(_KNOWN, [run.number, run.repeated], binary=True)
    records = records_of(run.row.identity, await found.fetchall())
    return {record.idempotency_key: record for record in records}


async def _append(
    connections: Connections,
    connection: Connection,
    run: _Opened,
    writes: Sequence[EventWrite],
    known: Mapping[str, EventRecord],
    fence: Fence | None,
    after: int | None,
    set_wake_ups: Sequence[WakeUp],
    drop_wake_ups: Sequence[str],
    audit: "Sequence[AuditDraft]" = (),
) -> Sequence[EventRecord]:
    run_id = run.row.identity.run_id
    fresh = rules.new_writes(writes, known)
    if not fresh and (writes or not (set_wake_ups or drop_wake_ups or audit)):
        return ()
    rules.check_fence(run_id, fresh, fence, run.generation if fence is not None else None)
    if after is not None and after != run.row.head:
        missed = await connection.execute(_READ, [run_id, after, None], binary=True)
        raise LogMoved(run_id, records_of(run.row.identity, await missed.fetchall()))
    rules.check_ends(fresh, fence, run.held.__contains__)
    if run.row.needs_approval and rules.opens(run.row.status, fresh):
        rules.check_approved(run.row.identity, fresh, await _approval_of(connection, run))
    stored: Sequence[EventRecord] = ()
    status: str = run.row.status
    if fresh:
        stored, status = await _store(connections, connection, run, fresh)
    if status not in TERMINAL and set_wake_ups:
        await _set_wake_ups(connection, run.number, set_wake_ups)
    if drop_wake_ups:
        drop = "DELETE FROM wake_ups WHERE run = %s AND key = ANY(%s::text[])"
        await connection.execute(drop, [run.number, list(filter(texts.could_be_kept, drop_wake_ups))])
    if fence is None and stored and run.row.pool is not None:
        # Anything that is appended without a lease, such as a signal, concerns a parked run.
        await connection.execute("UPDATE runs SET wake_at = %s WHERE number = %s", [rules.WOKEN, run.number])
    if audit:
        await _record_audit(connections, connection, audit)
    return stored


async def _record_audit(
    connections: Connections, connection: Connection, drafts: "Sequence[AuditDraft]"
) -> None:
    # Imported with the first decision.
    from podium.stores.postgres import audit

    await audit.record(connections, connection, drafts)


async def _approval_of(connection: Connection, run: _Opened) -> bytes | None:
    """The payload of RunApproved."""
    logged = "SELECT payload FROM events WHERE run = %s AND idempotency_key = %s"
    key = bytes.fromhex(rules.key_of_approval(run.row.identity))
    found = await (await connection.execute(logged, [run.number, key], binary=True)).fetchone()
    return bytes(found[0]) if found is not None else None


async def _keys_of_ends(
    connections: Connections, connection: Connection, run_id: str, writes: Sequence[EventWrite]
) -> list[bytes]:
    """The keys of records that would make one of the writes a second end."""
    run = await _identity(connections, connection, run_id)
    return [bytes.fromhex(key) for write in writes for key in rules.other_ends(run, write)]


async def _identity(connections: Connections, connection: Connection, run_id: str) -> RunIdentity:
    """Cached in each process: it never changes, and no other run gets the id."""
    known = connections.identities.get(run_id)
    if known is None:
        found = await connection.execute(f"SELECT {IDENTITY} FROM runs r WHERE run_id = %s", [run_id])
        row = await found.fetchone()
        if row is None:
            raise RunNotFound(run_id)
        if len(connections.identities) >= _MAX_IDENTITIES:
            connections.identities.clear()
        known = connections.identities[run_id] = identity_of(row)
    return known


async def _open_run(
    connections: Connections,
    connection: Connection,
    run_id: str,
    fence: Fence | None,
    keys: list[bytes],
    ended: Sequence[str] = (),
) -> _Opened:
    locks = [connections.schema_version, connections.key("store"), connections.key("run", run_id)]
    asked = [*locks, run_id, fence.attempt if fence is not None else "", keys, list(ended)]
    found = await (await connection.execute(_OPEN, asked, binary=True)).fetchone()
    if found is None or found[0] is None:
        raise RunNotFound(run_id)
    *columns, now, generation, has_buses, repeated, held = found
    number, row = run_of(tuple(columns))
    return _Opened(number, row, now, generation, has_buses, repeated, held or [])


async def _store(
    connections: Connections, connection: Connection, run: _Opened, fresh: Sequence[EventWrite]
) -> tuple[list[EventRecord], str]:
    """Store the events, and everything that follows from them."""
    stored = rules.records_of(run.row.identity, fresh, run.row.head, run.now)
    row = rules.row_after(run.row, fresh, len(stored), run.now)
    events = [run.number, run.row.head, run.now, *_columns_of(fresh)]
    moved = [row.status, row.head, row.updated_at, run.number]
    await connection.execute(_STORE, [*events, *moved, connections.channel, row.identity.run_id])
    if run.has_buses:
        await outbox.add(connection, run.number, stored)
    if row.status in TERMINAL:
        await connection.execute("DELETE FROM wake_ups WHERE run = %s", [run.number])
        release = "UPDATE leases SET owner = '', expires_at = '-infinity' WHERE run = %s"
        await connection.execute(release, [run.number])
    return stored, row.status


def _columns_of(fresh: Sequence[EventWrite]) -> list[list[Any]]:
    return [
        [write.event_id for write in fresh],
        [write.event_type for write in fresh],
        [write.step_id for write in fresh],
        [write.logical_attempt_id for write in fresh],
        [write.engine_attempt_id for write in fresh],
        [bytes.fromhex(write.idempotency_key) for write in fresh],
        [write.emitted_at for write in fresh],
        [write.payload for write in fresh],
    ]


async def _set_wake_ups(connection: Connection, number: int, wake_ups: Sequence[WakeUp]) -> None:
    due = {wake_up.key: wake_up.due for wake_up in wake_ups}
    await connection.execute(
        "INSERT INTO wake_ups (run, key, due) SELECT %s, * FROM unnest(%s::text[], %s::text[]) "
        "ON CONFLICT (run, key) DO UPDATE SET due = excluded.due",
        [number, list(due), list(due.values())],
    )


def checked_run(
    new: NewRun, writes: Sequence[EventWrite], contents: Mapping[str, bytes], audit: "Sequence[AuditDraft]"
) -> Sequence[rules.Content]:
    """Refuse what cannot be stored. Returns the contents, ready to be written: they are hashed before
    anything is locked.
    """
    check_new_run(new)
    texts.check_audit(audit)
    texts.check_texts_of_run(new)
    texts.check_contents(contents)
    rules.check_writes(writes)
    return rules.contents_of(contents)


async def create_in(
    connections: Connections,
    connection: Connection,
    new: NewRun,
    writes: Sequence[EventWrite],
    contents: Sequence[rules.Content],
    audit: "Sequence[AuditDraft]",
) -> CreatedRun:
    """Part of a transaction that holds the lock of the run."""
    run = new.identity
    admission = [
        run.tenant_id,
        run.project_id,
        run.environment_id,
        run.plan_id,
        run.plan_version,
        request_id_of(new),
    ]
    number, now, has_buses = await _first(connection, _NEW_NUMBER)
    # Of two concurrent requests the second waits here until the first is stored, and then finds it.
    mine = await connection.execute(_ADMIT, [*admission, number, run.run_id])
    if await mine.fetchone() is None:
        admitted = await connection.execute(_ADMITTED, admission, binary=True)
        return _created_before(new, await admitted.fetchone())
    row = rules.first_row(new, now)
    columns = _columns(row)
    created = await connection.execute(_CREATE, [number, *columns])
    if await created.fetchone() is None:
        raise RunRequestConflict(f"run {run.run_id!r} exists or existed; use another run id")
    if new.backpressure is Backpressure.REJECT:
        await connections.lock(connection, "tenant", run.tenant_id)
        if full := await limits.reached(connection, run, new.concurrency_key):
            raise RunRefused(full, retry_after_seconds=rules.RETRY_AFTER_SECONDS)
    if row.labels:
        labels = [run.tenant_id, row.created_at, number, list(row.labels), list(row.labels.values())]
        await connection.execute(_LABEL, labels)
    if new.is_exclusive:
        await connections.lock(connection, "tenant", run.tenant_id)
        from podium.stores.postgres import fleet

        await fleet.check_exclusive(connection, new)
    closed = await connection.execute(tenant_states.ADMIT, {"tenant": run.tenant_id})
    if await closed.fetchone() is not None:
        raise TenantClosed(run.tenant_id)
    opened = _Opened(number, row, now, None, has_buses, [], [])
    fresh = rules.new_writes(writes, {})
    if row.needs_approval and rules.opens(row.status, fresh):
        rules.check_approved(run, fresh, None)
    stored, _ = await _store(connections, connection, opened, fresh)
    row = rules.row_after(row, fresh, len(stored), now)
    await contents_sql.keep_for(connection, number, contents)
    if audit:
        await _record_audit(connections, connection, audit)
    return CreatedRun(row, rules.outcome(writes, {}, stored), duplicate=False)


def _created_before(new: NewRun, earlier: tuple[Any, ...] | None) -> CreatedRun:
    if earlier is not None and earlier[0] is None:
        raise RunRequestPruned(request_id_of(new))
    if earlier is None:  # another run has its id
        raise RunRequestConflict(f"run {new.identity.run_id!r} exists or existed; use another run id")
    _, row = run_of(earlier)
    rules.check_same_request(new, row.plan_sha256, row.inputs_sha256)
    return CreatedRun(row, (), duplicate=True)


def _columns(row: Run) -> list[object]:
    run = row.identity
    return [
        *(run.run_id, run.tenant_id, run.project_id, run.environment_id, run.plan_id, run.plan_version),
        *(row.run_request_id, row.status, row.head, row.priority, row.concurrency_key),
        *(row.plan_sha256, row.inputs_sha256, row.created_at, row.updated_at, row.start_at),
        *(row.needs_approval, *engine_columns(row.engine), row.metadata, plan_ref_column(row.plan_ref)),
        *(row.pool, row.concurrency_limit, labels_column(row.labels)),
    ]


async def _with_run(connection: Connection, run_id: str, rows: list[tuple[Any, ...]]) -> list[EventRecord]:
    """The run is read second: if it exists then, it existed when its events were read."""
    run = await connection.execute(f"SELECT {IDENTITY} FROM runs r WHERE run_id = %s", [run_id])
    found = await run.fetchone()
    if found is None:
        raise RunNotFound(run_id)
    return records_of(identity_of(found), rows)


async def _first(connection: Connection, query: str) -> tuple[Any, ...]:
    row = await (await connection.execute(query.encode())).fetchone()
    assert row is not None
    return row


class PostgresLog:
    """The part of `PostgresStore` for the log."""

    _connections: Connections

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
        _check_append(run_id, writes, set_wake_ups)
        texts.check_audit(audit)
        known: dict[str, EventRecord] = {}
        stored: Sequence[EventRecord] = ()
        async with self._connections.transaction() as connection:
            ends = rules.may_end_twice(writes, after)
            keys = await _keys_of_ends(self._connections, connection, run_id, writes) if ends else []
            run = await _open_for(self._connections, connection, run_id, writes, fence, keys)
            known = rules.recorded(
                run.row.identity, writes, (await _repeated(connection, run)).get, ends=ends
            )
            stored = await _append(
                self._connections,
                connection,
                run,
                writes,
                known,
                fence,
                after,
                set_wake_ups,
                drop_wake_ups,
                audit,
            )
            if writes and not stored:
                raise Rollback
        return rules.outcome(writes, known, stored)

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
        _check_append(run_id, writes, set_wake_ups)
        texts.check_holder(claim.owner, claim.name)
        async with self._connections.transaction() as connection:
            ends = rules.keys_of_ends(await _identity(self._connections, connection, run_id), claim)
            keys = [
                *map(bytes.fromhex, ends),
                *await _keys_of_ends(self._connections, connection, run_id, writes),
            ]
            run = await _open_for(self._connections, connection, run_id, writes, fence, keys)
            if await _starts_while_paused(connection, run, writes):
                return StartedAttempt((), is_paused=True)
            by_key = await _repeated(connection, run)
            ended = [by_key[key] for key in ends if key in by_key]
            end = min(ended, key=lambda record: record.run_seq, default=None)
            if end is not None and not writes:
                return StartedAttempt((), end=end)
            known = rules.recorded(run.row.identity, writes, by_key.get, ends=True)
            stored = await _append(
                self._connections, connection, run, writes, known, fence, None, set_wake_ups, drop_wake_ups
            )
            events = rules.outcome(writes, known, stored)
            if end is not None:
                return StartedAttempt(events, end=end)
            rules.check_fence(run_id, (), fence, run.generation)
            return await _take(connection, run, claim, events)

    async def create_run(
        self,
        new: NewRun,
        writes: Sequence[EventWrite],
        contents: Mapping[str, bytes] = NO_CONTENTS,
        *,
        audit: "Sequence[AuditDraft]" = (),
    ) -> CreatedRun:
        prepared = checked_run(new, writes, contents, audit)
        async with self._connections.writing(self._connections.key("run", new.identity.run_id)) as connection:
            return await create_in(self._connections, connection, new, writes, prepared, audit)

    async def read(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> list[EventRecord]:
        askable(run_id)
        async with self._connections.lend() as connection:
            events = await connection.execute(_READ, [run_id, after, limit], binary=True)
            return await _with_run(connection, run_id, await events.fetchall())

    async def find(self, run_id: RunId, keys: Sequence[str]) -> list[EventRecord]:
        askable(run_id)
        async with self._connections.lend() as connection:
            events = await connection.execute(_FIND, [run_id, rules.key_bytes(keys)], binary=True)
            return await _with_run(connection, run_id, await events.fetchall())

    async def get_run(self, run_id: RunId) -> Run:
        askable(run_id)
        async with self._connections.lend() as connection:
            found = await connection.execute(
                f"SELECT {RUN} FROM runs r WHERE run_id = %s", [run_id], binary=True
            )
            row = await found.fetchone()
        if row is None:
            raise RunNotFound(run_id)
        return run_of(row)[1]

    async def set_engine(self, run_id: RunId, engine: EngineRunRef, *, fence: Fence) -> None:
        check_engine_ref(engine, run_id)
        texts.check_engine(engine)
        askable(run_id)
        async with self._connections.transaction() as connection:
            run = await _open_run(self._connections, connection, run_id, fence, [])
            rules.check_fence(run_id, (), fence, run.generation)
            await connection.execute(
                "UPDATE runs SET provider = %s, workflow_id = %s, provider_run_id = %s, engine_ref = %b "
                "WHERE number = %s",
                [*engine_columns(engine), run.number],
            )

    async def run_of_engine(self, provider: str, workflow_id: str, provider_run_id: str = "") -> Run | None:
        ids = (provider, workflow_id, provider_run_id)
        if not texts.could_be_kept(*ids):
            return None
        async with self._connections.lend() as connection:
            found = await connection.execute(
                f"SELECT {RUN} FROM runs r WHERE (provider, workflow_id, provider_run_id) = (%s, %s, %s) "
                "AND provider IS NOT NULL ORDER BY number LIMIT 1",
                ids,
                binary=True,
            )
            row = await found.fetchone()
        return run_of(row)[1] if row is not None else None

    async def open_runs(self, provider: str, *, after: str = "", limit: int = 100) -> list[Run]:
        async with self._connections.lend() as connection:
            found = await connection.execute(
                f"SELECT {RUN} FROM runs r WHERE provider = %s AND provider IS NOT NULL AND run_id > %s "
                "AND status IN ('PENDING', 'APPROVED', 'RUNNING', 'PAUSED') ORDER BY run_id LIMIT %s",
                [provider, after, limit],
                binary=True,
            )
            return [run_of(row)[1] for row in await found.fetchall()]

    async def due(self, before: Timestamp, *, limit: int = 100, provider: str | None = None) -> list[WakeUp]:
        async with self._connections.lend() as connection:
            found = await connection.execute(
                "SELECT r.run_id, w.key, w.due FROM wake_ups w JOIN runs r ON r.number = w.run "
                "WHERE w.due <= %s AND (%s::text IS NULL OR r.provider = %s) "
                "ORDER BY w.due, w.key, r.run_id LIMIT %s",
                [before, provider, provider, limit],
            )
            return [WakeUp(run_id=run_id, key=key, due=due) for run_id, key, due in await found.fetchall()]
