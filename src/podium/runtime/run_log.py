"""The log of a run, for the driver that holds its lease: it outlasts outages of the store and lapses of the lease.

While we drive, others may only signal. If another process writes more, it has taken over: then nothing more is
written or started here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from podium.errors import PodiumError, StaleFence, StoreUnavailable
from podium.log.events import (
    MAX_PAYLOAD_BYTES,
    EventRecord,
    EventWrite,
    RunIdentity,
)
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


class LogDoesNotFit(PodiumError):
    """What is in the log is not what the plan leads to: it was replaced by hand."""

    code = "LOG_DOES_NOT_FIT"


class LeaseLapsed(Exception):
    """While the store was away. Not an answer of the store: it may be readable and still not writable."""


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
        # What we wrote last, whether or not that was answered.
        self._ours: set[str] = set()
        # What was to be recorded and was there already, if nothing was recorded since.
        self._found_again: EventRecord | None = None

    # --- reading ----------------------------------------------------------------------------------

    async def read(self, after: int, owned_after: int | None) -> list[EventRecord]:
        """What follows a record, however long the store is away; nothing of it may be another driver's.

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
        """As it was before large values left it: the machine has to see them, views do not."""
        return await whole(record, self._values)

    def _is_ours(self, record: EventRecord) -> bool:
        return record.event_type in UNFENCED or record.event_id in self._ours

    async def has_more(self, after: int) -> bool:
        """Raises `StoreUnavailable` while the store is away."""
        return bool(await self._store.read(self._run_id, after=after, limit=1))

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
        """On condition that nothing came after `after`. Raises `LeaseLapsed` if tasks must not start any more."""
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
        self._outages.stored()  # the watcher may have found the store away meanwhile
        return appended

    async def _append_again(self, append: Callable[..., Awaitable[_T]], starts_tasks: bool) -> _T:
        """After an outage. The lease may have lapsed, and another run may work in the slot: then no task starts."""
        if starts_tasks and await self._has_lapsed():
            raise LeaseLapsed
        return await self._under_fence(append)

    async def _has_lapsed(self) -> bool:
        fence = self._fence
        held = await self._store.held_lease(self._run_id)
        # If it was claimed again while the store was asked, the fence is another one.
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
            # The lease had lapsed, and this process has claimed it again.

    def has_written(self, appended: Sequence[AppendedEvent]) -> bool:
        """Whether all of it is ours; what is there already may be, if an append was not answered and repeated."""
        return not [one for one in appended if one.duplicate and one.record.event_id not in self._ours]

    def wrote_something(self) -> None:
        self._found_again = None

    def check_that_it_fits(self, appended: Sequence[AppendedEvent]) -> None:
        """Folding the log again helps once. If then the same is there already, it would be for ever."""
        found = appended[-1].record if all(one.duplicate for one in appended) else None
        if found is not None and found == self._found_again:
            of_what = f" of {found.step_id!r}" if found.step_id is not None else ""
            raise LogDoesNotFit(
                f"by its plan run {self._run_id!r} would have to record {found.event_type}{of_what}, which "
                f"its log has already as event {found.run_seq}: the plan is not the one that the log was written with; "
                f"restore it, or start a new run with `podium rerun {self._run_id}`"
            )
        self._found_again = found

    # --- payloads ---------------------------------------------------------------------------------

    async def make_storable(self, pending: PendingEvent) -> None:
        """Give it a payload that a store keeps. What cannot be kept is an end too: the step has failed."""
        end = await storable_end(pending.event_type, pending.payload, self._values)
        pending.event_type, pending.payload, pending.encoded = end.event_type, end.payload, end.encoded

    async def spill_large(self, writes: Sequence[EventWrite]) -> list[EventWrite]:
        """Decisions can be large too: the outputs of a run."""
        return [await self._spilled(write) for write in writes]

    async def _spilled(self, write: EventWrite) -> EventWrite:
        if self._values is None or len(write.payload) <= MAX_PAYLOAD_BYTES:
            return write
        payload = await spill(msgspec.json.decode(write.payload), self._values())
        return msgspec.structs.replace(write, payload=payload)

    # --- the lease --------------------------------------------------------------------------------

    async def prove_lease(self) -> None:
        """Raises `StaleFence` if the run is not ours any more.

        No check can rule out that the lease is lost right after it; only an append can. So a task that may run twice
        may still run beside that of the next driver, if this process is stopped between here and its start.
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
        """The lease has lapsed and is about to be claimed again: what is refused meanwhile is tried once more."""
        self._reclaiming = asyncio.get_running_loop().create_future()

    def end_reclaiming(self, fence: Fence) -> None:
        """With the old fence if it was not claimed."""
        self._fence = fence
        if self._reclaiming is not None:
            self._reclaiming.set_result(None)
            self._reclaiming = None
