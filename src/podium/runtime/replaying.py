"""A machine in the state that the log leads to: for readers, which drive nothing."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from podium.log.ids import RunId
from podium.machine import Machine
from podium.plan.plan import Plan
from podium.ports.store import Store
from podium.runtime.checkpoints import machine_of, newest_for
from podium.runtime.reading import records_of
from podium.runtime.spilling import Values

# How a machine is found: by replaying the log, or in the cache of a server.
MachineOf: TypeAlias = Callable[[Store, RunId, Plan, Callable[[], Values] | None], Awaitable[Machine]]


async def replayed(
    store: Store, run_id: RunId, plan: Plan, payloads: Callable[[], Values] | None = None
) -> Machine:
    """From the newest checkpoint that fits the plan, else from the start of the log."""
    saved = await newest_for(store, run_id, plan)
    machine = (machine_of(plan, saved) if saved is not None else None) or Machine(plan)
    async for record in records_of(store, run_id, after=machine.last_seq, values=payloads):
        machine.advance(record)
    return machine
