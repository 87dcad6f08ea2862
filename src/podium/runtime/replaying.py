"""A machine as the log leaves it: for those who want to know, and drive nothing."""

from collections.abc import Callable

from podium.log.ids import RunId
from podium.machine import Machine
from podium.plan.plan import Plan
from podium.ports.store import EventLog
from podium.runtime.spilling import Values, whole

_READ_BATCH = 5000


async def replayed(
    log: EventLog, run_id: RunId, plan: Plan, payloads: Callable[[], Values] | None = None
) -> Machine:
    machine = Machine(plan)
    while records := await log.read(run_id, after=machine.last_seq, limit=_READ_BATCH):
        for record in records:
            machine.advance(await whole(record, payloads))
    return machine
