"""The log, and everything that changes together with it.

The store is where Podium must never lose anything. Its promises, which `podium.testing.store_promises` tests
on every implementation:

- An append is durable when it returns, or it raises. Nothing is ever stored partially: the events of one
  append, the run's status, its queue position, wake-ups and outbox rows change in one transaction.
- `runSeq` rises strictly within a run, and records become visible in that order.
- An event whose key is already in the log is not stored again: its record is returned, marked as a duplicate.
- An owner that has lost its lease cannot write.

Several processes may use one store concurrently. Every time that decides something here (leases, claims) is
read from the store's own clock, never from the caller's.

`tests/unit/test_store_methods.py` lists the methods that no command uses yet, and the part that each is
waiting for.

Calls by run id alone are for the runtime and the engines, which serve all tenants. Every request on behalf of
a tenant goes through `TenantRuns`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from podium.log.checkpoints import Checkpoint
from podium.log.engines import EngineRunRef
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
    # Imported with the first decision.
    from podium.access.audit import AuditDraft, AuditHead, AuditRecord


class AppendedEvent(msgspec.Struct, gc=False, frozen=True):
    """The result of one write: its record, and whether the record existed before."""

    record: EventRecord
    duplicate: bool
    # The existing record differs from the write; the record takes precedence.
    differs: bool


class CreatedRun(msgspec.Struct, frozen=True):
    run: Run
    # The events that were stored: none if the run existed before.
    events: tuple[AppendedEvent, ...]
    # The same request was made before: this is its run, and nothing was stored.
    duplicate: bool


class Claimed(msgspec.Struct, frozen=True):
    run: Run
    lease: Lease
    # False for a run that has not started and was claimed because of a signal: it may end, but must not start
    # yet.
    may_start: bool = True


class StartedAttempt(msgspec.Struct, frozen=True):
    """The result of a worker's request to execute an attempt: exactly one of the last four is set."""

    events: tuple[AppendedEvent, ...]
    # The worker owns the attempt. The generation counts the workers that it was given to.
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
    """Content that a run keeps in the store under a name, without its bytes."""

    name: str
    sha256: str
    size: int


NO_CONTENTS: Final[Mapping[str, bytes]] = MappingProxyType({})


class SlotLine(msgspec.Struct, frozen=True):
    """The runs of one concurrency key: the working ones, oldest first, and the waiting ones, next one first."""

    holders: tuple[Lease, ...]
    waiting: tuple[Lease, ...]


class StoreStats(msgspec.Struct, frozen=True):
    runs: int
    open_runs: int
    events: int
    bytes_used: int
    schema_version: int


class TenantRuns(Protocol):
    """Requests on behalf of a tenant. Another tenant's run looks exactly like one that does not exist."""

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
        """Create a run with its first events and contents, or return the one that this request created
        before.

        The same request id with another plan or other inputs raises `RunRequestConflict`, or
        `RunRequestPruned` if its run was removed and they can no longer be compared. With REJECT, a limit
        that is reached raises `RunRefused`; a run that `is_exclusive` raises `ConcurrencyLimit` if its key is
        in use. `audit` is recorded with the run, and not again for the same request.
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

        Duplicates are looked up first and returned to any caller. If anything new is left and the fence is
        not the current one: `StaleFence`. If `after` is given and is not the run's newest record: `LogMoved`,
        with the records in between. If it ends an attempt whose lease is live under the run's lease:
        `StaleFence`. Wake-ups are set and deleted in the same transaction, even if there are no events; the
        end of a run deletes all of them.

        `audit` is recorded in the same transaction, even if there are no events; but not if all events are
        duplicates, because the append that stored them recorded the decision.
        """
        ...

    async def read(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> list[EventRecord]:
        """Records with a higher `runSeq` than `after`, in order. Raises `RunNotFound`."""
        ...

    async def find(self, run_id: RunId, keys: Sequence[str]) -> list[EventRecord]:
        """The records that have one of these idempotency keys, in order. Raises `RunNotFound`."""
        ...

    def watch(self, run_id: RunId, *, after: int = 0) -> AsyncIterator[list[EventRecord]]:
        """Batches of records after `after`, then new ones as they become durable. Never ends by itself."""
        ...

    async def get_run(self, run_id: RunId) -> Run:
        """Raises `RunNotFound`."""
        ...

    async def set_engine(self, run_id: RunId, engine: EngineRunRef, *, fence: Fence) -> None:
        """Raises `InvalidId` if the reference does not belong to this run."""
        ...

    async def run_of_engine(self, provider: str, workflow_id: str, provider_run_id: str = "") -> Run | None:
        """The run for these ids of an engine."""
        ...

    async def open_runs(self, provider: str, *, after: str = "", limit: int = 100) -> list[Run]:
        """Runs of another engine that have not ended, by run id, starting after `after`."""
        ...


class AuditLog(Protocol):
    """Authorization decisions: one sealed chain per tenant, which no method shortens or changes.

    `podium.access.audit` says what a record is and how it is sealed.
    """

    async def record_audit(self, drafts: "Sequence[AuditDraft]") -> None:
        """Add decisions that do not belong to an event; durable when it returns, all or none."""
        ...

    async def read_audit(self, tenant_id: str, *, after: int = 0, limit: int = 1000) -> "list[AuditRecord]":
        """Records of a tenant with a higher `seq` than `after`, in order, without verification."""
        ...

    async def audit_tenants(self) -> list[str]:
        """The tenants that have a chain, sorted."""
        ...

    async def audit_head(self, tenant_id: str) -> "AuditHead | None":
        """The end of a tenant's chain, without verification."""
        ...


class Contents(Protocol):
    """What a run needs besides its events, by name: its plan, its workflow file, values too large for an
    event.

    The bytes are stored once, by their SHA-256, however many runs use them, and removed with the last of
    these runs.
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
        """Ordered by name. Raises `RunNotFound`."""
        ...


class Leases(Protocol):
    """Ownership of runs and attempts; and the run queue, because a slot belongs to the holder of a lease."""

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
        """Take a free or expired lease; None if another owner holds it or, for a run's lease, no slot is
        free.

        The owner of a live lease gets it again, renewed and with its generation: a claim may be repeated if
        its answer was lost. Without a `ttl` the lease never expires: its owner is not a process that could
        die with it.

        `slots`: how many runs with the run's concurrency key may be live, including this one. Those that hold
        the lease `IN_LINE` and precede this one get their slots first.

        `takes_over`: a live lease of this owner is taken as well, with the next generation, so that the old
        owner is fenced off. The run keeps its slot: neither limits nor `slots` are checked then. Of several
        callers that take over from one owner, one succeeds.
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

        It is taken if it is free or has expired, and also from the same owner: an owner that asks again gets
        the next generation, and what it did under the earlier one is fenced off. It is not taken if the
        attempt has ended. The fence is the run's: `StaleFence` if it is not the current one and the attempt
        has not ended.

        While the run is paused no StepStarted is recorded: an attempt that was ordered before does not start.
        """
        ...

    async def slot_line(self, run_id: RunId) -> SlotLine:
        """The working and waiting runs with the run's concurrency key; empty if it has none. Raises
        `RunNotFound`.
        """
        ...

    async def renew(self, lease: Lease, *, ttl: timedelta | None) -> Lease | None:
        """None if it was lost or has expired: its slot may belong to another owner, so it has to be claimed
        again.
        """
        ...

    async def release(self, lease: Lease) -> None: ...

    async def held_lease(self, run_id: RunId) -> HeldLease | None:
        """The run's lease with its holder, even if it has expired; None if it was never claimed or was
        released.

        Raises `RunNotFound`.
        """
        ...

    async def held_attempts(self, run_id: RunId) -> list[HeldLease]:
        """The live leases of the run's attempts, by name (`lease.fence.attempt`). Raises `RunNotFound`."""
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
        """Take runs of a pool with their leases, at most `limit` of them; an empty list if none may continue
        now.

        `tenants`: only theirs; None: those of all tenants.

        First come started runs that no process holds, unless they are parked; then runs whose time has come or that a
        signal has woken; then queued runs whose time has come and for which every limit has room: FIFO within
        priority, and between tenants the one that has had fewest and longest ago. Two callers never get the same run.
        A queued run with a `concurrency_limit` waits while that many open runs with its key in pools are older, or
        have had their turn; it keeps no run with another key waiting. A parked run continues in the slot that it has
        kept.
        """
        ...

    async def renew_all(self, leases: Sequence[Lease], *, ttl: timedelta) -> list[Lease]:
        """Renew leases of runs, in one statement. The result does not include those that were lost or have
        expired.
        """
        ...

    async def park(self, lease: Lease, *, after: int, until: Timestamp | None) -> bool:
        """Give up a run of a pool until a moment, or until an event is appended to it without a lease.

        It still counts as in progress for limits, until it ends.

        False, without any change, if the lease was lost or `after` is not the run's newest record.
        """
        ...

    async def moved(self, heads: Mapping[RunId, int]) -> list[RunId]:
        """The runs that have a record after the given one."""
        ...

    async def set_limit(self, limit: Limit) -> None: ...

    async def limits(self, tenant_id: str) -> list[Limit]: ...

    async def remove_limit(self, tenant_id: str, scope: str, name: str) -> bool:
        """False if it does not exist."""
        ...


class Queues(Protocol):
    """Queued runs of pools, for one tenant."""

    async def queued(
        self, tenant_id: str, pool: str, *, after: str = "", limit: int = 100
    ) -> list[QueuedRun]:
        """Runs that wait to be started, in the order in which they take their tenant's turns.

        `after`: the id of the last run of the previous page, which may have started since.
        """
        ...

    async def queue_position(self, run_id: RunId) -> int | None:
        """The position as defined in `QueuedRun`; None for a run that does not wait in a pool. Raises
        `RunNotFound`.
        """
        ...

    async def held_back_by(self, run_id: RunId) -> str | None:
        """The limit that prevents a queued run of a pool from starting now, in words. Raises `RunNotFound`."""
        ...

    async def open_of_key(self, tenant_id: str, concurrency_key: str) -> list[Run]:
        """Runs in pools that have not ended and have a limit for this key, oldest first."""
        ...

    async def pool_loads(self, tenant_id: str) -> list[PoolLoad]:
        """The pools in which the tenant has open runs, by name."""
        ...


class Workers(Protocol):
    """Reports of the workers of pools. A worker may serve several tenants and does not belong to any."""

    async def report_worker(self, report: WorkerReport) -> bool:
        """Record a heartbeat; true if an operator has asked the worker to drain. Workers that have not been
        seen for a day are deleted.
        """
        ...

    async def workers(self) -> list[Worker]:
        """Ordered by id."""
        ...

    async def drain_worker(self, worker_id: str) -> bool:
        """Ask a worker to stop; false if it is unknown."""
        ...

    async def remove_worker(self, worker_id: str) -> None:
        """Called when it has stopped."""
        ...


class WakeUps(Protocol):
    async def due(self, before: Timestamp, *, limit: int = 100, provider: str | None = None) -> list[WakeUp]:
        """Due timers of open runs, by (due, key); with `provider`, only of runs of this engine."""
        ...


class Snapshots(Protocol):
    async def save_snapshot(
        self, run_id: RunId, summary: RunSummary, changed_steps: Sequence[StepSnapshot]
    ) -> None:
        """Store a summary and the steps that changed since the previous one. An older one never replaces a
        newer.
        """
        ...

    async def load_summary(self, run_id: RunId) -> RunSummary | None: ...

    async def load_summaries(self, run_ids: Sequence[RunId]) -> list[RunSummary]:
        """The summaries of those of these runs that have one, in no particular order; for lists."""
        ...

    async def load_steps(self, run_id: RunId, *, after: str = "", limit: int = 100) -> list[StepSnapshot]:
        """A page of steps by path."""
        ...

    async def find_steps(self, run_id: RunId, step_ids: Sequence[str]) -> list[StepSnapshot]:
        """Those of these steps that are in a snapshot."""
        ...


class Checkpoints(Protocol):
    """States of runs, saved by their drivers: a cache of the log, validated when it is read."""

    async def save_checkpoint(self, run_id: RunId, checkpoint: Checkpoint) -> None:
        """Store it, unless the run has one that covers more. Raises `RunNotFound`."""
        ...

    async def load_checkpoint(self, run_id: RunId) -> Checkpoint | None:
        """The one that covers most. Raises `RunNotFound`."""
        ...


class Outbox(Protocol):
    async def add_bus(self, bus: str, *, from_start: bool = False, only: BusFilter | None = None) -> None:
        """From now on (or from the very first event) every event that matches `only` is also delivered to
        this bus.

        `only`: which events it receives; None means the filter it was added with before, or all events if it
        is new. Raises `BusFilterConflict` if it was added with another filter.
        """
        ...

    async def remove_bus(self, bus: str) -> None: ...

    async def claim_line(
        self, bus: str, *, owner: str, ttl: timedelta, limit: int = 100
    ) -> OutboxClaim | None:
        """Claim the undelivered events of a run that no other relay holds.

        The run whose turn was longest ago comes first.
        """
        ...

    async def delivered(self, claim: OutboxClaim, through_seq: int) -> bool:
        """Remove what was delivered and release the claim; False if it was lost."""
        ...

    async def failed(self, claim: OutboxClaim, error: str, *, retry_in: timedelta | None) -> bool:
        """The first event could not be delivered. `retry_in` None: it becomes a dead letter, and delivery
        continues after it.
        """
        ...

    async def has_waiting(self, bus: str) -> bool:
        """Whether the bus has undelivered events other than dead letters; costs the same however many."""
        ...

    async def outbox_lines(self, bus: str | None = None) -> list[OutboxLine]: ...

    async def dead_letters(self, bus: str | None = None) -> list[DeadLetter]: ...

    async def retry_dead(self, bus: str, run_id: RunId, run_seq: int) -> bool: ...

    async def drop_dead(self, bus: str, run_id: RunId, run_seq: int) -> bool: ...


class Maintenance(Protocol):
    async def store_id(self) -> str:
        """32 hex digits, created with the store and never changed. Only a copy of the store has the same id."""
        ...

    async def prune(self, run_id: RunId) -> None:
        """Remove an ended run completely, except its admission key. Raises `RunNotPrunable`."""
        ...

    async def stats(self) -> StoreStats: ...

    async def problems(self) -> list[str]:
        """Everything that is wrong with the store; empty if it is sound."""
        ...

    async def vacuum(self) -> None:
        """Return the space of removed data to the disk."""
        ...

    async def backup(self, path: Path) -> None:
        """Copy the store into a file while it is in use."""
        ...

    async def free_memory(self) -> None:
        """Free what is kept in memory only to answer faster. For a process that has become idle."""
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
    """All parts of one store. `runs` and `plans` are the parts for tenants."""

    @property
    def runs(self) -> TenantRuns: ...

    @property
    def plans(self) -> PublishedPlans: ...
