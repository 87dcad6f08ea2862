"""Runs and their events in memory: the simplest definition of what an append does."""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from podium.errors import LogMoved, RunRefused, RunRequestConflict, RunRequestPruned
from podium.log.engines import EngineRunRef, check_engine_ref
from podium.log.events import EventRecord, EventWrite
from podium.log.ids import RunId
from podium.log.leases import AttemptClaim, Fence, WakeUp
from podium.log.runs import Backpressure, NewRun, Run, check_new_run, request_id_of
from podium.log.times import timestamp
from podium.log.transitions import TERMINAL, RunStatus
from podium.ports.clock import Clock
from podium.ports.store import NO_CONTENTS, AppendedEvent, CreatedRun, StartedAttempt
from podium.stores import rules, texts
from podium.stores.engine_refs import engine_columns
from podium.stores.memory.contents import MemoryContents
from podium.stores.memory.feed import MemoryFeed
from podium.stores.memory.outbox import BusLine, MemoryOutbox
from podium.stores.memory.pools import MemoryPools
from podium.stores.memory.sessions import MemorySessions
from podium.stores.memory.state import KeptRun, seq_of

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft


class MemoryLog(MemoryPools, MemoryContents, MemoryOutbox, MemorySessions, MemoryFeed):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._created = 0
        # Ids of removed runs, by their requests: neither id nor request is used for another run.
        self._pruned: dict[tuple[str, ...], str] = {}

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
        earlier = next((kept for kept in self._runs.values() if admitted(kept.row) == admission), None)
        if earlier is not None:
            rules.check_same_request(new, earlier.row.plan_sha256, earlier.row.inputs_sha256)
            return CreatedRun(earlier.row, (), duplicate=True)
        run_id = new.identity.run_id
        if admission in self._pruned:
            raise RunRequestPruned(request_id_of(new))
        if run_id in self._runs or run_id in self._pruned.values():
            raise RunRequestConflict(f"run {new.identity.run_id!r} exists or existed; use another run id")
        self._require_open(new.identity.tenant_id)
        if new.backpressure is Backpressure.REJECT and (
            full := self._full_limit(rules.scopes(new.identity, new.concurrency_key))
        ):
            raise RunRefused(full, retry_after_seconds=rules.RETRY_AFTER_SECONDS)
        if new.is_exclusive:
            self._check_exclusive(new)
        now = timestamp(self._clock.now())
        row = rules.first_row(new, now)
        if row.needs_approval and rules.opens(row.status, writes):
            rules.check_approved(row.identity, writes, None)
        self._created += 1
        kept = KeptRun(self._created, row)
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
            raise LogMoved(run_id, kept.log[bisect_right(kept.log, after, key=seq_of) :])
        rules.check_ends(fresh, fence, lambda name: self._is_live(kept, name))
        if kept.row.needs_approval and rules.opens(kept.row.status, fresh):
            approval = kept.by_key.get(rules.key_of_approval(kept.row.identity))
            rules.check_approved(kept.row.identity, fresh, approval.payload if approval is not None else None)
        stored = self._store(kept, fresh) if fresh else ()
        if fence is None and kept.row.pool is not None and fresh:
            kept.wake_at = rules.WOKEN
        if kept.row.status not in TERMINAL:
            kept.wake_ups.update({wake_up.key: wake_up.due for wake_up in set_wake_ups})
        for key in drop_wake_ups:
            kept.wake_ups.pop(key, None)
        self._record_audit(audit)
        return rules.outcome(writes, known, stored)

    def _store(self, kept: KeptRun, fresh: Sequence[EventWrite]) -> list[EventRecord]:
        now = timestamp(self._clock.now())
        stored = rules.records_of(kept.row.identity, fresh, kept.row.head, now)
        kept.log += stored
        kept.by_key.update({record.idempotency_key: record for record in stored})
        for bus, lines in self._buses.items():
            wanted = self._wanted(bus, stored)
            if wanted:
                lines.setdefault(kept.row.identity.run_id, BusLine()).waiting.extend(wanted)
        kept.row = rules.row_after(kept.row, fresh, len(stored), now)
        if kept.row.status in TERMINAL:
            kept.wake_ups.clear()
            for lease in kept.leases.values():
                lease.owner, lease.expires = "", float("-inf")
        self._appended.append(kept.row.identity.run_id)
        self._changed.set()
        self._changed = asyncio.Event()
        return stored

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
        end = min((kept.by_key[key] for key in keys if key in kept.by_key), key=seq_of, default=None)
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

    async def read(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> list[EventRecord]:
        log = self._kept(run_id).log
        start = bisect_right(log, after, key=seq_of)
        return log[start : start + limit]

    async def find(self, run_id: RunId, keys: Sequence[str]) -> list[EventRecord]:
        by_key = self._kept(run_id).by_key
        return sorted((by_key[key] for key in set(keys) if key in by_key), key=seq_of)

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


def admitted(row: Run) -> tuple[str, ...]:
    run = row.identity
    return (
        run.tenant_id,
        run.project_id,
        run.environment_id,
        run.plan_id,
        run.plan_version,
        row.run_request_id,
    )
