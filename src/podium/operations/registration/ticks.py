"""The time that decides about deadlines: published every second, and read by one instance of the service.

A tick creates one run for each node whose deadline has passed. After a start or an outage of the table, there
may be waiting heartbeats that nodes sent in time: they are processed first, for as long as nodes may be
silent. After a gap between ticks the bus may have been unavailable, so that no node could send: each gets
this time again.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from podium.errors import PodiumError, RunRequestConflict
from podium.log.alerts import AlertCode
from podium.log.messages import Message
from podium.nodes.registration.decoding import Refused, RuntimeTick
from podium.nodes.registration.intake import next_time, overdue_run
from podium.nodes.registration.models.model_orchestrator_config import TimeInjection
from podium.operations.registration.consuming import Patience, wait_for_stop
from podium.operations.registration.counting import Counts
from podium.operations.registration.refusing import Refusals
from podium.operations.registration.runs import Runs
from podium.operations.registration.slots import Slots
from podium.operations.registration.starting import read_body, received_at
from podium.ports.bus import MessageBus
from podium.ports.catalog import CatalogUnavailable, DueNode, RegistrationTable
from podium.ports.clock import Clock
from podium.ports.events_in import EventSource, Incoming

# A longer gap between two ticks means that this process, or the bus, was unavailable. Never less than three
# ticks.
MAX_GAP: Final = timedelta(seconds=15)
MAX_MISSED_TICKS: Final = 3
# All ticks are in one partition, so that they stay in order.
_KEY: Final = "tick"


class Ticker:
    """Publishes the time of this process. Several tickers are harmless, because time is never set back."""

    def __init__(self, bus: MessageBus, topic: str, every: float, clock: Clock, patience: Patience) -> None:
        self._bus = bus
        self._topic = topic
        self._every = every
        self._clock = clock
        self._patience = patience

    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            try:
                await self._bus.send([self._tick()])
            except (PodiumError, OSError) as error:
                await self._patience.after(error)
            else:
                self._patience.over()
                await wait_for_stop(stopping, self._every)

    def _tick(self) -> Message:
        value = msgspec.json.encode({"now": self._clock.now().isoformat()})
        return Message(self._topic, _KEY, value, (("event_type", RuntimeTick.__name__),))


class HeartbeatsFirst:
    """Whether deadlines may be decided about: not while heartbeats from an outage may still arrive."""

    def __init__(self, source: EventSource, limit: timedelta, clock: Clock) -> None:
        self._source = source
        self._limit = limit.total_seconds()
        self._clock = clock
        self._since: float | None = clock.elapsed()
        # If True, an empty topic proves nothing.
        self._bus_was_away = False

    def doubt(self, *, bus_was_away: bool = False) -> None:
        self._since = self._clock.elapsed()
        self._bus_was_away |= bus_was_away

    async def are_counted(self) -> bool:
        if self._since is not None and await self._is_over(self._since):
            self._since, self._bus_was_away = None, False
        return self._since is None

    async def _is_over(self, since: float) -> bool:
        if self._clock.elapsed() - since >= self._limit:
            return True
        return not self._bus_was_away and await self._source.lag() == 0


class Ticks:
    """Handles the messages of the topic."""

    def __init__(
        self,
        source: EventSource,
        table: RegistrationTable,
        runs: Runs,
        slots: Slots,
        heartbeats: HeartbeatsFirst,
        time: TimeInjection,
        refusals: Refusals,
        clock: Clock,
        counts: Counts,
        *,
        max_batch: int,
        every: float,
    ) -> None:
        self._source = source
        self._table = table
        self._runs = runs
        self._slots = slots
        self._heartbeats = heartbeats
        self._time = time
        self._refusals = refusals
        self._clock = clock
        self._counts = counts
        self._max_batch = max_batch
        # The next tick continues from here, so that nodes that remain due do not delay others.
        self._after: DueNode | None = None
        self._max_gap = max(MAX_GAP, timedelta(seconds=MAX_MISSED_TICKS * every))

    async def handle(self, messages: Sequence[Incoming]) -> None:
        for message in messages:
            await self._read(message)
        if self._counts.now is not None:
            await self._find_overdue(self._counts.now)
        self._counts.received[self._time.source_event] += len(messages)

    async def _read(self, message: Incoming) -> None:
        try:
            body = read_body(message, self._time.source_event, self._clock)
        except Refused as refused:
            await self._refusals.bury(self._source, message, refused.code)
            return
        assert isinstance(body, RuntimeTick)
        known = self._counts.now
        now, code = next_time(known, body.now, received_at(message, self._clock))
        if code is not None:
            self._refusals.alert(AlertCode.TICK_REFUSED, code, "a tick is ahead of the time of the bus")
        if now is not None and known is not None and now - known > self._max_gap:
            self._heartbeats.doubt(bus_was_away=True)
        self._counts.now = now

    async def _find_overdue(self, now: datetime) -> None:
        try:
            if not await self._heartbeats.are_counted():
                return
            room = await self._slots.reserve()
            try:
                due = await self._due(now, min(room, self._max_batch))
                await asyncio.gather(*(self._start(one, now) for one in due))
            finally:
                self._slots.release(room)
        except CatalogUnavailable:
            self._heartbeats.doubt()
            raise

    async def _due(self, now: datetime, limit: int) -> list[DueNode]:
        due = await self._table.due(now, limit, self._after) if limit else []
        self._after = due[-1] if due and len(due) == limit else None
        return due

    async def _start(self, due: DueNode, now: datetime) -> None:
        try:
            is_new = await self._runs.create(overdue_run(due, now, self._time))
        except RunRequestConflict:
            is_new = False  # created by an earlier tick, with its time
        self._counts.runs_created += is_new
        self._counts.runs_known += not is_new
