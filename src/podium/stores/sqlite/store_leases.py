"""Which process drives a run, and how many may run. The statements are in `ownership.py` and `pools.py`."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import apsw

from podium.log.ids import RunId
from podium.log.leases import HeldLease, Lease
from podium.log.times import Timestamp
from podium.ports.store import Claimed, Limit, SlotLine
from podium.stores import rules, texts
from podium.stores.sqlite import log, ownership
from podium.stores.sqlite.store_base import SqliteBase


class SqliteLeases(SqliteBase):
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
            # A process that takes over a live run also gets its slot.
            if held is None and not attempt:
                run = log.get_run(db, run_id)
                scopes = rules.scopes(run.identity, run.concurrency_key)
                if not ownership.keeps_slot(db, number) and ownership.full_limit(db, at, scopes):
                    return None
                if slots is not None and not rules.has_slot(ownership.slot_line(db, at, run), run_id, slots):
                    return None
            return ownership.take(db, at, number, run_id, owner, ttl, attempt)

        return await self._writer.write(change)

    async def renew(self, lease: Lease, *, ttl: timedelta | None) -> Lease | None:
        return await self._writer.write(lambda db: ownership.renew(db, self._writer.moment, lease, ttl))

    async def release(self, lease: Lease) -> None:
        await self._writer.write(
            lambda db: ownership.release(db, log.number_of(db, lease.run_id), lease.fence)
        )

    async def slot_line(self, run_id: RunId) -> SlotLine:
        return self.query(lambda db: ownership.slot_line(db, self._moments(), log.get_run(db, run_id)))

    async def held_lease(self, run_id: RunId) -> HeldLease | None:
        return self.query(
            lambda db: ownership.held_lease(db, self._moments(), log.number_of(db, run_id), run_id)
        )

    async def held_attempts(self, run_id: RunId) -> list[HeldLease]:
        return self.query(
            lambda db: ownership.held_attempts(db, self._moments(), log.number_of(db, run_id), run_id)
        )

    async def claim_of_pool(
        self,
        pool: str,
        *,
        owner: str,
        ttl: timedelta,
        limit: int = 1,
        tenants: frozenset[str] | None = None,
    ) -> list[Claimed]:
        from podium.stores.sqlite import pools

        texts.check_holder(owner)
        if not texts.could_be_kept(pool):
            return []
        return await self._writer.write(
            lambda db: pools.claim(db, self._writer.moment, pool, owner, ttl, limit, tenants)
        )

    async def renew_all(self, leases: Sequence[Lease], *, ttl: timedelta) -> list[Lease]:
        from podium.stores.sqlite import pools

        return await self._writer.write(lambda db: pools.renew_all(db, self._writer.moment, leases, ttl))

    async def park(self, lease: Lease, *, after: int, until: Timestamp | None) -> bool:
        from podium.stores.sqlite import pools

        return await self._writer.write(lambda db: pools.park(db, lease, after, until))

    async def moved(self, heads: Mapping[RunId, int]) -> list[RunId]:
        from podium.stores.sqlite import pools

        return self.query(lambda db: pools.moved(db, heads))

    async def held_back_by(self, run_id: RunId) -> str | None:
        from podium.stores.sqlite import pools

        return self.query(lambda db: pools.held_back_by(db, self._moments(), run_id))

    async def set_limit(self, limit: Limit) -> None:
        texts.check_limit(limit)
        await self._writer.write(lambda db: ownership.set_limit(db, limit))

    async def limits(self, tenant_id: str) -> list[Limit]:
        if not texts.could_be_kept(tenant_id):
            return []
        return self.query(lambda db: ownership.limits(db, tenant_id))

    async def remove_limit(self, tenant_id: str, scope: str, name: str) -> bool:
        if not texts.could_be_kept(tenant_id, scope, name):
            return False
        return await self._writer.write(lambda db: ownership.remove_limit(db, tenant_id, scope, name))
