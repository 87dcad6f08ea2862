"""Where a promise is tried: a store, a second handle on the same data, and time that can be made to pass."""

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Protocol

from podium.log.ids import RunId
from podium.log.leases import Lease
from podium.ports.store import Store
from podium.testing.events import event, new_run

R1 = RunId("r1")
TTL = timedelta(seconds=30)


class World(Protocol):
    @property
    def store(self) -> Store: ...

    @property
    def other(self) -> Store: ...

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Drive a coroutine on the loop the store lives on."""
        ...

    def pass_time(self, seconds: float) -> None: ...


async def started(store: Store, run_id: str = "r1", **fields: Any) -> Lease:
    """A run that has begun, and the lease of whoever drives it."""
    await store.create_run(new_run(run_id, **fields), [event(run_id, "RunQueued")])
    lease = await store.claim(RunId(run_id), owner="driver", ttl=TTL)
    assert lease is not None
    await store.append(RunId(run_id), [event(run_id, "RunStarted")], fence=lease.fence)
    return lease


async def types_in(store: Store, run_id: str = "r1") -> list[str]:
    return [record.event_type for record in await store.read(RunId(run_id))]
