"""`on_conflict: cancel` in pools: a new run replaces the oldest run with its concurrency key.

This is decided when the run is created: creating it again by the same request sends the same signals, which
count once.
"""

from uuid import UUID, uuid5

from podium.access.actors import Actor, Method
from podium.log.events import EventType, encode_payload
from podium.log.runs import Run
from podium.log.times import timestamp
from podium.log.transitions import TERMINAL
from podium.ports.clock import Clock
from podium.ports.store import Store
from podium.runtime.signalling import append_while_open, stop_body
from podium.runtime.writing import new_event


async def cancel_older(store: Store, clock: Clock, run: Run) -> None:
    """Cancel as many of the oldest runs with its key as have to end before this one may start."""
    key, limit, run_id = run.concurrency_key, run.concurrency_limit, run.identity.run_id
    if key is None or limit is None or run.status in TERMINAL:
        return
    older = []
    for one in await store.open_of_key(run.identity.tenant_id, key):
        if one.identity.run_id == run_id:
            break
        older.append(one)
    for one in older[: max(0, len(older) - limit + 1)]:
        await _cancel(store, clock, one, run)


async def _cancel(store: Store, clock: Clock, older: Run, run: Run) -> None:
    run_id = run.identity.run_id
    payload = stop_body(
        f"run {run_id} of the same concurrency key has taken its place", Actor(run_id, Method.RUN)
    )
    payload["signalId"] = signal_id = _signal_id(older.identity.run_id, run_id)
    write = new_event(
        older.identity,
        EventType.SIGNAL_ACCEPTED,
        timestamp(clock.now()),
        encode_payload(payload),
        subject=signal_id,
    )
    await append_while_open(store, older.identity.run_id, write)


def _signal_id(older: str, run_id: str) -> str:
    """A deterministic id of version 4, like all ids of signals."""
    name = uuid5(UUID(int=0), f"{older} makes room for {run_id}")
    return str(UUID(int=name.int, version=4))
