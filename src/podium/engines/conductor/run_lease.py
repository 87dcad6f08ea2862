"""The lease of a run, in the worker that decides about it; parked while the run waits."""

import asyncio
import contextlib
from collections.abc import Callable

from podium.engines.conductor.site import BEAT_SECONDS, RUN_LEASE, parked_owner
from podium.engines.opening import Claimant
from podium.errors import PodiumError, StaleFence, StoreUnavailable
from podium.log.ids import RunId
from podium.log.leases import Fence, Lease
from podium.ports.store import Store
from podium.runtime import holders


class RunLease:
    def __init__(self, store: Store, run_id: RunId) -> None:
        self._store = store
        self._run_id = run_id
        self._owner = holders.new_owner()
        self.lease: Lease | None = None

    @property
    def claimant(self) -> Claimant:
        """The claim for it, which may take over from the owner of the parked lease."""
        return Claimant(self._owner, RUN_LEASE, parked_owner(self._run_id))

    def fence(self) -> Fence:
        assert self.lease is not None
        return self.lease.fence

    async def keep(self, on_lost: Callable[[PodiumError], None]) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            with contextlib.suppress(StoreUnavailable, TimeoutError):
                async with asyncio.timeout(RUN_LEASE.total_seconds()):
                    if not await self._renew():
                        on_lost(self._taken_over())
                        return

    async def _renew(self) -> bool:
        """If it had lapsed and no other worker held it since, it is still ours."""
        assert self.lease is not None
        before = self.lease.fence.generation
        lease = await self._store.renew(self.lease, ttl=RUN_LEASE)
        if lease is None:
            lease = await self._store.claim(self._run_id, owner=self._owner, ttl=RUN_LEASE)
            if lease is None:
                return False
            if lease.fence.generation > before + 1:
                # Another worker held it since: the run has to be opened again.
                await self._store.release(lease)
                return False
        self.lease = lease
        return True

    async def park(self) -> None:
        """The run keeps its slot and belongs to no process. Raises `StaleFence` if another worker has it."""
        owner = parked_owner(self._run_id)
        if await self._store.claim(self._run_id, owner=owner, ttl=None, takes_over=self._owner) is None:
            raise self._taken_over()

    async def release(self) -> None:
        assert self.lease is not None
        await self._store.release(self.lease)

    def _taken_over(self) -> StaleFence:
        return StaleFence(f"run {self._run_id!r} was taken over by another worker")
