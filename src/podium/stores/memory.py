"""A store in memory: for tests, and the plainest statement of what a store does."""

import asyncio
from bisect import bisect_right, insort
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from msgspec.structs import replace

from podium.errors import (
    ContentMissing,
    LogMoved,
    RunNotFound,
    RunRefused,
    RunRequestConflict,
    StoreUnavailable,
)
from podium.log.checkpoints import Checkpoint
from podium.log.engines import LOCAL, EngineRunRef, check_engine_ref
from podium.log.events import EventRecord, EventWrite
from podium.log.ids import RunId
from podium.log.leases import IN_LINE, AttemptClaim, Fence, HeldLease, Lease, WakeUp
from podium.log.outbox import ALL_EVENTS, BusFilter, DeadLetter, OutboxClaim, OutboxLine
from podium.log.runs import (
    Backpressure,
    NewRun,
    Run,
    RunPage,
    RunQuery,
    check_new_run,
    request_id_of,
)
from podium.log.snapshots import RunSummary, StepSnapshot
from podium.log.times import Timestamp, timestamp
from podium.log.transitions import TERMINAL, RunStatus
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
from podium.stores.engine_refs import engine_columns

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft, AuditHead, AuditRecord

_NEVER: Final = float("inf")


@dataclass
class _Lease:
    owner: str
    generation: int = 0
    expires: float = float("-inf")


@dataclass
class _Kept:
    """One run with everything that belongs to it."""

    number: int
    row: Run
    log: list[EventRecord] = field(default_factory=list)
    by_key: dict[str, EventRecord] = field(default_factory=dict)
    leases: dict[str, _Lease] = field(default_factory=dict)
    wake_ups: dict[str, Timestamp] = field(default_factory=dict)
    summary: RunSummary | None = None
    steps: dict[str, StepSnapshot] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    # SHA-256 of what is kept, by name.
    contents: dict[str, bytes] = field(default_factory=dict)


@dataclass
class _Line:
    """What one run has to deliver to one bus."""

    waiting: list[int] = field(default_factory=list)
    generation: int = 0
    held_until: float = float("-inf")
    not_before: float = float("-inf")
    failures: int = 0
    error: str = ""
    # Rises with every claim of the bus: whose turn was longest ago is next.
    turn: int = 0


class MemoryStore:
    """Everything in dictionaries; one event loop, no durability."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._id = uuid4().hex
        self._runs: dict[str, _Kept] = {}
        self._contents: dict[bytes, bytes] = {}
        self._pruned: dict[tuple[str, ...], str] = {}
        self._limits: dict[tuple[str, str, str], int] = {}
        self._served: dict[str, int] = {}
        self._buses: dict[str, dict[str, _Line]] = {}
        self._filters: dict[str, BusFilter] = {}
        self._dead: dict[tuple[str, str, int], DeadLetter] = {}
        self._audit: dict[str, list[AuditRecord]] = {}
        self._audit_heads: dict[str, AuditHead] = {}
        self._changed = asyncio.Event()
        self._created = 0

    @property
    def runs(self) -> "MemoryTenantRuns":
        return MemoryTenantRuns(self)

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
        texts.check_audit(audit)
        texts.check_texts_of_run(new)
        texts.check_contents(contents)
        rules.check_writes(writes)
        admission = _admission(new)
        earlier = next((kept for kept in self._runs.values() if _admitted(kept.row) == admission), None)
        if earlier is not None:
            rules.check_same_request(new, earlier.row.plan_sha256, earlier.row.inputs_sha256)
            return CreatedRun(earlier.row, (), duplicate=True)
        run_id = new.identity.run_id
        if admission in self._pruned or run_id in self._runs or run_id in self._pruned.values():
            raise RunRequestConflict(f"run {new.identity.run_id!r} exists or existed; use another run id")
        if new.backpressure is Backpressure.REJECT and (full := self._full_limit(_scopes_of(new))):
            raise RunRefused(full, retry_after_seconds=rules.RETRY_AFTER_SECONDS)
        now = timestamp(self._clock.now())
        row = rules.first_row(new, now)
        if row.needs_approval and rules.opens(row.status, writes):
            rules.check_approved(row.identity, writes, None)
        self._created += 1
        kept = _Kept(self._created, row)
        self._runs[new.identity.run_id] = kept
        stored = self._store(kept, rules.new_writes(writes, {}))
        self._keep(kept, contents)
        self._record_audit(audit)
        return CreatedRun(kept.row, rules.outcome(writes, {}, stored), duplicate=False)

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
        rules.check_writes(writes)
        rules.check_one_end(writes)
        texts.check_wake_ups(set_wake_ups)
        texts.check_audit(audit)
        kept = self._kept(run_id)
        ends = rules.may_end_twice(writes, after)
        known = rules.recorded(kept.row.identity, writes, kept.by_key.get, ends=ends)
        fresh = rules.new_writes(writes, known)
        if not fresh and (writes or not (set_wake_ups or drop_wake_ups or audit)):
            return rules.outcome(writes, known, ())
        current = self._generation(kept, fence) if fence is not None else None
        rules.check_fence(run_id, fresh, fence, current)
        if after is not None and after != kept.row.head:
            raise LogMoved(run_id, kept.log[bisect_right(kept.log, after, key=_seq) :])
        rules.check_ends(fresh, fence, lambda name: self._is_live(kept, name))
        if kept.row.needs_approval and rules.opens(kept.row.status, fresh):
            approval = kept.by_key.get(rules.key_of_approval(kept.row.identity))
            rules.check_approved(kept.row.identity, fresh, approval.payload if approval is not None else None)
        stored = self._store(kept, fresh) if fresh else ()
        if kept.row.status not in TERMINAL:
            kept.wake_ups.update({wake_up.key: wake_up.due for wake_up in set_wake_ups})
        for key in drop_wake_ups:
            kept.wake_ups.pop(key, None)
        self._record_audit(audit)
        return rules.outcome(writes, known, stored)

    def _store(self, kept: _Kept, fresh: Sequence[EventWrite]) -> list[EventRecord]:
        now = timestamp(self._clock.now())
        stored = rules.records_of(kept.row.identity, fresh, kept.row.head, now)
        kept.log += stored
        kept.by_key.update({record.idempotency_key: record for record in stored})
        for bus, lines in self._buses.items():
            wanted = self._wanted(bus, stored)
            if wanted:
                lines.setdefault(kept.row.identity.run_id, _Line()).waiting.extend(wanted)
        kept.row = rules.row_after(kept.row, fresh, len(stored), now)
        if kept.row.status in TERMINAL:
            kept.wake_ups.clear()
            for lease in kept.leases.values():
                lease.owner, lease.expires = "", float("-inf")
        self._changed.set()
        self._changed = asyncio.Event()
        return stored

    async def read(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> list[EventRecord]:
        log = self._kept(run_id).log
        start = bisect_right(log, after, key=_seq)
        return log[start : start + limit]

    async def find(self, run_id: RunId, keys: Sequence[str]) -> list[EventRecord]:
        by_key = self._kept(run_id).by_key
        return sorted((by_key[key] for key in set(keys) if key in by_key), key=_seq)

    async def watch(self, run_id: RunId, *, after: int = 0) -> AsyncIterator[list[EventRecord]]:
        while True:
            changed = self._changed
            if records := await self.read(run_id, after=after):
                after = records[-1].run_seq
                yield records
            else:
                await changed.wait()

    async def get_run(self, run_id: RunId) -> Run:
        return self._kept(run_id).row

    async def set_engine(self, run_id: RunId, engine: EngineRunRef, *, fence: Fence) -> None:
        check_engine_ref(engine, run_id)
        texts.check_engine(engine)
        kept = self._kept(run_id)
        rules.check_fence(run_id, (), fence, self._generation(kept, fence))
        kept.row = replace(kept.row, engine=engine)

    async def run_of_engine(self, provider: str, workflow_id: str, provider_run_id: str = "") -> Run | None:
        ids = (provider, workflow_id, provider_run_id)
        return next(
            (kept.row for kept in self._runs.values() if engine_columns(kept.row.engine)[:3] == ids), None
        )

    async def open_runs(self, provider: str, *, after: str = "", limit: int = 100) -> list[Run]:
        found = [
            kept.row
            for run_id, kept in self._runs.items()
            if run_id > after
            and kept.row.engine is not None
            and kept.row.engine.provider == provider
            and kept.row.status not in TERMINAL
        ]
        return sorted(found, key=lambda run: run.identity.run_id)[:limit]

    def _kept(self, run_id: str) -> _Kept:
        kept = self._runs.get(run_id)
        if kept is None:
            raise RunNotFound(run_id)
        return kept

    # --- the audit log ----------------------------------------------------------------------------

    async def record_audit(self, drafts: "Sequence[AuditDraft]") -> None:
        texts.check_audit(drafts)
        self._record_audit(drafts)

    def _record_audit(self, drafts: "Sequence[AuditDraft]") -> None:
        if not drafts:
            return
        from podium.access.audit import ChainEnd, by_tenant, continued

        for tenant_id, of_tenant in by_tenant(drafts).items():
            chain = self._audit.setdefault(tenant_id, [])
            newest = ChainEnd(chain[-1].seq, chain[-1].seal) if chain else None
            records, head = continued(of_tenant, self._audit_heads.get(tenant_id), newest)
            chain += records
            self._audit_heads[tenant_id] = head

    async def read_audit(self, tenant_id: str, *, after: int = 0, limit: int = 1000) -> "list[AuditRecord]":
        found = [record for record in self._audit.get(tenant_id, ()) if record.seq > after]
        return found[:limit]

    async def audit_tenants(self) -> list[str]:
        return sorted(self._audit)

    async def audit_head(self, tenant_id: str) -> "AuditHead | None":
        return self._audit_heads.get(tenant_id)

    # --- contents ---------------------------------------------------------------------------------

    async def keep(self, run_id: RunId, contents: Mapping[str, bytes]) -> None:
        texts.check_contents(contents)
        self._keep(self._kept(run_id), contents)

    def _keep(self, kept: _Kept, contents: Mapping[str, bytes]) -> None:
        for one in rules.contents_of(contents):
            self._contents.setdefault(one.sha256, one.content)
            kept.contents[one.name] = one.sha256
        self._remove_unused_contents()

    def _remove_unused_contents(self) -> None:
        used = {digest for kept in self._runs.values() for digest in kept.contents.values()}
        self._contents = {digest: content for digest, content in self._contents.items() if digest in used}

    async def kept(self, run_id: RunId, name: str) -> bytes:
        texts.check_name("the name of a content", name)
        digest = self._kept(run_id).contents.get(name)
        if digest is None:
            raise ContentMissing(run_id, name)
        return rules.checked_content(run_id, name, digest, self._contents[digest])

    async def list_kept(self, run_id: RunId) -> list[KeptContent]:
        return [
            KeptContent(name, digest.hex(), len(self._contents[digest]))
            for name, digest in sorted(self._kept(run_id).contents.items())
        ]

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
        kept = self._kept(run_id)
        if self._is_live(kept, attempt):
            held = self._lease(kept, attempt)
            if held.owner == owner:
                return await self.renew(held, ttl=ttl)
            return self._take(kept, owner, ttl, attempt) if held.owner == takes_over else None
        if not attempt and self._full_limit(_scopes_of_row(kept.row)):
            return None
        if slots is not None and not rules.has_slot(await self.slot_line(run_id), run_id, slots):
            return None
        return self._take(kept, owner, ttl, attempt)

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
        texts.check_holder(claim.owner, claim.name)
        kept = self._kept(run_id)
        if kept.row.status is RunStatus.PAUSED and any(
            key not in kept.by_key for key in rules.keys_of_starts(writes)
        ):
            return StartedAttempt((), is_paused=True)
        keys = rules.keys_of_ends(kept.row.identity, claim)
        end = min((kept.by_key[key] for key in keys if key in kept.by_key), key=_seq, default=None)
        events: tuple[AppendedEvent, ...] = ()
        if writes or end is None:
            events = await self.append(
                run_id, writes, fence=fence, set_wake_ups=set_wake_ups, drop_wake_ups=drop_wake_ups
            )
        if end is not None:
            return StartedAttempt(events, end=end)
        rules.check_fence(run_id, (), fence, self._generation(kept, fence))
        if self._is_live(kept, claim.name) and kept.leases[claim.name].owner != claim.owner:
            return StartedAttempt(events, holder=self._lease(kept, claim.name))
        return StartedAttempt(events, lease=self._take(kept, claim.owner, claim.ttl, claim.name))

    def _generation(self, kept: _Kept, fence: Fence) -> int | None:
        lease = kept.leases.get(fence.attempt)
        return lease.generation if lease is not None and lease.owner else None

    async def slot_line(self, run_id: RunId) -> SlotLine:
        row = self._kept(run_id).row
        if row.concurrency_key is None:
            return SlotLine((), ())
        scope = (row.identity.tenant_id, row.concurrency_key)
        kept = [k for k in self._runs.values() if (k.row.identity.tenant_id, k.row.concurrency_key) == scope]
        working = sorted((k for k in kept if self._is_live(k, "")), key=lambda k: k.number)
        waiting = sorted(
            (k for k in kept if self._is_live(k, IN_LINE)), key=lambda k: (-k.row.priority, k.number)
        )
        return SlotLine(
            tuple(self._lease(k, "") for k in working), tuple(self._lease(k, IN_LINE) for k in waiting)
        )

    def _lease(self, kept: _Kept, attempt: str) -> Lease:
        held = kept.leases[attempt]
        left = None
        if held.expires != _NEVER:
            left = timedelta(seconds=held.expires - self._clock.elapsed())
        return Lease(
            run_id=kept.row.identity.run_id,
            owner=held.owner,
            fence=Fence(held.generation, attempt),
            expires_at=self._text_after(left),
        )

    def _text_after(self, wait: timedelta | None) -> Timestamp | None:
        return timestamp(self._clock.now() + wait) if wait is not None else None

    def _elapsed_after(self, wait: timedelta | None) -> float:
        return self._clock.elapsed() + wait.total_seconds() if wait is not None else _NEVER

    async def renew(self, lease: Lease, *, ttl: timedelta | None) -> Lease | None:
        kept = self._runs.get(lease.run_id)
        held = kept.leases.get(lease.fence.attempt) if kept is not None else None
        if held is None or held.generation != lease.fence.generation:
            return None
        if kept is None or not self._is_live(kept, lease.fence.attempt):
            return None
        held.expires = self._elapsed_after(ttl)
        return replace(lease, expires_at=self._text_after(ttl))

    async def release(self, lease: Lease) -> None:
        held = self._kept(lease.run_id).leases.get(lease.fence.attempt)
        if held is not None and held.generation == lease.fence.generation:
            held.owner, held.expires = "", float("-inf")

    async def held_lease(self, run_id: RunId) -> HeldLease | None:
        kept = self._kept(run_id)
        held = kept.leases.get("")
        if held is None or not held.owner:
            return None
        return HeldLease(lease=self._lease(kept, ""), is_live=self._is_live(kept, ""))

    async def held_attempts(self, run_id: RunId) -> list[HeldLease]:
        kept = self._kept(run_id)
        names = sorted(name for name in kept.leases if name not in ("", IN_LINE))
        return [
            HeldLease(lease=self._lease(kept, name), is_live=True)
            for name in names
            if self._is_live(kept, name)
        ]

    async def claim_next(self, *, owner: str, ttl: timedelta | None, provider: str = LOCAL) -> Claimed | None:
        texts.check_holder(owner)
        now = timestamp(self._clock.now())
        waiting = [
            kept
            for kept in self._runs.values()
            if kept.row.provider == provider
            and rules.may_start(kept.row, now=now)
            and not self._is_live(kept, "")
            and not self._full_limit(_scopes_of_row(kept.row))
        ]
        if not waiting:
            return None
        chosen = min(waiting, key=self._turn)
        tenant = chosen.row.identity.tenant_id
        self._served[tenant] = max(self._served.values(), default=0) + 1
        return Claimed(chosen.row, self._take(chosen, owner, ttl, ""))

    def _turn(self, kept: _Kept) -> tuple[int, int, int, int]:
        """Tenants with fewer live runs first, then the one served longest ago, then priority, then age."""
        tenant = kept.row.identity.tenant_id
        live = sum(self._is_live(k, "") for k in self._runs.values() if k.row.identity.tenant_id == tenant)
        return live, self._served.get(tenant, 0), -kept.row.priority, kept.number

    async def claim_lapsed(
        self, *, owner: str, ttl: timedelta | None, provider: str = LOCAL
    ) -> Claimed | None:
        texts.check_holder(owner)
        for kept in self._runs.values():
            started = kept.row.status in (RunStatus.RUNNING, RunStatus.PAUSED)
            if kept.row.provider != provider:
                continue
            if started and not self._is_live(kept, "") and not self._full_limit(_scopes_of_row(kept.row)):
                return Claimed(kept.row, self._take(kept, owner, ttl, ""))
        return None

    async def set_limit(self, limit: Limit) -> None:
        texts.check_limit(limit)
        self._limits[limit.tenant_id, limit.scope, limit.name] = limit.most

    async def limits(self, tenant_id: str) -> list[Limit]:
        return sorted(
            Limit(tenant, scope, name, most)
            for (tenant, scope, name), most in self._limits.items()
            if tenant == tenant_id
        )

    def _take(self, kept: _Kept, owner: str, ttl: timedelta | None, attempt: str) -> Lease:
        held = kept.leases.setdefault(attempt, _Lease(owner))
        held.owner = owner
        held.generation += 1
        held.expires = self._elapsed_after(ttl)
        return self._lease(kept, attempt)

    def _is_live(self, kept: _Kept, attempt: str) -> bool:
        held = kept.leases.get(attempt)
        return held is not None and bool(held.owner) and held.expires > self._clock.elapsed()

    def _full_limit(self, scopes: Iterable[tuple[str, str, str]]) -> str | None:
        """The first limit of a run that leaves no room for another, in words."""
        for scope in scopes:
            most = self._limits.get(scope)
            if most is None:
                continue
            live = sum(
                self._is_live(kept, "") for kept in self._runs.values() if scope in _scopes_of_row(kept.row)
            )
            if live >= most:
                return rules.describe_limit(scope, most)
        return None

    # --- wake-ups and snapshots -------------------------------------------------------------------

    async def due(self, before: Timestamp, *, limit: int = 100, provider: str | None = None) -> list[WakeUp]:
        found: list[tuple[Timestamp, str, str]] = []
        for run_id, kept in self._runs.items():
            if provider is not None and kept.row.provider != provider:
                continue
            for key, due in kept.wake_ups.items():
                if due <= before:
                    insort(found, (due, key, run_id))
        return [WakeUp(run_id=RunId(run_id), key=key, due=due) for due, key, run_id in found[:limit]]

    async def save_snapshot(
        self, run_id: RunId, summary: RunSummary, changed_steps: Sequence[StepSnapshot]
    ) -> None:
        texts.check_snapshot(summary, changed_steps)
        kept = self._kept(run_id)
        if kept.summary is not None and kept.summary.last_event_seq > summary.last_event_seq:
            return
        kept.summary = summary
        kept.steps.update({step.step_id: step for step in changed_steps})

    async def load_summary(self, run_id: RunId) -> RunSummary | None:
        return self._kept(run_id).summary

    async def load_steps(self, run_id: RunId, *, after: str = "", limit: int = 100) -> list[StepSnapshot]:
        texts.check_name("after", after)
        steps = self._kept(run_id).steps
        return [steps[key] for key in sorted(key for key in steps if key > after)[:limit]]

    async def find_steps(self, run_id: RunId, step_ids: Sequence[str]) -> list[StepSnapshot]:
        steps = self._kept(run_id).steps
        return [steps[step_id] for step_id in step_ids if step_id in steps]

    async def save_checkpoint(self, run_id: RunId, checkpoint: Checkpoint) -> None:
        texts.check_checkpoint(checkpoint)
        kept = self._kept(run_id)
        if kept.checkpoint is None or kept.checkpoint.run_seq <= checkpoint.run_seq:
            kept.checkpoint = checkpoint

    async def load_checkpoint(self, run_id: RunId) -> Checkpoint | None:
        return self._kept(run_id).checkpoint

    # --- the outbox -------------------------------------------------------------------------------

    async def add_bus(self, bus: str, *, from_start: bool = False, only: BusFilter | None = None) -> None:
        texts.check_name("bus", bus)
        if bus in self._buses:
            rules.check_filter(bus, only, self._filters[bus])
            return
        self._filters[bus] = only or ALL_EVENTS
        earlier = self._runs if from_start else {}
        self._buses[bus] = {
            run_id: _Line(waiting=wanted)
            for run_id, kept in earlier.items()
            if (wanted := self._wanted(bus, kept.log))
        }

    def _wanted(self, bus: str, records: Sequence[EventRecord]) -> list[int]:
        wants = self._filters[bus].wants
        return [one.run_seq for one in records if wants(one.run.plan_id, one.event_type, one.payload)]

    async def remove_bus(self, bus: str) -> None:
        self._buses.pop(bus, None)
        self._filters.pop(bus, None)
        self._dead = {key: dead for key, dead in self._dead.items() if key[0] != bus}

    async def claim_line(
        self, bus: str, *, owner: str, ttl: timedelta, limit: int = 100
    ) -> OutboxClaim | None:
        texts.check_holder(owner)
        now = self._clock.elapsed()
        lines = self._buses.get(bus, {})
        free = [
            (line.turn, run_id)
            for run_id, line in lines.items()
            if line.waiting and line.held_until <= now and line.not_before <= now
        ]
        if not free:
            return None
        # The first of those whose turn was longest ago; the sort is stable.
        _, run_id = min(free, key=lambda one: one[0])
        line = lines[run_id]
        line.turn = 1 + max(one.turn for one in lines.values())
        line.generation += 1
        line.held_until = now + ttl.total_seconds()
        by_seq = {record.run_seq: record for record in self._runs[run_id].log}
        return OutboxClaim(
            bus=bus,
            run_id=RunId(run_id),
            generation=line.generation,
            failures=line.failures,
            records=tuple(by_seq[seq] for seq in line.waiting[:limit]),
        )

    async def delivered(self, claim: OutboxClaim, through_seq: int) -> bool:
        line = self._held_line(claim)
        if line is None:
            return False
        line.waiting = [seq for seq in line.waiting if seq > through_seq]
        line.held_until, line.failures, line.error = float("-inf"), 0, ""
        return True

    async def failed(self, claim: OutboxClaim, error: str, *, retry_in: timedelta | None) -> bool:
        line = self._held_line(claim)
        if line is None or not line.waiting:
            return False
        error = texts.readable(error)
        line.held_until = float("-inf")
        line.failures += 1
        line.error = error
        if retry_in is not None:
            line.not_before = self._clock.elapsed() + retry_in.total_seconds()
            return True
        seq = line.waiting.pop(0)
        record = next(r for r in self._runs[claim.run_id].log if r.run_seq == seq)
        self._dead[claim.bus, claim.run_id, seq] = DeadLetter(
            bus=claim.bus,
            run_id=claim.run_id,
            run_seq=seq,
            event_type=record.event_type,
            failures=line.failures,
            error=error,
            died_at=timestamp(self._clock.now()),
        )
        line.failures, line.error = 0, ""
        return True

    def _held_line(self, claim: OutboxClaim) -> _Line | None:
        line = self._buses.get(claim.bus, {}).get(claim.run_id)
        return line if line is not None and line.generation == claim.generation else None

    async def outbox_lines(self, bus: str | None = None) -> list[OutboxLine]:
        return [
            OutboxLine(
                bus=name,
                run_id=RunId(run_id),
                waiting=len(line.waiting),
                first_seq=line.waiting[0],
                failures=line.failures,
                next_at=None,
                error=line.error,
            )
            for name, lines in sorted(self._buses.items())
            for run_id, line in sorted(lines.items())
            if bus in (None, name) and line.waiting
        ]

    async def dead_letters(self, bus: str | None = None) -> list[DeadLetter]:
        return [dead for key, dead in sorted(self._dead.items()) if bus in (None, key[0])]

    async def retry_dead(self, bus: str, run_id: RunId, run_seq: int) -> bool:
        if self._dead.pop((bus, run_id, run_seq), None) is None:
            return False
        insort(self._buses[bus].setdefault(run_id, _Line()).waiting, run_seq)
        return True

    async def drop_dead(self, bus: str, run_id: RunId, run_seq: int) -> bool:
        return self._dead.pop((bus, run_id, run_seq), None) is not None

    # --- maintenance ------------------------------------------------------------------------------

    async def store_id(self) -> str:
        return self._id

    async def prune(self, run_id: RunId) -> None:
        kept = self._kept(run_id)
        undelivered = any(lines.get(run_id, _Line()).waiting for lines in self._buses.values())
        rules.check_prunable(kept.row, undelivered=undelivered)
        self._pruned[_admitted(kept.row)] = run_id
        self._dead = {key: dead for key, dead in self._dead.items() if key[1] != run_id}
        del self._runs[run_id]
        self._remove_unused_contents()
        for lines in self._buses.values():
            lines.pop(run_id, None)

    async def stats(self) -> StoreStats:
        return StoreStats(
            runs=len(self._runs),
            open_runs=sum(kept.row.status not in TERMINAL for kept in self._runs.values()),
            events=sum(len(kept.log) for kept in self._runs.values()),
            bytes_used=0,
            schema_version=0,
        )

    async def problems(self) -> list[str]:
        used = {digest for kept in self._runs.values() for digest in kept.contents.values()}
        lost = [f"content {digest.hex()} is missing" for digest in used - self._contents.keys()]
        unused = [f"content {digest.hex()} belongs to no run" for digest in self._contents.keys() - used]
        return lost + unused + self._audit_problems()

    def _audit_problems(self) -> list[str]:
        from podium.stores.audit_problems import ChainProblems

        found = []
        for tenant_id, chain in self._audit.items():
            problems = ChainProblems(tenant_id)
            found += [problem for record in chain for problem in problems.add(record)]
            found += problems.finish(self._audit_heads.get(tenant_id))
        return found

    async def vacuum(self) -> None:
        pass

    async def backup(self, path: Path) -> None:
        raise StoreUnavailable(f"a store in memory cannot be copied to {path}; export its runs instead")

    async def close(self) -> None:
        pass


class MemoryTenantRuns:
    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def find(self, tenant_id: str, run_id: str) -> Run:
        kept = self._store._runs.get(run_id)
        if kept is None or kept.row.identity.tenant_id != tenant_id:
            raise RunNotFound(run_id)
        return kept.row

    async def page(self, tenant_id: str, query: RunQuery) -> RunPage:
        last = texts.cursor_of(query)
        found = [
            kept
            for kept in sorted(self._store._runs.values(), key=lambda kept: -kept.number)
            if kept.row.identity.tenant_id == tenant_id
            and (last is None or kept.number < last)
            and rules.matches(kept.row, query)
        ]
        page = found[: query.limit]
        more = len(found) > len(page)
        return RunPage(runs=tuple(kept.row for kept in page), cursor=str(page[-1].number) if more else None)


def _seq(record: EventRecord) -> int:
    return record.run_seq


def _admission(new: NewRun) -> tuple[str, ...]:
    run = new.identity
    return (
        run.tenant_id,
        run.project_id,
        run.environment_id,
        run.plan_id,
        run.plan_version,
        request_id_of(new),
    )


def _admitted(row: Run) -> tuple[str, ...]:
    run = row.identity
    return (
        run.tenant_id,
        run.project_id,
        run.environment_id,
        run.plan_id,
        run.plan_version,
        row.run_request_id,
    )


def _scopes_of(new: NewRun) -> list[tuple[str, str, str]]:
    return rules.scopes(new.identity, new.concurrency_key)


def _scopes_of_row(row: Run) -> list[tuple[str, str, str]]:
    return rules.scopes(row.identity, row.concurrency_key)
