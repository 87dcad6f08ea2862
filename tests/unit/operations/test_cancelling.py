"""A cancel beside the driver of the run, at moments that commands rarely meet."""

import asyncio
from typing import Any

from msgspec.structs import replace

from podium.log.ids import DEFAULT_TENANT, RunId
from podium.log.leases import HeldLease, Lease
from podium.log.transitions import RunStatus
from podium.operations.cancel import cancel_run
from podium.operations.parts import Parts
from podium.stores.memory import MemoryStore
from podium.testing.access import owner
from podium.testing.clock import VirtualClock
from podium.testing.events import event
from podium.testing.store_promises import started, types_in

R1 = RunId("r1")


class EndingStore(MemoryStore):
    """The driver of the run records its end while the cancel looks for the driver."""

    ends: Lease | None = None

    async def held_lease(self, run_id: RunId) -> HeldLease | None:
        held = await super().held_lease(run_id)
        lease, self.ends = self.ends, None
        if lease is not None:
            await self.append(run_id, [event(run_id, "RunCompleted")], fence=lease.fence)
        return held


def test_a_cancel_that_is_overtaken_by_the_end_of_the_run_is_one_of_a_run_that_has_ended() -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        store = EndingStore(clock)
        store.ends = await started(store)
        nothing: Any = None
        parts = Parts(store, clock, nothing, nothing, nothing, nothing, nothing)
        asked = await cancel_run(replace(parts, access=lambda: owner("ann")), DEFAULT_TENANT, R1)
        assert (asked.run.status, asked.ready) == (RunStatus.COMPLETED, None)
        assert "SignalAccepted" not in await types_in(store)

    asyncio.run(scenario())
