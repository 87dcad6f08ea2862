"""Runs that many workers share: their queue, their keys, and those that are parked."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from podium.log.ids import RunId
from podium.log.leases import Lease
from podium.log.runs import NewRun, Run
from podium.log.times import Timestamp, timestamp
from podium.log.transitions import IN_PROGRESS, NOT_STARTED, TERMINAL
from podium.ports.store import Claimed
from podium.stores import rules, texts
from podium.stores.memory.leases import MemoryLeases
from podium.stores.memory.state import KeptRun


class MemoryPools(MemoryLeases):
    async def claim_of_pool(
        self,
        pool: str,
        *,
        owner: str,
        ttl: timedelta,
        limit: int = 1,
        tenants: frozenset[str] | None = None,
    ) -> list[Claimed]:
        texts.check_holder(owner)
        claimed: list[Claimed] = []
        while len(claimed) < limit:
            found = self._next_of_pool(pool, tenants)
            if found is None:
                break
            kept, may_start = found
            kept.wake_at, kept.keeps_slot = None, False
            kept.has_turn = kept.has_turn or (may_start and kept.row.concurrency_limit is not None)
            claimed.append(Claimed(kept.row, self._take(kept, owner, ttl, ""), may_start))
        return claimed

    def _next_of_pool(self, pool: str, tenants: frozenset[str] | None) -> tuple[KeptRun, bool] | None:
        now = timestamp(self._clock.now())
        free = [
            kept
            for kept in self._runs.values()
            if kept.row.pool == pool
            and (tenants is None or kept.row.identity.tenant_id in tenants)
            and kept.row.status not in TERMINAL
            and not self._is_live(kept, "")
            and self._has_room(kept)
        ]
        left = [kept for kept in free if kept.wake_at is None and kept.row.status in IN_PROGRESS]
        woken = [kept for kept in free if kept.wake_at is not None and kept.wake_at <= now]
        if left or woken:
            chosen = left[0] if left else min(woken, key=lambda kept: (kept.wake_at, kept.number))
            return chosen, chosen.row.status in IN_PROGRESS
        queued = [
            kept
            for kept in free
            if kept.wake_at is None and rules.may_start(kept.row, now=now) and self._has_turn(kept)
        ]
        if not queued:
            return None
        chosen = min(queued, key=self._turn)
        self._served[chosen.row.identity.tenant_id] = max(self._served.values(), default=0) + 1
        return chosen, True

    def _has_room(self, kept: KeptRun) -> bool:
        """A parked run has kept its slot. A run that a signal has woken before its turn does not start."""
        only_ends = kept.wake_at is not None and kept.row.status not in IN_PROGRESS
        return kept.keeps_slot or only_ends or not self._full_limit(kept.scopes)

    def _has_turn(self, kept: KeptRun) -> bool:
        """Whether fewer runs with its key precede it than its limit allows."""
        limit = kept.row.concurrency_limit
        if limit is None:
            return True
        before = [
            other
            for other in self._of_key(kept.row.identity.tenant_id, kept.row.concurrency_key)
            if other is not kept and (other.number < kept.number or other.has_turn)
        ]
        return len(before) < limit

    def _check_exclusive(self, new: NewRun) -> None:
        others = self._of_key(new.identity.tenant_id, new.concurrency_key)
        if len(others) >= (new.concurrency_limit or 0):
            raise rules.refused_by_key(new, [kept.row for kept in others])

    def _of_key(self, tenant_id: str, key: str | None) -> list[KeptRun]:
        return [
            kept
            for kept in self._runs.values()
            if (kept.row.identity.tenant_id, kept.row.concurrency_key) == (tenant_id, key)
            and kept.row.concurrency_limit is not None
            and kept.row.status not in TERMINAL
        ]

    async def open_of_key(self, tenant_id: str, concurrency_key: str) -> list[Run]:
        return [kept.row for kept in self._of_key(tenant_id, concurrency_key)]

    async def held_back_by(self, run_id: RunId) -> str | None:
        kept = self._kept(run_id)
        if kept.row.pool is None or kept.row.status not in NOT_STARTED or self._is_live(kept, ""):
            return None
        if full := self._full_limit(kept.scopes):
            return full
        return rules.describe_key(kept.row) if not self._has_turn(kept) else None

    async def renew_all(self, leases: Sequence[Lease], *, ttl: timedelta) -> list[Lease]:
        renewed = [await self.renew(lease, ttl=ttl) for lease in leases if lease.run_id in self._runs]
        return [lease for lease in renewed if lease is not None]

    async def park(self, lease: Lease, *, after: int, until: Timestamp | None) -> bool:
        kept = self._kept(lease.run_id)
        if self._generation(kept, lease.fence) != lease.fence.generation or kept.row.head != after:
            return False
        kept.wake_at, kept.keeps_slot = until or rules.NEVER, True
        await self.release(lease)
        return True

    async def moved(self, heads: Mapping[RunId, int]) -> list[RunId]:
        return [
            run_id
            for run_id, head in heads.items()
            if run_id in self._runs and self._runs[run_id].row.head > head
        ]
