"""How a process acquires a run: its lock file on this host, its lease in the store, and a slot if the run
shares a key.

A run belongs to the process that holds its lease. A process that was presumed dead and comes back can no
longer write.
"""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Final

from podium.engines.control import Control
from podium.engines.parts import LocalParts
from podium.errors import ConcurrencyLimit, PodiumError
from podium.log.events import EventType, encode_payload
from podium.log.ids import RunId
from podium.log.leases import HeldLease, Lease
from podium.log.runs import Run
from podium.log.transitions import RunStatus
from podium.plan.plan import Concurrency
from podium.ports.engine import Notice
from podium.runtime import holders
from podium.runtime.lock import RunLock, RunLocked
from podium.runtime.reopening import NotAsDecided, Reopening
from podium.runtime.writing import new_event

# How long to wait for a lease to lapse, beyond its duration.
_LAPSE_MARGIN: Final = timedelta(seconds=5)
_LOOK_SECONDS: Final = 0.1


class Claim:
    """One process's attempt to acquire one run."""

    def __init__(
        self,
        parts: LocalParts,
        reopening: Reopening,
        lock: RunLock,
        concurrency: Concurrency | None,
        notify: Callable[[Notice], None] | None = None,
    ) -> None:
        self._parts = parts
        self._store = parts.store
        self._reopening = reopening
        self._run_id: RunId = reopening.run_id
        self._lock = lock
        self._concurrency = concurrency
        self._notify = notify
        self._patiently = partial(parts.patiently, reopening.run_id, notify=notify)
        # Unique for each claim, not for the process: the store returns a lease to its owner, and a process
        # may try to drive a run twice.
        self._owner = holders.new_owner()
        self.slots = concurrency.limit if concurrency is not None else None

    async def lock(self, patience: float) -> Lease | None:
        """Take the lock file, with the lease if its holder left it; names a process whose lock file is
        damaged.
        """
        try:
            return await self._lock.take(self._claim_as_decided, wait=patience)
        except NotAsDecided:
            raise
        except RunLocked as locked:
            held = await self._store.held_lease(self._run_id) if locked.holder is None else None
            if held is None:
                raise
            raise RunLocked(self._run_id, holders.describe(held.lease.owner)) from None

    async def lease(self, run: Run, control: Control) -> Lease:
        """Releases the lease of a process of this host that is gone; for any other lease, waits until it
        lapses.
        """
        before = self._lock.lease_before()
        if before is not None:
            await self._patiently(partial(self._store.release, before))
        if self._concurrency is not None:
            return await self._lease_with_slot(run, self._concurrency, control)
        began = asyncio.get_running_loop().time()
        while True:
            lease = await self._patiently(self._claim)
            if lease is not None:
                return lease
            held = await self._patiently(partial(self._store.held_lease, self._run_id))
            if held is not None and holders.is_gone(held.lease.owner):
                await self._patiently(partial(self._store.release, held.lease))
                continue
            self._check_wait(held, asyncio.get_running_loop().time() - began)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _claim(self) -> Lease | None:
        return await self._store.claim(
            self._run_id, owner=self._owner, ttl=self._parts.lease, slots=self.slots
        )

    async def _claim_as_decided(self) -> Lease | None:
        """While another process holds the run: it may have done what this one was asked to do."""
        await self._patiently(self._reopening.check)
        return await self._patiently(self._claim)

    async def _lease_with_slot(self, run: Run, concurrency: Concurrency, control: Control) -> Lease:
        # Imported with the first run that shares a key.
        from podium.runtime.slots import SlotWaiter

        parts = self._parts
        waiter = SlotWaiter(
            self._store,
            parts.clock,
            run,
            concurrency,
            owner=self._owner,
            ttl=parts.lease,
            notify=self._notify,
            patiently=self._patiently,
        )
        try:
            lease = await waiter.wait(self._claim, lambda: control.is_cancelled)
        except ConcurrencyLimit:
            await self._end_before_start(run)
            raise
        if lease is None:
            control.was_queued = True
            lease = await self.claim_to_end()
        return lease

    async def claim_to_end(self) -> Lease:
        """A lease that is never live and so needs no slot: enough to record the end of a run that never
        started.
        """
        lease = await self._store.claim(self._run_id, owner=self._owner, ttl=timedelta())
        if lease is None:
            raise RunLocked(self._run_id, None)
        return lease

    async def give_back(self) -> None:
        """After a cancellation: a claim or a release that was under way may have been stored or not. The next
        process would have to wait until the lease lapses, because this one is alive.
        """
        with contextlib.suppress(PodiumError):
            held = await self._store.held_lease(self._run_id)
            if held is None or held.lease.owner == self._owner:
                await self._store.release(await self.claim_to_end())

    async def _end_before_start(self, run: Run) -> None:
        """End a run that was refused after it was created, so that it does not stay open."""
        if run.status not in (RunStatus.PENDING, RunStatus.APPROVED):
            return
        lease = await self.claim_to_end()
        from podium.runtime.slots import CONCURRENCY_LIMIT

        payload = encode_payload({"exitCode": 2, "reason": CONCURRENCY_LIMIT})
        write = new_event(run.identity, EventType.RUN_CANCELLED, self._parts.now(), payload)
        await self._store.append(self._run_id, [write], fence=lease.fence)
        await self._store.release(lease)

    def _check_wait(self, held: HeldLease | None, waited: float) -> None:
        """Wait for a live process of this host, even if its lock file was deleted, as with a lock file; for
        others until their leases lapse.
        """
        lives_here = held is not None and holders.is_alive_here(held.lease.owner)
        longest = self._parts.lock_wait if lives_here else self._parts.lease + _LAPSE_MARGIN
        if waited > longest.total_seconds():
            raise RunLocked(self._run_id, holders.describe(held.lease.owner) if held is not None else None)
