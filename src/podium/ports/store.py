"""The log, and what changes together with it.

The store is where Podium must never lose anything. Its promises, which `podium.testing.store_promises` tests on
every implementation:

- An append is durable when it returns, or it raises. Nothing is ever half stored: the events of one append, the
  run's status, its queue place, wake-ups and outbox rows change in one transaction.
- `runSeq` rises strictly within a run, and records become visible in that order.
- An event whose key is in the log already is not stored again: its record is returned, marked as a duplicate.
- Who lost its lease cannot write.

Several processes may use one store concurrently. Every time that decides something here (leases, claims) is read from
the store's own clock, never from the caller's.

`tests/unit/test_store_methods.py` lists the methods that no command reaches yet, and the part that each waits for.

Calls by run id alone are for the runtime and the engines, which serve all tenants. Everything a person or a program
asks on behalf of a tenant goes through `TenantRuns`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

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
from podium.ports.access_store import Sessions, Tenants, Tokens
from podium.ports.changes import ChangeFeed
from podium.ports.endpoint_store import Endpoints
from podium.ports.published_plans import PublishedPlans
from podium.ports.schedule_store import Schedules

if TYPE_CHECKING:
    # Loaded with the first decision.
    from podium.access.audit import AuditDraft, AuditHead, AuditRecord


class AppendedEvent(msgspec.Struct, gc=False, frozen=True):
    """What became of one write: its record, and whether that had been there before."""

    record: EventRecord
    duplicate: bool
    # The record that was there says something else than the write; the record wins.
    differs: bool


class CreatedRun(msgspec.Struct, frozen=True):
    run: Run
    # Those that were stored: none if the run was there before.
    events: tuple[AppendedEvent, ...]
    # The same request had been made before: this is its run, and nothing was stored.
    duplicate: bool


class Claimed(msgspec.Struct, frozen=True):
    run: Run
    lease: Lease
    # False of a run that has not started and was claimed because of a signal: it may end, but it is not its turn.
    may_start: bool = True


class StartedAttempt(msgspec.Struct, frozen=True):
    """What became of a worker's wish to carry out an attempt: exactly one of the last four is there."""

    events: tuple[AppendedEvent, ...]
    # The attempt is the worker's. The generation counts the workers that it was given to.
    lease: Lease | None = None
    # The attempt's end, which is in the log.
    end: EventRecord | None = None
    # Another worker holds it.
    holder: Lease | None = None
    # The run was paused before the attempt's StepStarted was recorded: nothing was stored.
    is_paused: bool = False


class Limit(NamedTuple):
    """How many runs may be in progress concurrently. `scope` is one of tenant, project, plan, concurrency.

    A run is in progress while its lease is live, and while it is parked.
    """

    tenant_id: str
    scope: str
    name: str
    most: int


class KeptContent(msgspec.Struct, frozen=True):
    """What a run keeps in the store under a name, without its bytes."""

    name: str
    sha256: str
    size: int


NO_CONTENTS: Final[Mapping[str, bytes]] = MappingProxyType({})


class SlotLine(msgspec.Struct, frozen=True):
    """The runs of one concurrency key: who works, oldest first, and who waits, next one first."""

    holders: tuple[Lease, ...]
    waiting: tuple[Lease, ...]


class StoreStats(msgspec.Struct, frozen=True):
    runs: int
    open_runs: int
    events: int
    bytes_used: int
    schema_version: int


class TenantRuns(Protocol):
    """What one may ask on behalf of a tenant. Another tenant's run looks exactly like one that does not exist."""

    async def find(self, tenant_id: str, run_id: str) -> Run:
        """Raises `RunNotFound`."""
        ...

    async def page(self, tenant_id: str, query: RunQuery) -> RunPage: ...


class EventLog(Protocol):
    """Runs and their events."""

    async def create_run(
        self,
        new: NewRun,
        writes: Sequence[EventWrite],
        contents: Mapping[str, bytes] = NO_CONTENTS,
        *,
        audit: "Sequence[AuditDraft]" = (),
    ) -> CreatedRun:
        """Make a run with its first events and contents, or return the one that this request made before.

        The same request id with another plan or other inputs raises `RunRequestConflict`; if its run was removed and
        they cannot be compared any more, `RunRequestPruned`. With REJECT, a limit
        that is reached raises `RunRefused`; a run that `is_exclusive` raises `ConcurrencyLimit` if its key is in use.
        `audit` is recorded with the run, and not again for the same request.
        """
        ...

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
        """Store events, all or none, in this order.

        Duplicates are looked up first and returned to anybody. If anything new is left and the fence is not the
        current one: `StaleFence`. If `after` is given and is not the run's newest record: `LogMoved`, with the
        records in between. If it ends an attempt whose lease is live under the run's lease: `StaleFence`. Wake-ups are
        set and dropped in the same transaction, also if there are no events; the end of a run drops them all.

        `audit` is recorded in the same transaction, also if there are no events; not if all events are duplicates:
        the append that stored them recorded the decision.
        """
        ...

    async def read(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> list[EventRecord]:
        """Records with a higher `runSeq` than `after`, in order. Raises `RunNotFound`."""
        ...

    async def find(self, run_id: RunId, keys: Sequence[str]) -> list[EventRecord]:
        """The records that have one of these idempotency keys, in order. Raises `RunNotFound`."""
        ...

    def watch(self, run_id: RunId, *, after: int = 0) -> AsyncIterator[list[EventRecord]]:
        """Batches of records from `after` on, then those to come, as they become durable. Never ends by itself."""
        ...

    async def get_run(self, run_id: RunId) -> Run:
        """Raises `RunNotFound`."""
        ...

    async def set_engine(self, run_id: RunId, engine: EngineRunRef, *, fence: Fence) -> None:
        """Raises `InvalidId` if the reference is not one of this run."""
        ...

    async def run_of_engine(self, provider: str, workflow_id: str, provider_run_id: str = "") -> Run | None:
        """The run that an engine knows by these ids of its own."""
        ...

    async def open_runs(self, provider: str, *, after: str = "", limit: int = 100) -> list[Run]:
        """Runs that another engine carries and that have not ended, by run id, from behind `after`."""
        ...


class AuditLog(Protocol):
    """Decisions about who may do what: one sealed chain per tenant, which no method shortens or changes.

    `podium.access.audit` says what a record is and how it is sealed.
    """

    async def record_audit(self, drafts: "Sequence[AuditDraft]") -> None:
        """Add decisions that no event belongs to; durable when it returns, all or none."""
        ...

    async def read_audit(self, tenant_id: str, *, after: int = 0, limit: int = 1000) -> "list[AuditRecord]":
        """Records of a tenant with a higher `seq` than `after`, in order, as they are: nothing is verified."""
        ...

    async def audit_tenants(self) -> list[str]:
        """The tenants that have a chain, sorted."""
        ...

    async def audit_head(self, tenant_id: str) -> "AuditHead | None":
        """The end of a tenant's chain, as it is: nothing is verified."""
        ...


class Contents(Protocol):
    """What a run needs besides its events, by name: its plan, its workflow file, values too large for an event.

    The bytes are kept once, by their SHA-256, however many runs have them, and go with the last run that has them.
    """

    async def keep(self, run_id: RunId, contents: Mapping[str, bytes]) -> None:
        """Durable when it returns, all or none. A name that is in use refers to the new bytes from then on.

        Raises `RunNotFound`.
        """
        ...

    async def kept(self, run_id: RunId, name: str) -> bytes:
        """The bytes that were kept. Raises `RunNotFound`, `ContentMissing`, `ContentDamaged`."""
        ...

    async def list_kept(self, run_id: RunId) -> list[KeptContent]:
        """By name. Raises `RunNotFound`."""
        ...


class Leases(Protocol):
    """Ownership of runs and attempts; and, because a slot belongs to the holder of a lease, the run queue."""

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
        """Take a free or lapsed lease; None if another owner holds it or, for a run's lease, no slot is free.

        The owner of a live lease gets it again, renewed and with its generation: a claim may be repeated if its answer
        was lost. Without a `ttl` the lease never lapses: its owner is not a process that could die with it.

        `slots`: how many runs with the run's concurrency key may be live, this one included. Those that hold the
        lease `IN_LINE` and come before this one are given theirs first.

        `takes_over`: a live lease of this owner is taken as well, with the next generation, so the old owner is fenced
        off. The run keeps its slot: neither limits nor `slots` are checked then. Of several callers that take over from
        one owner, one succeeds.
        """
        ...

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
        """Append as `append` does and, in the same transaction, take the attempt's lease.

        It is taken if it is free or has lapsed, and also from the same owner: an owner that asks again gets the next
        generation, and what it did under the earlier one is fenced off. It is not taken if the attempt has ended. The
        fence is the run's: `StaleFence` if it is not the current one and the attempt has not ended.

        While the run is paused no StepStarted is recorded: an attempt that was ordered before does not start.
        """
        ...

    async def slot_line(self, run_id: RunId) -> SlotLine:
        """Who works and who waits with the run's concurrency key; nothing if it has none. Raises `RunNotFound`."""
        ...

    async def renew(self, lease: Lease, *, ttl: timedelta | None) -> Lease | None:
        """None if it was lost or has lapsed: its slot may be another owner's, so it has to be claimed again."""
        ...

    async def release(self, lease: Lease) -> None: ...

    async def held_lease(self, run_id: RunId) -> HeldLease | None:
        """The run's lease with its holder, also one that has lapsed; None if it was never claimed or was released.

        Raises `RunNotFound`.
        """
        ...

    async def held_attempts(self, run_id: RunId) -> list[HeldLease]:
        """The live leases of the run's attempts, by name (`lease.fence.attempt`). Raises `RunNotFound`."""
        ...

    async def claim_next(self, *, owner: str, ttl: timedelta | None, provider: str = LOCAL) -> Claimed | None:
        """Take the run of an engine that is to start next, with its lease; None if none may start now.

        Only runs in no pool that wait in the queue, whose time has come and for which every limit has room. FIFO within
        priority; between tenants the one that has had fewest and longest ago. Two callers never get the same run.
        """
        ...

    async def claim_lapsed(
        self, *, owner: str, ttl: timedelta | None, provider: str = LOCAL
    ) -> Claimed | None:
        """Take over a started run of an engine whose lease has lapsed or was released; None if there is none.

        Runs of pools are for `claim_of_pool`.
        """
        ...

    async def claim_of_pool(
        self,
        pool: str,
        *,
        owner: str,
        ttl: timedelta,
        limit: int = 1,
        tenants: frozenset[str] | None = None,
    ) -> list[Claimed]:
        """Take runs of a pool with their leases, at most `limit` of them; an empty list if none may continue now.

        `tenants`: only theirs; None: those of all tenants.

        First come started runs that no process holds, unless they are parked; then runs whose time has come or that a
        signal has woken; then queued runs by the rules of `claim_next`, which never takes a run of a pool. A queued
        run with a `concurrency_limit` waits while that many open runs with its key in pools are older, or have had
        their turn; it keeps no run with another key waiting. A parked run continues in the slot that it has kept.
        """
        ...

    async def renew_all(self, leases: Sequence[Lease], *, ttl: timedelta) -> list[Lease]:
        """Renew leases of runs, in one statement. Those that were lost or have lapsed are not in the answer."""
        ...

    async def park(self, lease: Lease, *, after: int, until: Timestamp | None) -> bool:
        """Give up a run of a pool until a moment, or until an event is appended to it without a lease.

        It is still in progress: limits count it until it ends.

        False, and nothing has changed, if the lease was lost or `after` is not the run's newest record.
        """
        ...

    async def moved(self, heads: Mapping[RunId, int]) -> list[RunId]:
        """Those of these runs that have a record after the given one."""
        ...

    async def set_limit(self, limit: Limit) -> None: ...

    async def limits(self, tenant_id: str) -> list[Limit]: ...

    async def remove_limit(self, tenant_id: str, scope: str, name: str) -> bool:
        """False if it does not exist."""
        ...


class Queues(Protocol):
    """What waits in pools, for one tenant."""

    async def queued(
        self, tenant_id: str, pool: str, *, after: str = "", limit: int = 100
    ) -> list[QueuedRun]:
        """Runs that wait to be started, in the order in which their tenant's turns take them.

        `after`: the id of the last run of the page before, which may have started since.
        """
        ...

    async def queue_position(self, run_id: RunId) -> int | None:
        """As `QueuedRun` counts; None of a run that does not wait in a pool. Raises `RunNotFound`."""
        ...

    async def held_back_by(self, run_id: RunId) -> str | None:
        """The limit that keeps a queued run of a pool from being started now, in words. Raises `RunNotFound`."""
        ...

    async def open_of_key(self, tenant_id: str, concurrency_key: str) -> list[Run]:
        """Runs in pools that have not ended and have a limit for this key, oldest first."""
        ...

    async def pool_loads(self, tenant_id: str) -> list[PoolLoad]:
        """The pools in which the tenant has open runs, by name."""
        ...


class Workers(Protocol):
    """What the workers of pools report of themselves. A worker may serve several tenants and belongs to none."""

    async def report_worker(self, report: WorkerReport) -> bool:
        """A heartbeat; true if an operator has asked for the worker to drain. Workers that have not been seen for a
        day are forgotten."""
        ...

    async def workers(self) -> list[Worker]:
        """By id."""
        ...

    async def drain_worker(self, worker_id: str) -> bool:
        """Ask a worker to stop; false if it is not known."""
        ...

    async def remove_worker(self, worker_id: str) -> None:
        """It has stopped."""
        ...


class WakeUps(Protocol):
    async def due(self, before: Timestamp, *, limit: int = 100, provider: str | None = None) -> list[WakeUp]:
        """Timers of open runs that are due, by (due, key); with `provider`, of runs that this engine carries."""
        ...


class Snapshots(Protocol):
    async def save_snapshot(
        self, run_id: RunId, summary: RunSummary, changed_steps: Sequence[StepSnapshot]
    ) -> None:
        """Keep a summary and the steps that changed since the one before. An older one never replaces a newer."""
        ...

    async def load_summary(self, run_id: RunId) -> RunSummary | None: ...

    async def load_summaries(self, run_ids: Sequence[RunId]) -> list[RunSummary]:
        """Of these runs those that have one, in no order; for lists."""
        ...

    async def load_steps(self, run_id: RunId, *, after: str = "", limit: int = 100) -> list[StepSnapshot]:
        """Steps by path, for pages."""
        ...

    async def find_steps(self, run_id: RunId, step_ids: Sequence[str]) -> list[StepSnapshot]:
        """Those of these steps that a snapshot has."""
        ...


class Checkpoints(Protocol):
    """What runs had come to, as their drivers saved it: a cache of the log, checked when it is read."""

    async def save_checkpoint(self, run_id: RunId, checkpoint: Checkpoint) -> None:
        """Keep it, unless the run has one that covers more. Raises `RunNotFound`."""
        ...

    async def load_checkpoint(self, run_id: RunId) -> Checkpoint | None:
        """The one that covers most. Raises `RunNotFound`."""
        ...


class Outbox(Protocol):
    async def add_bus(self, bus: str, *, from_start: bool = False, only: BusFilter | None = None) -> None:
        """From now on (or from the first event of all) every event that it wants is also for this bus.

        `only`: which events it wants; None is what it was added with before, all events if it is new. Raises
        `BusFilterConflict` if it was added with another filter.
        """
        ...

    async def remove_bus(self, bus: str) -> None: ...

    async def claim_line(
        self, bus: str, *, owner: str, ttl: timedelta, limit: int = 100
    ) -> OutboxClaim | None:
        """Take the line of a run that has something to deliver and is not held by another relay.

        The run whose turn was longest ago comes first.
        """
        ...

    async def delivered(self, claim: OutboxClaim, through_seq: int) -> bool:
        """Remove what was delivered and give the line up; False if the claim was lost."""
        ...

    async def failed(self, claim: OutboxClaim, error: str, *, retry_in: timedelta | None) -> bool:
        """The first event of the line could not be delivered; None: it is dead, the line continues without it."""
        ...

    async def outbox_lines(self, bus: str | None = None) -> list[OutboxLine]: ...

    async def dead_letters(self, bus: str | None = None) -> list[DeadLetter]: ...

    async def retry_dead(self, bus: str, run_id: RunId, run_seq: int) -> bool: ...

    async def drop_dead(self, bus: str, run_id: RunId, run_seq: int) -> bool: ...


class Maintenance(Protocol):
    async def store_id(self) -> str:
        """32 hex digits, made with the store and never changed. Only a copy of the store has the same ones."""
        ...

    async def prune(self, run_id: RunId) -> None:
        """Remove an ended run, all of it; its admission key stays. Raises `RunNotPrunable`."""
        ...

    async def stats(self) -> StoreStats: ...

    async def problems(self) -> list[str]:
        """Everything that is wrong with the store; empty if it is sound."""
        ...

    async def vacuum(self) -> None:
        """Give the room of what was removed back."""
        ...

    async def backup(self, path: Path) -> None:
        """Copy the store into a file while it is in use."""
        ...

    async def close(self) -> None: ...


class Store(
    EventLog,
    ChangeFeed,
    AuditLog,
    Contents,
    Leases,
    Queues,
    Workers,
    WakeUps,
    Snapshots,
    Checkpoints,
    Outbox,
    Schedules,
    Endpoints,
    Tokens,
    Sessions,
    Tenants,
    Maintenance,
    Protocol,
):
    """All of it, as one place keeps it. `runs` and `plans` are the parts for tenants."""

    @property
    def runs(self) -> TenantRuns: ...

    @property
    def plans(self) -> PublishedPlans: ...
