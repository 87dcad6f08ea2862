"""The environment of a promise: a store, a second handle on the same data, and time that can be advanced."""

from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import Any, Protocol

from podium.log.ids import RunId
from podium.log.leases import Lease
from podium.ports.store import Claimed, Store
from podium.testing.events import event, new_run

R1 = RunId("r1")
TTL = timedelta(seconds=30)


class World(Protocol):
    @property
    def store(self) -> Store: ...

    @property
    def other(self) -> Store: ...

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the store's loop."""
        ...

    def pass_time(self, seconds: float) -> None: ...


async def started(store: Store, run_id: str = "r1", **fields: Any) -> Lease:
    """A run that has started, and the lease of its driver."""
    await store.create_run(new_run(run_id, **fields), [event(run_id, "RunQueued")])
    lease = await store.claim(RunId(run_id), owner="driver", ttl=TTL)
    assert lease is not None
    await store.append(RunId(run_id), [event(run_id, "RunStarted")], fence=lease.fence)
    return lease


async def types_in(store: Store, run_id: str = "r1") -> list[str]:
    return [record.event_type for record in await store.read(RunId(run_id))]


def ids_of(claimed: Sequence[Claimed]) -> list[str]:
    return [one.run.identity.run_id for one in claimed]
