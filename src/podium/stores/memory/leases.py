"""Which process drives a run, or executes an attempt, and which run is next."""

from datetime import timedelta

from msgspec.structs import replace

from podium.log.ids import RunId
from podium.log.leases import IN_LINE, Fence, HeldLease, Lease
from podium.log.times import Timestamp, timestamp
from podium.ports.clock import Clock
from podium.ports.store import SlotLine
from podium.stores import rules, texts
from podium.stores.memory.limits import MemoryLimits
from podium.stores.memory.state import NEVER, KeptLease, KeptRun


class MemoryLeases(MemoryLimits):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        # When each tenant was last given a run, as an increasing number.
        self._served: dict[str, int] = {}

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
        if not attempt and not kept.keeps_slot and self._full_limit(kept.scopes):
            return None
        if slots is not None and not rules.has_slot(await self.slot_line(run_id), run_id, slots):
            return None
        return self._take(kept, owner, ttl, attempt)

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

    def _turn(self, kept: KeptRun) -> tuple[int, int, int, int]:
        """Tenants with fewer live runs first, then the one served longest ago, then priority, then age."""
        tenant = kept.row.identity.tenant_id
        live = sum(self._is_live(k, "") for k in self._runs.values() if k.row.identity.tenant_id == tenant)
        return live, self._served.get(tenant, 0), -kept.row.priority, kept.number

    def _take(self, kept: KeptRun, owner: str, ttl: timedelta | None, attempt: str) -> Lease:
        held = kept.leases.setdefault(attempt, KeptLease(owner))
        held.owner = owner
        held.generation += 1
        held.expires = self._elapsed_after(ttl)
        return self._lease(kept, attempt)

    def _generation(self, kept: KeptRun, fence: Fence) -> int | None:
        lease = kept.leases.get(fence.attempt)
        return lease.generation if lease is not None and lease.owner else None

    def _lease(self, kept: KeptRun, attempt: str) -> Lease:
        held = kept.leases[attempt]
        left = None
        if held.expires != NEVER:
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
        return self._clock.elapsed() + wait.total_seconds() if wait is not None else NEVER
