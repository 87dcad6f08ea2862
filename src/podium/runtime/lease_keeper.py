"""Keeps a run's lease while this process drives the run.

A lease that expired because the store was unavailable, or this process was frozen, is claimed again if no
other driver has taken it; then later events are written under the new fence. If there is no slot for the run
any more, nothing starts until there is one.
"""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from podium.errors import PodiumError, StaleFence
from podium.log.leases import Lease
from podium.ports.store import Store
from podium.runtime.drive import Driver

_RENEW_SECONDS: Final = 10.0
_RECLAIM_SECONDS: Final = 0.5


class LeaseKeeper:
    def __init__(
        self,
        store: Store,
        lease: Lease,
        ttl: timedelta,
        tell: Callable[[Lease], None],
        *,
        slots: int | None = None,
    ) -> None:
        self.lease = lease
        self._store = store
        self._ttl = ttl
        self._record_lease = tell
        self._slots = slots
        self._wake = asyncio.Event()
        self._is_lapsed = False

    def wake(self) -> None:
        """Renew it now: the store was unavailable."""
        self._wake.set()

    async def keep(self, driver: Driver) -> None:
        """Renew until another process has the lease: then the driver loses the run."""
        driver.leased_until(self._from_now())
        while True:
            await self._pause()
            try:
                if not await self._renew(driver) and not await self.claim_again(driver):
                    return
            except PodiumError:
                continue  # the store is unavailable; the lease itself limits how long that may last

    async def _pause(self) -> None:
        seconds = _RECLAIM_SECONDS if self._is_lapsed else _RENEW_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, self._ttl.total_seconds() / 3)):
                await self._wake.wait()
        self._wake.clear()

    def _from_now(self) -> float:
        return asyncio.get_running_loop().time() + self._ttl.total_seconds()

    def renewed(self, lease: Lease, driver: Driver, until: float) -> None:
        """A host has renewed it, together with others. `until`: by the clock of the loop."""
        self.lease = lease
        driver.leased_until(until)

    async def _renew(self, driver: Driver) -> bool:
        if self._is_lapsed:
            return False
        until = self._from_now()
        renewed = await self._store.renew(self.lease, ttl=self._ttl)
        if renewed is not None:
            self.lease = renewed
            driver.leased_until(until)
        return renewed is not None

    async def claim_again(self, driver: Driver) -> bool:
        """False if another driver has the run."""
        held = await self._store.held_lease(self.lease.run_id)
        if held is None or held.lease.owner != self.lease.owner:
            driver.revoke(_taken_over(self.lease.run_id))
            return False
        driver.begin_reclaiming()
        until = self._from_now()
        # A claim that was not answered may have succeeded.
        claimed = held.lease if held.is_live else None
        try:
            claimed = claimed or await self._claim()
        finally:
            driver.end_reclaiming((claimed or self.lease).fence)
        self._is_lapsed = claimed is None
        if claimed is None:
            driver.suspend(suspended=True)
        else:
            driver.leased_until(until)
            self.lease = claimed
            self._record_lease(claimed)
        return True

    async def _claim(self) -> Lease | None:
        """None if there is no slot for the run any more, or another process was faster."""
        return await self._store.claim(
            self.lease.run_id, owner=self.lease.owner, ttl=self._ttl, slots=self._slots
        )

    async def release(self) -> None:
        with contextlib.suppress(PodiumError):
            await self._store.release(self.lease)


def _taken_over(run_id: str) -> StaleFence:
    return StaleFence(f"run {run_id!r} was taken over by another driver; nothing more is written here")
