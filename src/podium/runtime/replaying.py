"""A machine as the log leaves it: for those who want to know, and drive nothing."""

from collections.abc import Callable

from podium.log.ids import RunId
from podium.machine import Machine
from podium.plan.plan import Plan
from podium.ports.store import EventLog
from podium.runtime.reading import records_of
from podium.runtime.spilling import Values


async def replayed(
    log: EventLog, run_id: RunId, plan: Plan, payloads: Callable[[], Values] | None = None
) -> Machine:
    machine = Machine(plan)
    async for record in records_of(log, run_id, values=payloads):
        machine.advance(record)
    return machine
