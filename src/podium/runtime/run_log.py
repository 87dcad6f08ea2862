"""The log of a run, for the driver that holds its lease; handles outages of the store and expiry of the
lease.

While this process drives the run, other processes may only signal. If another process writes anything else,
it has taken over: then nothing more is written or started here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec

from podium.errors import PodiumError, StaleFence, StoreUnavailable
from podium.log.events import MAX_PAYLOAD_BYTES, EventRecord, EventWrite, RunIdentity
from podium.log.leases import UNFENCED, Fence, WakeUp
from podium.machine.commands import SetTimer
from podium.ports.store import AppendedEvent
from podium.runtime.inbox import PendingEvent
from podium.runtime.outages import Outages
from podium.runtime.reading import READ_BATCH
from podium.runtime.recording import WRITE_BUDGET, Recorder
from podium.runtime.spilling import spill, whole
from podium.runtime.storable import storable_end
from podium.runtime.world import World

_T = TypeVar("_T")
_LOOK_SECONDS: Final = 0.1
# While the store is away.
_LOOK_AGAIN_SECONDS: Final = 0.5


class LogDoesNotFit(PodiumError):
    """The log differs from what the plan leads to: the plan was replaced by hand."""

    code = "LOG_DOES_NOT_FIT"


class LeaseLapsed(Exception):
    """The lease expired while the store was unavailable. Not an answer of the store, which may be readable
    but not writable.
    """


class RunLog:
    def __init__(self, identity: RunIdentity, fence: Fence, world: World, outages: Outages) -> None:
        self._run_id = identity.run_id
        self._fence = fence
        self._store = world.log
        self._values = world.payloads
        self._outages = outages
        self._recorder = Recorder(world.log)
        # While the lease is claimed again: its fence is about to change.
        self._reclaiming: asyncio.Future[None] | None = None
        # What we wrote last, whether or not it was answered.
        self._ours: set[str] = set()
        # What was to be recorded but existed already, if nothing was recorded since.
        self._found_again: EventRecord | None = None

    # --- reading ----------------------------------------------------------------------------------

    async def read(self, after: int, owned_after: int | None) -> list[EventRecord]:
        """The records after `after`, waiting for the store if necessary; none of them may be another
        driver's.

        `owned_after`: the newest record that views know of, once we drive; None before.
        """
        records = await self._outlast(partial(self._store.read, self._run_id, after=after, limit=READ_BATCH))
        for record in records:
            if owned_after is not None and record.run_seq > owned_after and not self._is_ours(record):
                raise StaleFence(
                    f"run {self._run_id!r} was taken over by another process; this one writes nothing more"
                )
        return records

    async def whole(self, record: EventRecord) -> EventRecord:
        """The record with the large values that were moved out of it: the machine needs them, views do not."""
        return await whole(record, self._values)

    def _is_ours(self, record: EventRecord) -> bool:
        return record.event_type in UNFENCED or record.event_id in self._ours

    async def watch(self, last_seq: Callable[[], int], on_more: Callable[[], None]) -> None:
        """Check periodically for signals from other processes. A busy run sees them at its next append
        anyway.
        """
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                more = await self._store.read(self._run_id, after=last_seq(), limit=1)
            except StoreUnavailable as error:
                # A run that has nothing to write continues; the outage is only reported.
                self._outages.failed(error)
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
                continue
            except PodiumError:
                continue
            self._outages.succeeded()
            if more:
                on_more()

    async def _outlast(self, call: Callable[[], Awaitable[_T]]) -> _T:
        try:
            return await call()
        except StoreUnavailable as error:
            return await self._outages.outlast(error, call)

    # --- writing ----------------------------------------------------------------------------------

    async def append(
        self,
        writes: Sequence[EventWrite],
        after: int,
        timers: Sequence[SetTimer],
        dropped: Sequence[str],
        *,
        starts_tasks: bool,
    ) -> Sequence[AppendedEvent]:
        """Append on condition that nothing came after `after`. Raises `LeaseLapsed` if tasks must not start
        any more.
        """
        self._ours = {write.event_id for write in writes}
        append = partial(
            self._recorder.append,
            self._run_id,
            writes,
            after=after,
            set_wake_ups=[WakeUp(run_id=self._run_id, key=timer.key, due=timer.due) for timer in timers],
            drop_wake_ups=dropped,
        )
        try:
            appended = await self._under_fence(append)
        except StoreUnavailable as error:
            again = partial(self._append_again, append, starts_tasks)
            return await self._outages.outlast(error, again, tried=WRITE_BUDGET)
        self._outages.stored()  # the watcher may have noticed an outage during the call
        return appended

    async def _append_again(self, append: Callable[..., Awaitable[_T]], starts_tasks: bool) -> _T:
        """Append after an outage. The lease may have expired, and another run may use the slot: then no task
        starts.
        """
        if starts_tasks and await self._has_lapsed():
            raise LeaseLapsed
        return await self._under_fence(append)

    async def _has_lapsed(self) -> bool:
        fence = self._fence
        held = await self._store.held_lease(self._run_id)
        # If it was claimed again during the request, the fence has changed.
        return fence == self._fence and (held is None or not held.is_live)

    async def _under_fence(self, append: Callable[..., Awaitable[_T]]) -> _T:
        while True:
            fence = self._fence
            try:
                return await append(fence=fence)
            except StaleFence:
                await self._reclaimed()
                if fence == self._fence:
                    raise
            # The lease had expired, and this process has claimed it again.

    def has_written(self, appended: Sequence[AppendedEvent]) -> bool:
        """Whether all of it is ours; existing records may be, if an unanswered append was repeated."""
        return not [one for one in appended if one.duplicate and one.record.event_id not in self._ours]

    def wrote_something(self) -> None:
        self._found_again = None

    def check_that_it_fits(self, appended: Sequence[AppendedEvent]) -> None:
        """Folding the log again helps once. If the same event exists already after that, it would never end."""
        found = appended[-1].record if all(one.duplicate for one in appended) else None
        if found is not None and found == self._found_again:
            of_what = f" of {found.step_id!r}" if found.step_id is not None else ""
            raise LogDoesNotFit(
                f"the plan of run {self._run_id!r} does not match its log: replaying the log leads to "
                f"{found.event_type}{of_what} again (already event {found.run_seq}). Restore the plan that the log was "
                f"written with, or start a new run with `podium rerun {self._run_id}`"
            )
        self._found_again = found

    # --- payloads ---------------------------------------------------------------------------------

    async def make_storable(self, pending: PendingEvent) -> None:
        """Give it a payload that a store accepts. If that is impossible, the step has failed."""
        end = await storable_end(pending.event_type, pending.payload, self._values)
        pending.event_type, pending.payload, pending.encoded = end.event_type, end.payload, end.encoded

    async def spill_large(self, writes: Sequence[EventWrite]) -> list[EventWrite]:
        """Decisions can be large, too: the outputs of a run."""
        return [await self._spilled(write) for write in writes]

    async def _spilled(self, write: EventWrite) -> EventWrite:
        if self._values is None or len(write.payload) <= MAX_PAYLOAD_BYTES:
            return write
        payload = await spill(msgspec.json.decode(write.payload), self._values())
        return msgspec.structs.replace(write, payload=payload)

    # --- the lease --------------------------------------------------------------------------------

    async def prove_lease(self) -> None:
        """Raises `StaleFence` if the run is not ours any more.

        No check can exclude that the lease is lost right after it; only an append can. So a task that may run
        twice may still run beside that of the next driver, if this process is stopped between here and its
        start.
        """
        while True:
            fence = self._fence
            held = await self._outlast(partial(self._store.held_lease, self._run_id))
            if held is not None and held.is_live and held.lease.fence == fence:
                return
            await self._reclaimed()
            if fence == self._fence:
                raise StaleFence(
                    f"run {self._run_id!r} was taken over by another driver; nothing more is started here"
                )

    async def _reclaimed(self) -> None:
        if self._reclaiming is not None:
            await asyncio.wait((self._reclaiming,))

    def begin_reclaiming(self) -> None:
        """The lease has expired and is about to be claimed again: appends that are refused until then are
        retried.
        """
        self._reclaiming = asyncio.get_running_loop().create_future()

    def end_reclaiming(self, fence: Fence) -> None:
        """`fence` is the old one if the claim failed."""
        self._fence = fence
        if self._reclaiming is not None:
            self._reclaiming.set_result(None)
            self._reclaiming = None
