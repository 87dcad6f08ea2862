"""A server's cache of the machines of open runs, so that only new events have to be folded.

Replaying a log of 20,000 events takes half a second, and a page refreshes every few seconds. A cached machine
is used only for the very log that it was made from: the newest record it has folded must still exist.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from podium.log.ids import RunId
from podium.machine import Machine
from podium.plan.plan import Plan
from podium.ports.store import Store
from podium.runtime.reading import records_of
from podium.runtime.replaying import replayed
from podium.runtime.spilling import Values

MAX_MACHINES: Final = 256
# The size of a machine grows with its log: limit for the total number of events.
MAX_EVENTS: Final = 500_000


class _Kept:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        # Concurrent requests fold one after the other.
        self.lock = asyncio.Lock()
        self.machine: Machine | None = None
        # Id of the last record that was folded.
        self.event_id = ""


class OpenMachines:
    """Bounded: the least recently used machine is dropped first, and that of an ended run immediately."""

    def __init__(self, max_machines: int = MAX_MACHINES, max_events: int = MAX_EVENTS) -> None:
        self._max_machines = max_machines
        self._max_events = max_events
        self._kept: OrderedDict[RunId, _Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    async def read(
        self, store: Store, run_id: RunId, plan: Plan, payloads: Callable[[], Values] | None = None
    ) -> Machine:
        """A machine in the current state of the log. It is shared: to change it, use `copy`."""
        kept = self._entry(run_id, plan)
        async with kept.lock:
            await self._fold(kept, store, run_id, payloads)
            assert kept.machine is not None
            machine = kept.machine
        self._make_room(run_id, machine)
        return machine

    async def copy(
        self, store: Store, run_id: RunId, plan: Plan, payloads: Callable[[], Values] | None = None
    ) -> Machine:
        """A copy, for trying something out."""
        machine = await self.read(store, run_id, plan, payloads)
        return Machine.restore(plan, machine.checkpoint())

    def _entry(self, run_id: RunId, plan: Plan) -> _Kept:
        kept = self._kept.get(run_id)
        if kept is None or kept.plan != plan:
            kept = self._kept[run_id] = _Kept(plan)
        self._kept.move_to_end(run_id)
        return kept

    async def _fold(
        self, kept: _Kept, store: Store, run_id: RunId, payloads: Callable[[], Values] | None
    ) -> None:
        machine = kept.machine
        if machine is not None and not await self._is_of_log(kept, machine, store, run_id):
            machine = None
        # Removed while it is folded: a fold that is interrupted leaves an invalid state.
        kept.machine = None
        if machine is None:
            machine = await replayed(store, run_id, kept.plan, payloads)
        else:
            async for record in records_of(store, run_id, after=machine.last_seq, values=payloads):
                machine.advance(record)
        last = await store.read(run_id, after=machine.last_seq - 1, limit=1) if machine.last_seq else []
        kept.machine, kept.event_id = machine, last[0].event_id if last else ""

    async def _is_of_log(self, kept: _Kept, machine: Machine, store: Store, run_id: RunId) -> bool:
        records = await store.read(run_id, after=max(0, machine.last_seq - 1), limit=1)
        return bool(machine.last_seq and records) and records[0].event_id == kept.event_id

    def _make_room(self, asked: RunId, machine: Machine) -> None:
        if machine.terminal:
            self._kept.pop(asked, None)
        while len(self._kept) > self._max_machines or self._events() > self._max_events:
            self._kept.popitem(last=False)

    def _events(self) -> int:
        return sum(one.machine.last_seq for one in self._kept.values() if one.machine is not None)
