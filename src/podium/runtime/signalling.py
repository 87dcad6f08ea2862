"""Recording a signal on condition that its run is open: after its end nothing could act on it.

Between a look at the run and the append the run may end. So the append names the newest record that was seen; if the
log has moved on, the run is looked at again.
"""

from typing import Final

from podium.errors import LogMoved
from podium.log.events import EventWrite
from podium.log.ids import RunId
from podium.log.transitions import TERMINAL
from podium.ports.store import Store

# A log that moved on so often in a row belongs to a run that is busy: its end is not near enough to be waited for.
_MAX_TRIES: Final = 100


async def append_while_open(store: Store, run_id: RunId, write: EventWrite) -> bool:
    """False if the run has ended: then nothing was recorded."""
    for _ in range(_MAX_TRIES):
        run = await store.get_run(run_id)
        if run.status in TERMINAL:
            return False
        try:
            await store.append(run_id, [write], after=run.head)
        except LogMoved:
            continue
        return True
    await store.append(run_id, [write])
    return True
