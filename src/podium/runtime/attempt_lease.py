"""The lease of an attempt (G45): it says which worker executes the attempt, and counts its workers.

Its generation is the number of the engine attempt: it keeps counting when an engine restarts its own count.
The lease is renewed while the work is in progress and expires if the worker dies. A worker that was presumed
dead finds out when it renews its lease, or at the latest when it records the end, which is refused.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final, TypeAlias

from podium.errors import PodiumError, StaleFence
from podium.log.events import EventWrite
from podium.log.ids import RunId
from podium.log.leases import AttemptClaim, Fence, Lease
from podium.ports.store import StartedAttempt, Store
from podium.runtime.run_writer import RunWriter

ATTEMPT_LEASE: Final = timedelta(seconds=5)
_RENEWALS_PER_LEASE: Final = 3


# Returns the run's current fence.
RunFence: TypeAlias = Callable[[], Awaitable[Fence]]


class AttemptTakenOver(PodiumError):
    """Another engine attempt executes it now: nothing more is recorded here."""

    code = "ATTEMPT_TAKEN_OVER"


class AttemptLease:
    """`owner` names one engine attempt: repeated requests with the same name come from the same one."""

    def __init__(
        self, store: Store, writer: RunWriter, run_id: RunId, run_fence: RunFence, claim: AttemptClaim
    ) -> None:
        self._store = store
        self._writer = writer
        self._run_id = run_id
        self._run_fence = run_fence
        self._claim = claim
        self._lease: Lease | None = None
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._is_over = False

    @property
    def held(self) -> Lease:
        assert self._lease is not None
        return self._lease

    async def start(self, writes: Sequence[EventWrite], drop_wake_ups: Sequence[str]) -> StartedAttempt:
        """Append, and take the lease if it is available."""

        async def call() -> StartedAttempt:
            until = self._from_now()
            started = await self._store.start_attempt(
                self._run_id,
                writes,
                fence=await self._run_fence(),
                claim=self._claim,
                drop_wake_ups=drop_wake_ups,
            )
            if started.lease is not None:
                self._lease, self._until = started.lease, until
            return started

        return await self._writer.outlast(call)

    def _from_now(self) -> float:
        # The same clock as in stores: it also advances while the machine is suspended.
        return time.clock_gettime(time.CLOCK_BOOTTIME) + self._claim.ttl.total_seconds()

    async def prove(self) -> None:
        """Called right before the work starts. Raises `AttemptTakenOver` if this process was frozen for too
        long.
        """
        if time.clock_gettime(time.CLOCK_BOOTTIME) >= self._until and not await self._renew():
            raise taken_over(self._claim)

    def holds(self) -> bool:
        return time.clock_gettime(time.CLOCK_BOOTTIME) < self._until

    def keep(self, on_lost: Callable[[AttemptTakenOver], None]) -> None:
        """Renew the lease until `finish`, or until another worker has taken it."""
        pause = self._claim.ttl.total_seconds() / _RENEWALS_PER_LEASE
        # Not a task yet: most attempts end before the first renewal.
        self._timer = asyncio.get_running_loop().call_later(pause, self._start_renewing, on_lost)

    def _start_renewing(self, on_lost: Callable[[AttemptTakenOver], None]) -> None:
        self._renewing = asyncio.create_task(self._renew_or_lose(on_lost))

    async def _renew_or_lose(self, on_lost: Callable[[AttemptTakenOver], None]) -> None:
        if not await self._renew():
            on_lost(taken_over(self._claim))
        elif not self._is_over:
            self.keep(on_lost)

    async def finish(self) -> None:
        """The work is done. Waits for a running request to the store, because that may change the fence."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._renewing is not None:
            await asyncio.gather(self._renewing, return_exceptions=True)

    def give_up(self) -> None:
        """Stop renewing, without waiting for a running request to the store."""
        self._is_over = True
        if self._renewing is not None:
            self._renewing.cancel()

    async def _renew(self) -> bool:
        until = self._from_now()
        renewed = await self._writer.outlast(lambda: self._store.renew(self.held, ttl=self._claim.ttl))
        if renewed is not None:
            self._lease, self._until = renewed, until
            return True
        return await self._take_again()

    async def _take_again(self) -> bool:
        """The lease had expired: the store was unavailable, or this process was frozen. It can be reclaimed
        if no other worker has held it since.
        """
        before = self.held.fence.generation
        try:
            started = await self.start((), ())
        except StaleFence:
            return False
        if started.lease is None:
            return False
        if started.lease.fence.generation == before + 1:
            return True
        # Another worker had it and is gone. What that worker did to our processes is unknown.
        await self.release()
        return False

    async def release(self) -> None:
        await self._writer.outlast(lambda: self._store.release(self.held))


def taken_over(claim: AttemptClaim) -> AttemptTakenOver:
    return AttemptTakenOver(
        f"attempt {claim.logical_attempt_id} of {claim.step_id!r} was taken over by another worker; nothing more is "
        "recorded for it here"
    )
